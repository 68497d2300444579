"""The recorded requests of an arm's traces as one set of flat arrays, and their order of use."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec
import numpy as np

from workbench.errors import InputError
from workbench.schedulers import Scheduler
from workbench.traces import Trace, densify


@dataclass(frozen=True)
class Population:
    """N recorded requests with A anchors in all; request r owns rows ``row_start[r]`` onwards.

    Row ``row_start[r] + i`` is the block drafted when output token i of request r is the anchor.
    """

    traces: tuple[Trace, ...]
    trace_of: np.ndarray  # [N] index into traces
    prompt: np.ndarray  # int64 [N] prompt tokens
    output: np.ndarray  # int64 [N] output tokens, the one that prefill produces included
    arrival_s: np.ndarray  # float64 [N], NaN where the trace has none
    row_start: np.ndarray  # int64 [N + 1]
    accepted: np.ndarray  # [A] drafts that verification of the whole block accepts
    confidence: np.ndarray | None  # float32 [A, γ]
    drawn: np.ndarray | None  # bool [A]: outcome partly drawn, not recorded (coverage "rounds")
    domain: np.ndarray  # int64 [N] index into domain_names
    domain_names: tuple[str, ...]
    session: np.ndarray | None  # int64 [N] prefix-cache key, −1 for none
    cached: np.ndarray | None  # int64 [N] prompt tokens found cached when recorded

    def __setstate__(self, state: dict) -> None:
        """Arrays that compiled functions read stay read-only in another process."""
        self.__dict__.update(state)
        for values in (self.accepted, self.confidence):
            if values is not None:
                values.setflags(write=False)

    @property
    def block_size(self) -> int:
        """γ, the same for all traces of a population."""
        return self.traces[0].header.block_size

    @property
    def temperature(self) -> float:
        """The highest sampling temperature: the one that the lossless verdict has to hold for."""
        return max(trace.header.temperature for trace in self.traces)

    @property
    def confidence_sees(self) -> str:
        """``token`` if any trace's confidence depends on the token it judges, else ``prefix``."""
        seen = {trace.header.confidence_sees for trace in self.traces}
        return "token" if "token" in seen else "prefix"

    @property
    def dense(self) -> bool:
        """Whether every anchor was recorded, so that replay can be exact."""
        return all(trace.header.coverage == "dense" for trace in self.traces)

    @cached_property
    def shortest_path(self) -> np.ndarray:
        """ℓ [A] of a path through the anchors with the fewest rounds to each request's end.

        Dynamic programming from the end, all requests at once: with t tokens left to emit,
        rounds(t) = 1 + min over ℓ ≤ accepted of rounds(t − ℓ − 1). Ties take the longest ℓ.
        """
        left = self.output - 1
        width = self.block_size + 1
        rounds = np.zeros((width, len(left)), np.int64)  # ring over t
        best = np.zeros(len(self.accepted), np.int64)
        for t in range(1, int(left.max(initial=0)) + 1):
            alive = np.flatnonzero(left >= t)
            row = self.row_start[alive] + left[alive] - t
            reach = np.minimum(self.accepted[row].astype(np.int64), t - 1)
            fewest = np.full(len(alive), np.iinfo(np.int64).max)
            length = np.zeros(len(alive), np.int64)
            for drafts in range(min(self.block_size, t - 1) + 1):
                candidate = rounds[(t - drafts - 1) % width, alive]
                better = (drafts <= reach) & (candidate <= fewest)
                fewest = np.where(better, candidate, fewest)
                length = np.where(better, drafts, length)
            rounds[t % width, alive] = fewest + 1
            best[row] = length
        return best


def build_population(traces: Sequence[Trace], rng: np.random.Generator) -> Population:
    """Join traces of one block size; coverage "rounds" is made dense with ``rng`` (design §3)."""
    gamma = traces[0].header.block_size
    for trace in traces[1:]:
        if trace.header.block_size != gamma:
            raise InputError(
                f"block_size {trace.header.block_size} differs from {gamma} of {traces[0].name}",
                file=trace.name,
                place="line 1: block_size",
                mend="mix traces of one block size",
            )
    dense, drawn = zip(*(densify(trace, rng) for trace in traces), strict=True)
    if len({trace.confidence is None for trace in dense}) > 1:
        without = next(trace.name for trace in dense if trace.confidence is None)
        raise InputError(
            "has no confidences while another trace has them",
            file=without,
            mend="mix traces that all carry confidence, or none",
        )
    starts, rows = [np.zeros(1, np.int64)], 0
    for trace in dense:
        starts.append(trace.row_start[1:].astype(np.int64) + rows)
        rows += int(trace.row_start[-1])

    def joined(name: str, dtype=None) -> np.ndarray:
        parts = [getattr(trace, name) for trace in dense]
        whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return whole if dtype is None else whole.astype(dtype)

    counts = [len(trace.ids) for trace in dense]
    names = [trace.domain_names[code] for trace in dense for code in trace.domain.tolist()]
    domain_names, domain = np.unique(np.array(names, str), return_inverse=True)
    sessions = [
        None if key is None else f"{index}:{key}"
        for index, trace in enumerate(dense)
        for key in trace.session or [None] * len(trace.ids)
    ]
    keys = {key: code for code, key in enumerate(dict.fromkeys(s for s in sessions if s))}
    cached = joined("cached_prompt_tokens", np.int64)
    return Population(
        traces=tuple(traces),
        trace_of=np.repeat(np.arange(len(counts)), counts),
        prompt=joined("prompt_tokens", np.int64),
        output=joined("output_tokens", np.int64),
        arrival_s=joined("arrival_s"),
        row_start=np.concatenate(starts),
        accepted=_frozen(joined("accepted")),
        confidence=None if dense[0].confidence is None else _frozen(joined("confidence")),
        drawn=np.concatenate(drawn) if any(mask.any() for mask in drawn) else None,
        domain=domain,
        domain_names=tuple(domain_names.tolist()),
        session=np.array([keys.get(key, -1) for key in sessions]) if keys else None,
        cached=cached if cached.any() else None,
    )


def shortened(population: Population, block_size: int) -> Population:
    """The same recordings where only the first ``block_size`` drafts of each block are used.

    Exact where a drafter's first drafts do not depend on how many follow: sequential drafters, and
    parallel ones that draft their whole block and have it cut. Raises InputError if the blocks
    are shorter.
    """
    recorded = population.block_size
    if not 1 <= block_size <= recorded:
        raise InputError(
            f"{block_size} drafts cannot be used of blocks of {recorded}",
            place="--block-size",
            mend=f"give 1 to {recorded}",
        )
    if block_size == recorded:
        return population
    confidence = population.confidence
    return dataclasses.replace(
        population,
        traces=tuple(
            dataclasses.replace(
                trace, header=msgspec.structs.replace(trace.header, block_size=block_size)
            )
            for trace in population.traces
        ),
        accepted=_frozen(np.minimum(population.accepted, block_size)),
        confidence=None if confidence is None else _frozen(confidence[:, :block_size]),
    )


def require_confidence(population: Population | None, scheduler: Scheduler) -> None:
    """Raises InputError if ``scheduler`` reads confidences and there are none."""
    if not scheduler.needs_confidence or (population and population.confidence is not None):
        return
    raise InputError(
        f"scheduler {scheduler.name} needs confidences, which this trace does not carry"
        if population
        else f"scheduler {scheduler.name} needs a recorded trace",
        file=", ".join(trace.name for trace in population.traces) if population else None,
        place="confidence" if population else "--trace",
        mend="record them, or compare none, static:k and oracle",
    )


def _frozen(values: np.ndarray) -> np.ndarray:
    """Read-only and contiguous, always: compiled functions are made per kind of array."""
    values = np.ascontiguousarray(values)
    values.setflags(write=False)
    return values


def request_order(
    population: Population, weights: np.ndarray, requests: int, rng: np.random.Generator
) -> np.ndarray:
    """Population index [requests] of each request in order of issue.

    Each request's trace is drawn by ``weights`` [traces]; inside a trace, requests come in seeded
    shuffles, each used once before any is used again.
    """
    weights = np.asarray(weights, float) / np.sum(weights)
    choice = (
        np.zeros(requests, np.int64)
        if len(weights) == 1
        else rng.choice(len(weights), size=requests, p=weights)
    )
    order = np.empty(requests, np.int64)
    for index in range(len(weights)):
        mine = np.flatnonzero(population.trace_of == index)
        places = np.flatnonzero(choice == index)
        passes = -(-len(places) // len(mine))
        shuffled = np.concatenate([rng.permutation(mine) for _ in range(passes)] or [mine[:0]])
        order[places] = shuffled[: len(places)]
    return order
