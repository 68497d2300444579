"""What the host adds to a round: reading confidences, building a ragged batch, launching graphs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

from gpu_probe.batch import PAGE_TOKENS
from gpu_probe.rounds import Rounds
from gpu_probe.timing import Stopwatch, Timing, captured, synchronize

ROUNDS = 8  # of one kind before the next


class RaggedInputs:
    """Step inputs from verify lengths, as an engine's host code builds them, in pinned memory."""

    def __init__(self, requests: int, block_size: int, context: int, device: str):
        most = requests * (block_size + 1)
        pages = -(-(context + block_size + 1) // PAGE_TOKENS)
        self.contexts = np.full(requests, context, np.int32)
        self.table = np.arange(requests * pages, dtype=np.int32).reshape(requests, pages)
        pinned = device == "cuda"
        self.staged = torch.zeros(3, most + 1, dtype=torch.int32, pin_memory=pinned)
        self.there = torch.zeros(3, most + 1, dtype=torch.int32, device=device)

    def build(self, lengths: np.ndarray) -> int:
        """Positions, slots and query starts of 1 + ``lengths`` [R] tokens each; returns B."""
        queries = lengths + 1
        starts = np.concatenate([[0], np.cumsum(queries)])
        tokens = int(starts[-1])
        request = np.repeat(np.arange(len(queries)), queries)
        positions = self.contexts[request] + np.arange(tokens) - starts[request]
        slots = self.table[request, positions // PAGE_TOKENS] * PAGE_TOKENS
        staged = self.staged.numpy()
        staged[0, :tokens] = positions
        staged[1, :tokens] = slots + positions % PAGE_TOKENS
        staged[2, : len(starts)] = starts
        self.there.copy_(self.staged, non_blocking=True)
        return tokens


def _host_seconds(work: Callable[[], object], repeats: int) -> float:
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return Timing.of(seconds).median


def host_costs(rounds: Rounds, requests: int, context: int) -> dict:
    """Seconds per round at R requests; rounds without either read or inputs are what is subtracted.

    sync: blocking read of the γ confidences of each request between draft and verification, then
    the ragged inputs from them. async: the inputs built from confidences of an earlier round while
    the card works. Blocks of the three kinds of rounds alternate, so that a drift of the clocks
    meets all alike; ``*_spread`` is p90 − p10 of the blocks' differences, in seconds. launch,
    build, read: each alone; read_overlapped: the read issued behind a running step.

    Verification has one token per request: what the host does does not depend on it, and a short
    step drowns it least.
    """
    probe, size = rounds.probe, rounds.block_size
    device, repeats = probe.device, probe.repeats
    draft = rounds.draft([context] * requests, size)
    verify = probe.step([1] * requests, [probe.grid.curve_contexts[0]] * requests)
    inputs = RaggedInputs(requests, size, context, device)
    kept = torch.rand(size, requests, device=device)
    pinned = torch.empty(kept.shape, pin_memory=device == "cuda")
    lengths = np.full(requests, size)

    def read() -> np.ndarray:
        pinned.copy_(kept, non_blocking=True)
        if device == "cuda":
            torch.cuda.current_stream().synchronize()
        return (np.cumprod(pinned.numpy(), 0) > 0.1).sum(0)

    with captured(draft, device) as first, captured(verify, device) as then:

        def loop(kind: str) -> float:
            """Median seconds of a round from one draft's start to the next's."""
            watch = Stopwatch(device)
            for _ in range(ROUNDS):
                watch.mark()
                first()
                if kind == "sync":
                    inputs.build(read())
                elif kind == "async":
                    inputs.build(lengths)
                then()
            watch.mark()
            return statistics.median(watch.between()[1:])  # the first starts on an idle card

        loop("sync")
        blocks = [
            {kind: loop(kind) for kind in ("free", "async", "sync")}
            for _ in range(max(5, repeats // 3))
        ]
        synchronize(device)
        launch = _host_seconds(then, 5)
        start = time.perf_counter()
        pinned.copy_(kept, non_blocking=True)
        overlapped = time.perf_counter() - start
        synchronize(device)

    def one_read() -> None:
        synchronize(device)
        read()

    more = {
        kind: Timing.of([block[kind] - block["free"] for block in blocks])
        for kind in ("sync", "async")
    }
    return {
        "requests": requests,
        "round": Timing.of([block["free"] for block in blocks]).median,
        "sync": max(0.0, more["sync"].median),
        "sync_spread": more["sync"].p90 - more["sync"].p10,
        "async": max(0.0, more["async"].median),
        "async_spread": more["async"].p90 - more["async"].p10,
        "launch": launch,
        "build": _host_seconds(lambda: inputs.build(lengths), repeats),
        "read": _host_seconds(one_read, repeats),
        "read_overlapped": overlapped,
    }
