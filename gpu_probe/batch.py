"""One step's batch: which tokens, at which positions, on which cache pages."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from gpu_probe.plan import Plan, make_plan

PAGE_TOKENS = 16


def pages_needed(requests: int, tokens: int) -> int:
    """Cache pages of ``requests`` requests of ``tokens`` tokens each (context and new ones)."""
    return requests * -(-tokens // PAGE_TOKENS)


@dataclass(frozen=True)
class Batch:
    """R requests with B query tokens in all, each request after its own context.

    tokens, slots int64 [B]; positions int32 [B]; query_starts int32 [R+1]; lengths int32 [R]
    (context and query tokens); table int32 [R, pages] (page numbers, in order). Tokens past
    ``live`` only fill a captured size: they pass through the layers and belong to no request.
    """

    tokens: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor
    query_starts: torch.Tensor
    lengths: torch.Tensor
    table: torch.Tensor
    query_max: int
    length_max: int
    live: int
    length_mean: float
    plans: dict = field(default_factory=dict, repr=False, compare=False)

    @property
    def requests(self) -> int:
        return len(self.lengths)

    def first(self, requests: int, query_max: int, tokens: int) -> Batch:
        """The view of attention on the first ``requests``, which have ``tokens`` queries."""
        lengths = self.lengths[:requests]
        return dataclasses.replace(
            self,
            query_starts=self.query_starts[: requests + 1],
            lengths=lengths,
            length_max=int(lengths.max()),
            length_mean=float(lengths.double().mean()),
            table=self.table[:requests],
            query_max=query_max,
            live=tokens,
            plans={},
        )

    def plan(self, kv_heads: int, programs: int, tokens: int) -> Plan:
        """How attention deals this batch's keys to programs; made once, so that graphs replay."""
        starts, lengths = self.query_starts, self.lengths
        return self.once(
            (kv_heads, programs, tokens),
            lambda: make_plan(
                starts.tolist(), lengths.tolist(), kv_heads, programs, tokens, str(lengths.device)
            ),
        )

    def once(self, key: tuple, make: Callable[[], Any]) -> Any:
        """What ``make`` returns, made at the first call with this ``key``: outside any graph."""
        if key not in self.plans:
            self.plans[key] = make()
        return self.plans[key]


def split_evenly(total: int, parts: int) -> list[int]:
    """``total`` tokens over ``parts`` requests, as evenly as whole tokens allow."""
    return [total // parts + (i < total % parts) for i in range(parts)]


def spread_evenly(mean: int, count: int) -> list[int]:
    """``count`` numbers from half to one and a half of ``mean``, whose mean they keep.

    In a fixed random order: neighbours differ, as requests in a batch do.
    """
    # sums of the first i: differences of rounded sums lose nothing
    sums = [i * (count + i) * mean // (2 * count) for i in range(count + 1)]
    values = [b - a for a, b in itertools.pairwise(sums)]
    return random.Random(0).sample(values, count)


def make_batch(
    queries: list[int],
    contexts: list[int],
    pages: int,
    vocabulary: int,
    device: str,
    generator: torch.Generator,
    padded: int = 0,
) -> Batch:
    """A batch of random tokens on randomly scattered pages out of ``pages`` (CPU ``generator``).

    queries, contexts: per request, the new tokens of this step and those already cached.
    padded: all tokens of the step, those that fill a captured size included.
    """
    lengths = [q + c for q, c in zip(queries, contexts, strict=True)]
    per_request = [-(-length // PAGE_TOKENS) for length in lengths]
    spare = sum(queries) < padded
    if sum(per_request) + spare > pages:
        raise ValueError(f"{sum(per_request) + spare} pages needed, {pages} there")
    # a cache that has served a while is fragmented, so neighbours in a request are not in memory
    free = torch.randperm(pages - spare, generator=generator, dtype=torch.int32)
    table = torch.zeros(len(lengths), max(per_request), dtype=torch.int32)
    taken = 0
    for r, n in enumerate(per_request):
        table[r, :n] = free[taken : taken + n]
        taken += n
    request = torch.repeat_interleave(torch.arange(len(queries)), torch.tensor(queries))
    starts = torch.tensor([0, *queries]).cumsum(0)
    inside = torch.arange(int(starts[-1])) - starts[request]
    positions = torch.tensor(contexts)[request] + inside
    slots = table[request, positions // PAGE_TOKENS].long() * PAGE_TOKENS + positions % PAGE_TOKENS
    live = int(starts[-1])
    fill = max(0, padded - live)
    positions = torch.cat([positions, torch.zeros(fill, dtype=positions.dtype)])
    # fillers write to a page that no request reads: the last one, where there is one to spare
    slots = torch.cat([slots, torch.full((fill,), pages * PAGE_TOKENS - 1)])
    tokens = torch.randint(vocabulary, (live + fill,), generator=generator)
    return Batch(
        tokens=tokens.to(device),
        positions=positions.int().to(device),
        slots=slots.to(device),
        query_starts=starts.int().to(device),
        lengths=torch.tensor(lengths, dtype=torch.int32).to(device),
        table=table.to(device),
        query_max=max(queries),
        length_max=max(lengths),
        live=live,
        length_mean=sum(lengths) / len(lengths),
    )
