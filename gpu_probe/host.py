"""What the host adds to a round: reading confidences, building a ragged batch, launching graphs."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch

from gpu_probe.batch import PAGE_TOKENS
from gpu_probe.rounds import Rounds
from gpu_probe.timing import Stopwatch, Timing, captured, synchronize


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
    """Seconds per round at R requests.

    sync: blocking read of the γ confidences of each request between draft and verification, then
    the ragged inputs from them, against the same loop without either. async: a loop that builds
    the inputs from confidences of an earlier round while the card works, above its two graphs.
    launch, build, read: each alone; read_overlapped: the read issued behind a running step.
    """
    probe, size = rounds.probe, rounds.block_size
    device, repeats = probe.device, probe.repeats
    draft = rounds.draft([context] * requests, size)
    verify = probe.step([size + 1] * requests, [probe.grid.reference_context] * requests)
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

        def loop(mode: str) -> tuple[float, float]:
            """Seconds per round, and the part of them that the graphs do not take."""
            watch = Stopwatch(device)
            for _ in range(repeats):
                watch.mark()
                first()
                watch.mark()
                if mode == "sync":
                    inputs.build(read())
                elif mode == "async":
                    inputs.build(lengths)
                watch.mark()
                then()
                watch.mark()
            between = watch.between()  # draft, gap, verification, gap, draft, …
            return sum(between) / repeats, sum(between[1::2]) / repeats

        loop("sync")
        # alternated, so that a drift of the clocks meets all alike
        triples = [(loop("free"), loop("async"), loop("sync")) for _ in range(3)]
        synchronize(device)
        launch = _host_seconds(then, 5)
        start = time.perf_counter()
        pinned.copy_(kept, non_blocking=True)
        overlapped = time.perf_counter() - start
        synchronize(device)

    def one_read() -> None:
        synchronize(device)
        read()

    return {
        "requests": requests,
        "round": Timing.of([free[0] for free, _, _ in triples]).median,
        "sync": max(0.0, Timing.of([s[0] - f[0] for f, _, s in triples]).median),
        "async": max(0.0, Timing.of([a[1] for _, a, _ in triples]).median),
        "launch": launch,
        "build": _host_seconds(lambda: inputs.build(lengths), repeats),
        "read": _host_seconds(one_read, repeats),
        "read_overlapped": overlapped,
    }
