"""Medians of repeated runs: CUDA-graph replays timed by events, or wall clock on a CPU."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Timing:
    """Seconds of the repeats: median, 10th and 90th percentile."""

    median: float
    p10: float
    p90: float
    repeats: int

    @property
    def spread(self) -> float:
        """(p90 − p10) ÷ median."""
        return (self.p90 - self.p10) / self.median if self.median else 0.0

    @classmethod
    def of(cls, seconds: list[float]) -> Timing:
        if len(seconds) == 1:
            return cls(seconds[0], seconds[0], seconds[0], 1)
        tenths = statistics.quantiles(seconds, n=10, method="inclusive")
        return cls(statistics.median(seconds), tenths[0], tenths[-1], len(seconds))


@contextmanager
def captured(work: Callable[[], object], device: str) -> Iterator[Callable[[], object]]:
    """``work`` as a CUDA graph, warmed up; the replaying function. On a CPU ``work`` itself."""
    if device != "cuda":
        work()
        yield work
        return
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # compiles kernels and picks matrix-product algorithms
        for _ in range(2):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    try:
        yield graph.replay
    finally:
        torch.cuda.synchronize()
        graph.reset()
        torch.cuda.empty_cache()


class Stopwatch:
    """Marks in the device's stream (or on the host's clock, on a CPU), read when all is done."""

    def __init__(self, device: str):
        self._cuda = device == "cuda"
        self._marks: list = []

    def mark(self) -> None:
        if self._cuda:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self._marks.append(event)
        else:
            self._marks.append(time.perf_counter())

    def between(self) -> list[float]:
        """Seconds between successive marks."""
        if not self._cuda:
            return [b - a for a, b in itertools.pairwise(self._marks)]
        torch.cuda.synchronize()
        return [a.elapsed_time(b) / 1e3 for a, b in itertools.pairwise(self._marks)]


def timed(run: Callable[[], object], device: str, repeats: int, settle: float = 0.0) -> Timing:
    """Device time of each of ``repeats`` runs, queued one after the other.

    First runs three times, and on for ``settle`` seconds: under the power limit a card takes that
    long to find its clock, and what is wanted is the time of a step among many like it.
    """
    start = time.perf_counter()
    warm = 0
    while warm < 3 or time.perf_counter() - start < settle:
        run()
        warm += 1
        if warm % 3 == 0:
            synchronize(device)
    watch = Stopwatch(device)
    for _ in range(repeats):
        watch.mark()
        run()
        watch.mark()
    return Timing.of(watch.between()[::2])


def timed_graph(
    work: Callable[[], object], device: str, repeats: int, settle: float = 0.0
) -> Timing:
    """``timed`` over replays of ``work`` captured as a CUDA graph."""
    with captured(work, device) as replay:
        return timed(replay, device, repeats, settle)


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def wall(run: Callable[[], object], device: str, repeats: int, warmup: int = 2) -> Timing:
    """Wall-clock time of each run, from an idle device to an idle device again."""
    for _ in range(warmup):
        run()
    seconds = []
    for _ in range(repeats):
        synchronize(device)
        start = time.perf_counter()
        run()
        synchronize(device)
        seconds.append(time.perf_counter() - start)
    return Timing.of(seconds)
