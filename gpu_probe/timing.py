"""Medians of repeated runs: CUDA-graph replays timed by events, or wall clock on a CPU."""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

SETTLED = 0.004  # slices that differ less are of one clock
STEADY = 0.003  # a median that moves less is found


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
        work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    try:
        yield graph.replay
    finally:
        torch.cuda.synchronize()
        graph.reset()  # the next capture gives its memory back


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


def settled(
    run: Callable[[], object], device: str, slice_seconds: float, most: float, least: float = 0.0
) -> None:
    """Runs until the card has found its clock under this very load.

    Under the power limit a clock only sinks, and begins to only after a while. Slices of
    ``slice_seconds`` are run until three in a row agree within SETTLED and ``least`` seconds have
    passed, for ``most`` seconds at most; at least three runs without a limit.
    """
    clock = time.perf_counter
    for _ in range(2):
        run()
    synchronize(device)
    start = clock()
    run()
    synchronize(device)
    count = max(1, math.ceil(slice_seconds / max(clock() - start, 1e-6))) if most else 0
    rates: list[float] = []
    while most and clock() - start < most:
        begin = clock()
        for _ in range(count):
            run()
        synchronize(device)
        rates.append(clock() - begin)
        last = rates[-3:]
        if clock() - start < least:
            continue
        if len(last) == 3 and max(last) - min(last) <= SETTLED * min(last):
            break


def timed_in_order(
    runs: Sequence[Callable[[], object]],
    device: str,
    repeats: int,
    settle: float = 0.0,
    least: float = 0.0,
    span: float = 0.0,
) -> list[Timing]:
    """Device time of ``runs`` one after the other: of all together, then of each.

    At most ``repeats`` times, queued without a pause; fewer when a third more no longer moves the
    median by STEADY; more until they have taken ``span`` seconds. Before them the clock is given
    ``least`` seconds and up to ``settle`` more.
    """

    def once() -> None:
        for run in runs:
            run()

    settled(once, device, settle / 16, least + settle, least)
    rows: list[list[float]] = []
    median = taken = 0.0
    batch, step = max(3, repeats // 3), len(runs) + 1
    while len(rows) < repeats or taken < span:
        watch = Stopwatch(device)
        once()  # the first after a pause starts late
        for _ in range(batch if span else min(batch, repeats - len(rows))):
            watch.mark()
            for run in runs:
                run()
                watch.mark()
        between = watch.between()
        rows += [between[i : i + step - 1] for i in range(0, len(between), step)]
        before, median = median, statistics.median(map(sum, rows))
        taken = sum(map(sum, rows))
        if abs(median - before) <= STEADY * median and taken >= span:
            break
    return [
        Timing.of([sum(row) for row in rows]),
        *map(Timing.of, map(list, zip(*rows, strict=True))),
    ]


def timed(
    run: Callable[[], object],
    device: str,
    repeats: int,
) -> Timing:
    """``timed_in_order`` of one run, without a wait for the clock."""
    return timed_in_order([run], device, repeats)[0]


def timed_graph(work: Callable[[], object], device: str, repeats: int) -> Timing:
    """``timed`` over replays of ``work`` captured as a CUDA graph."""
    with captured(work, device) as replay:
        return timed(replay, device, repeats)


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
