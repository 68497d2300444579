"""What it does to the accepted length which rounds of a replay are counted.

Live decoding counts rounds in whose step all R requests of the lane decoded. The simulator counts
those of its steady window. A replay can count them all.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np

from workbench.profiles import Profile, StepCost, default_profile_name, read_profile
from workbench.serving import Arm, Demand, Load, Options, build_population, stream
from workbench.traces import Trace, rounds_of

WIDTH = 512  # requests that decode at once, all lanes together


class Rounds(NamedTuple):
    """One request's rounds in order: tokens that each emits, its end not clipped."""

    emitted: np.ndarray  # [n]
    inner: np.ndarray  # bool [n], false for the round that reaches the end


def pooled(traces: Sequence[Trace]) -> Trace:
    """Dense traces of one drafter as one, so that each request comes as often as any other."""
    joined = {
        name: np.concatenate([getattr(trace, name) for trace in traces])
        for name in ("prompt_tokens", "output_tokens", "arrival_s", "cached_prompt_tokens",
                     "accepted", "confidence")
    }  # fmt: skip
    anchors = np.concatenate([np.diff(trace.row_start) for trace in traces])
    return replace(
        traces[0],
        ids=[name for trace in traces for name in trace.ids],
        domain=np.zeros(len(anchors), np.int16),
        extra=[b""] * len(anchors),
        row_start=np.concatenate([[0], np.cumsum(anchors)]),
        **joined,
    )


def rounds_by_request(trace: Trace, lengths: np.ndarray) -> list[Rounds]:
    """The replay of a dense ``trace`` with ``lengths`` [A] drafts verified at each anchor."""
    kept = np.minimum(lengths, trace.accepted).astype(trace.accepted.dtype)
    rounds = rounds_of(replace(trace, accepted=kept))
    request = trace.row_request()[rounds.row]
    ends = np.searchsorted(request, np.arange(trace.requests + 1))
    return [
        Rounds(1 + kept[rounds.row[a:b]].astype(int), ~rounds.reaches_end[a:b])
        for a, b in pairwise(ends)
    ]


def lengths(trace: Trace, spec: str) -> np.ndarray:
    """ℓ [A] of ``static:k`` or ``threshold:h``, which look at one request only."""
    kind, _, number = spec.partition(":")
    if kind == "static":
        return np.full(trace.rows, int(number))
    keep = trace.confidence >= np.float32(number)
    return np.logical_and.accumulate(keep, axis=1).sum(axis=1)


def in_full_lanes(rounds: Sequence[int], lanes: int, running: int) -> np.ndarray:
    """Of each request's ``rounds``, how many run while its lane has ``running`` requests; int [n].

    Requests go in order to the next free slot of any lane, as ``Decoder`` hands them out.
    """
    free = [(0, slot) for slot in range(lanes * running)]  # step from which on, slot
    start, owner = np.zeros(len(rounds), int), np.zeros(len(rounds), int)
    for i, count in enumerate(rounds):
        start[i], owner[i] = heapq.heappop(free)
        heapq.heappush(free, (start[i] + count, owner[i]))
    empty = np.array([step for step, _ in sorted(free, key=lambda pair: pair[1])])
    until = empty.reshape(lanes, running).min(axis=1)  # then a lane is short of a request
    return np.clip(until[owner // running] - start, 0, rounds)


def accepted_length(rounds: Sequence[Rounds], first: Sequence[int] | None = None) -> float:
    """τ over the inner rounds, of each request only the ``first`` so many if given."""
    upto = [None] * len(rounds) if first is None else first
    return float(np.mean(np.concatenate(
        [r.emitted[:n][r.inner[:n]] for r, n in zip(rounds, upto, strict=True)])))  # fmt: skip


def profile() -> Profile:
    """The default one without what depends on context and prompts: the live loop has neither."""
    return msgspec.structs.replace(read_profile(default_profile_name), attention=None,
                                   prefill=None, mixed=None)  # fmt: skip


def simulated(trace: Trace, spec: str, running: int) -> float:
    """Accepted length that the simulator gives: one engine, steady window, no cost of memory."""
    population = build_population([trace], stream(0, "population"))
    arm = Arm(spec, StepCost(profile()), options=Options(kv_tokens=1 << 30))
    requests = max(trace.requests, 8 * running)
    run = arm.run(Demand(population, requests=requests), Load(concurrency=running))
    run.run()
    return run.result()["accepted_length"]
