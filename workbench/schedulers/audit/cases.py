"""Small worlds in which a scheduler's output distribution can be enumerated exactly."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

MAX_LAG = 6  # a case needs lag + 1 rounds; the paths grow exponentially with them


@dataclass(frozen=True)
class Case:
    """R requests, a vocabulary of V tokens, blocks of γ drafts, L output tokens per request.

    Target and drafter are Markov: their next token depends on the last one, the drafter's also on
    the position in the block. Confidence k depends on the anchor and the drafts before k
    (``sees == "prefix"``) or on draft k too (``"token"``). A step's seconds depend on B alone.
    """

    name: str
    sees: str
    target: np.ndarray  # [R, V, V] p_t(next | last)
    draft: np.ndarray  # [R, γ, V, V] p_d of each position
    confidence: tuple[np.ndarray, ...]  # for k = 0..γ−1: [R, V, … ] with k + 1 (prefix) token axes
    seconds: np.ndarray  # [R·(1+γ)] T(B) at B = 1..R·(1+γ)
    horizon: int  # L

    @property
    def requests(self) -> int:
        """R."""
        return self.draft.shape[0]

    @property
    def block_size(self) -> int:
        """γ."""
        return self.draft.shape[1]

    @property
    def vocabulary(self) -> int:
        """V; tokens are printed as A, B, C, …"""
        return self.draft.shape[2]

    def confidences(self, request: int, anchor: int, block: tuple[int, ...]) -> tuple[float, ...]:
        """c_1..c_d of a drafted block of d tokens."""
        seen = (request, anchor, *block)
        ahead = 2 if self.sees == "prefix" else 3
        return tuple(float(self.confidence[k][seen[: k + ahead]]) for k in range(len(block)))

    def target_outputs(self, request: int) -> np.ndarray:
        """The target's own distribution over the request's L tokens, [V**L]; the anchor is A."""
        outputs, last = np.ones(1), np.zeros(1, int)
        for _ in range(self.horizon):
            outputs = (outputs[:, None] * self.target[request, last]).ravel()
            last = np.tile(np.arange(self.vocabulary), len(last))
        return outputs


def appendix() -> Case:
    """The counterexample of DSpark's appendix A: one request, two tokens, γ = 2."""
    target = np.tile([0.7, 0.3], (1, 2, 1))
    draft = np.full((1, 2, 2, 2), 0.5)
    first = np.full((1, 2), 0.8)
    second = np.tile([0.9, 0.0], (1, 2, 1))  # after draft A, after draft B
    seconds = 1 / np.array([1.0, 0.5, 0.45])
    return Case("DSpark appendix A", "prefix", target, draft, (first, second), seconds, horizon=1)


def battery(
    sees: str,
    seed: int = 0,
    lag: int = 0,
    block_size: int = 3,
    vocabulary: int = 3,
    requests: int = 3,
) -> Iterator[Case]:
    """Random cases up to the given sizes, each long enough for a past of ``lag`` steps to matter.

    The appendix's case comes first (also for ``"token"``: what sees the token may ignore it).
    """
    yield appendix()
    rng = np.random.default_rng(seed)
    shapes = [
        shape
        for shape in _shapes(sees, lag, block_size, vocabulary)
        if shape[0] <= requests and shape[1] <= vocabulary
    ]
    costs = itertools.cycle(_COSTS)
    for (count, tokens, gamma, horizon), kind in itertools.product(shapes, _CONFIDENCES):
        cost = next(costs)
        target = rng.dirichlet(np.ones(tokens), (count, tokens))
        draft = rng.dirichlet(np.ones(tokens), (count, gamma, tokens))
        yield Case(
            f"R={count} V={tokens} γ={gamma} L={horizon}, {kind} confidence, {cost} cost",
            sees,
            target,
            draft,
            _CONFIDENCES[kind](rng, sees, target, draft),
            _COSTS[cost](rng, count * (1 + gamma)),
            horizon,
        )


def _shapes(
    sees: str, lag: int, block_size: int, vocabulary: int
) -> Iterator[tuple[int, int, int, int]]:
    """(R, V, γ, L) that enumerate in seconds at most.

    A past of ``lag`` steps matters from L = lag + 1 on; one request alone always gets that far,
    several do up to lags of 2, or 3 where confidences see only the prefix.
    """
    for gamma in range(min(2, block_size), block_size + 1):
        if gamma == 2 or gamma == block_size:
            reaching = max(4, lag + 1)
            yield 1, 2, gamma, {1: reaching, 2: reaching, 3: 4}.get(gamma, 3)
        if gamma <= 2:
            yield 2, 2, gamma, 4 if lag == 3 and sees == "prefix" else 3
            yield 3, 2, gamma, 3
            for tokens in range(3, vocabulary + 1):
                yield 1, tokens, gamma, 3
        elif gamma == 3 and (sees == "prefix" or not lag):
            yield 2, 2, gamma, 3


def _sizes(sees: str, draft: np.ndarray) -> list[tuple[int, ...]]:
    """Shape of each position's confidence table: the anchor and every draft that c_k sees."""
    count, gamma, tokens, _ = draft.shape
    anchor = 1 if sees == "prefix" else 2
    return [(count,) + (tokens,) * (k + anchor) for k in range(gamma)]


def _independent(rng, sees, target, draft):
    """Drawn without regard to the truth, 0 and 1 often: every threshold lies between some two."""
    uniform = [rng.random(size) for size in _sizes(sees, draft)]
    return tuple(np.where(rng.random(u.shape) < 0.3, u.round(), u) for u in uniform)


def _tied(rng, sees, target, draft):
    """From a handful of values, so that survivals of different tokens and requests are equal."""
    return tuple(rng.choice([0.0, 0.5, 0.8, 1.0], size) for size in _sizes(sees, draft))


def _honest(rng, sees, target, draft):
    """The exact chance: 1 − TV of the two distributions, or of the chosen token if it is seen."""
    tables = []
    for k, size in enumerate(_sizes(sees, draft)):
        p_t, p_d = target, draft[:, k]
        if sees == "prefix":
            chance = np.minimum(p_t, p_d).sum(axis=-1)  # [R, last]
        else:
            chance = np.minimum(1.0, p_t / p_d)  # [R, last, token]
        older = (1,) * (len(size) - chance.ndim)
        tables.append(np.broadcast_to(chance.reshape(size[:1] + older + chance.shape[1:]), size))
    return tuple(tables)


_CONFIDENCES = {"independent": _independent, "tied": _tied, "honest": _honest}

# seconds at B = 1..most: each takes the generator and most
_COSTS = {
    "flat": lambda rng, most: np.full(most, 1.0),
    "linear": lambda rng, most: 1.0 + rng.uniform(0.05, 0.6) * np.arange(most),
    "staircase": lambda rng, most: 1.0 + np.cumsum(rng.choice([0.0, 0.0, 0.9], most)),
    "appendix": lambda rng, most: 1.0 / np.concatenate([[1.0], 0.5 * 0.9 ** np.arange(most - 1)]),
    "random": lambda rng, most: np.sort(rng.uniform(0.5, 3.0, most)),
}
