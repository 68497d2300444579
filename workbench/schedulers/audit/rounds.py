"""One decode round of one request, in every way it can go: drafts, acceptances, next token."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from workbench.schedulers.audit.cases import Case


@dataclass(frozen=True)
class Signal:
    """What a scheduler can tell apart about one request's draft, and the drafts behind it."""

    confidence: tuple[float, ...]  # c_1..c_d
    accepted: int | None  # leading accepted drafts, told to hindsight schedulers only
    blocks: tuple[tuple[int, ...], ...]  # drafts x_1..x_d that look like this

    @cached_property
    def survival(self) -> tuple[float, ...]:
        """a_1..a_d."""
        return tuple(itertools.accumulate(self.confidence, lambda a, c: a * c))


@dataclass(frozen=True)
class Ending:
    """Ways for a round to end that leave the request in the same state."""

    weights: np.ndarray  # [V**n] probability of the n tokens emitted before the new anchor
    paths: int  # (draft, accepted, next token) triples of positive probability
    anchor: int | None  # None: the request has all its tokens, and weights cover the last ones
    left: int  # tokens still to emit


class Rounds:
    """Rounds of a case. Cached: neither depends on the scheduler's history."""

    def __init__(self, case: Case, hindsight: bool):
        self.case, self.hindsight = case, hindsight
        self._signals: dict[tuple, tuple[Signal, ...]] = {}
        self._endings: dict[tuple, tuple[Ending, ...]] = {}

    def signals(self, request: int, anchor: int, drafts: int) -> tuple[Signal, ...]:
        """The distinguishable drafts of ``drafts`` tokens that the drafter can make."""
        key = (request, anchor, drafts)
        if key not in self._signals:
            groups: dict[tuple, list[tuple[int, ...]]] = {}
            for block in itertools.product(range(self.case.vocabulary), repeat=drafts):
                row = self.case.confidences(request, anchor, block)
                for accepted, probability in self._acceptances(request, anchor, block):
                    told = accepted if self.hindsight else None
                    group = groups.setdefault((row, told), [])
                    if probability > 0 and block not in group:
                        group.append(block)
            self._signals[key] = tuple(
                Signal(row, told, tuple(blocks)) for (row, told), blocks in groups.items() if blocks
            )
        return self._signals[key]

    def endings(
        self, request: int, anchor: int, signal: Signal, length: int, left: int
    ) -> tuple[Ending, ...]:
        """How the round ends if ``length`` drafts are verified and ``left`` tokens are wanted."""
        key = (request, anchor, signal, length, left)
        if key not in self._endings:
            self._endings[key] = tuple(self._enumerate(*key))
        return self._endings[key]

    def _acceptances(self, request, anchor, block):
        """(a, P(x) · P(a | x)) for a = 0..d leading accepted drafts of ``block``."""
        case, before = self.case, (anchor, *block)
        drafted = [case.draft[request, k, before[k], token] for k, token in enumerate(block)]
        reach = math.prod(drafted)
        if reach == 0:
            return
        for k, token in enumerate(block):
            accept = min(1.0, case.target[request, before[k], token] / drafted[k])
            yield k, reach * (1 - accept)
            reach *= accept
        yield len(block), reach

    def _next_token(self, request: int, kept: int, last: int, rejected: bool) -> np.ndarray:
        """[V]: the target's distribution, or its residual over the drafter's after a rejection."""
        p_t = self.case.target[request, last]
        if not rejected:
            return p_t
        residual = np.maximum(0.0, p_t - self.case.draft[request, kept, last])
        return residual / residual.sum()

    def _enumerate(self, request, anchor, signal, length, left):
        tokens = self.case.vocabulary
        weights: dict[tuple, np.ndarray] = {}
        paths: dict[tuple, int] = {}
        for block in signal.blocks:
            for accepted, probability in self._acceptances(request, anchor, block):
                if probability == 0 or signal.accepted not in (None, accepted):
                    continue
                kept = min(length, accepted)
                last = block[kept - 1] if kept else anchor
                following = self._next_token(request, kept, last, rejected=kept < length)
                for token in np.flatnonzero(following).tolist():
                    emitted = (*block[:kept], token)
                    finished = len(emitted) >= left
                    end = (None, left) if finished else (token, len(emitted))
                    before = emitted[:left] if finished else emitted[:-1]
                    index = 0
                    for one in before:
                        index = index * tokens + one
                    if end not in weights:
                        weights[end], paths[end] = np.zeros(tokens ** len(before)), 0
                    weights[end][index] += probability * following[token]
                    paths[end] += 1
        for (last, count), weight in weights.items():
            yield Ending(weight, paths[last, count], last, left - count)
