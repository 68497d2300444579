"""From an enumerated bias to a sentence: which draft leads to which ℓ, and what comes out wrong."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from workbench.schedulers.audit.cases import Case
from workbench.schedulers.audit.enumeration import Enumeration
from workbench.schedulers.audit.rounds import Signal

EXACT = 1e-12  # total variation distance up to which two enumerated distributions are the same


def total_variation(p: np.ndarray, q: np.ndarray) -> float:
    """½ Σ |p − q|."""
    return float(np.abs(p - q).sum() / 2)


def target_outputs(case: Case) -> np.ndarray:
    """The target's own joint distribution over all requests' outputs, [V**L] × R."""
    joint = np.ones(())
    for request in range(case.requests):
        joint = np.multiply.outer(joint, case.target_outputs(request))
    return joint


def marginal(outputs: np.ndarray, request: int) -> np.ndarray:
    """Distribution of one request's output, [V**L]."""
    others = tuple(axis for axis in range(outputs.ndim) if axis != request)
    return outputs.sum(axis=others)


@dataclass(frozen=True)
class Peek:
    """Two drafts of one request, the same up to the tokens verified in one and not in the other."""

    request: int
    first_round: bool
    length: tuple[int, int]
    drafts: tuple[tuple[int, ...], tuple[int, ...]]
    accepted: tuple[int | None, int | None]

    @property
    def obscurity(self) -> tuple[bool, int, int]:
        """How far it is from the plainest example: first round, first draft, one token apart."""
        apart = sum(a != b for a, b in zip(*self.drafts, strict=True))
        return not self.first_round, min(self.length), apart


def steered(result: Enumeration) -> bool:
    """Whether in any state the drafts of a round (or their outcome) changed any ℓ of the round."""
    return any(len(set(lengths.values())) > 1 for lengths in result.decisions.values())


def peeks(result: Enumeration) -> Iterator[Peek]:
    """Decisions about a draft token that depend on that token or later ones of its own block."""
    for place, (state, decided) in enumerate(result.decisions.items()):
        for i, (request, _, _) in enumerate(state.requests):
            by_others: dict[tuple, list[tuple[Signal, int]]] = {}
            for signals, lengths in decided.items():
                others = signals[:i] + signals[i + 1 :]
                by_others.setdefault(others, []).append((signals[i], lengths[i]))
            for options in by_others.values():
                for (one, a), (other, b) in itertools.combinations(options, 2):
                    if a != b:
                        yield from _pairs(request, place == 0, (one, other), (a, b))


def _pairs(request, first_round, signals, lengths) -> Iterator[Peek]:
    settled = min(lengths)
    told = tuple(signal.accepted for signal in signals)
    if told[0] is not None and min(told[0], settled) != min(told[1], settled):
        return  # acceptance of the tokens before may decide
    for drafts in itertools.product(signals[0].blocks, signals[1].blocks):
        if drafts[0][:settled] == drafts[1][:settled]:
            yield Peek(request, first_round, lengths, drafts, told)


@dataclass(frozen=True)
class Counterexample:
    """Why the output of a case is biased, in words with figures."""

    text: str
    obscurity: tuple[int, ...]  # less is plainer


def explain(case: Case, result: Enumeration) -> Counterexample:
    """Find the request that is biased most, a draft that steers its ℓ, and the wrong output."""
    target = target_outputs(case)
    distances = [
        total_variation(marginal(result.outputs, r), marginal(target, r))
        for r in range(case.requests)
    ]
    request = int(np.argmax(distances))
    if distances[request] <= EXACT:
        return Counterexample(f"{case.name}: {_joint(case, result.outputs, target)}", (2,))
    count, bias = _bias(case, marginal(result.outputs, request), marginal(target, request))
    found = [peek for peek in peeks(result) if peek.request == request]
    if not found:
        return Counterexample(f"{case.name}: request {request}: {bias}", (1,))
    peek = min(found, key=lambda peek: peek.obscurity)
    return Counterexample(
        f"{case.name}: request {request}: {_cause(peek)}; {bias}", (0, count, *peek.obscurity)
    )


def words(tokens: tuple[int, ...]) -> str:
    """Tokens as letters: A B."""
    return " ".join(chr(ord("A") + token) for token in tokens)


def _cause(peek: Peek) -> str:
    sides = []
    for draft, accepted, length in zip(peek.drafts, peek.accepted, peek.length, strict=True):
        outcome = "" if accepted is None else f" ({accepted} will be accepted)"
        sides.append(f"draft {words(draft)}{outcome} → verifies {length}")
    when = "" if peek.first_round else " in a later round"
    return f"{', '.join(sides)}{when}"


def _tokens(index: int, count: int, vocabulary: int) -> tuple[int, ...]:
    return tuple(int(t) for t in np.unravel_index(index, (vocabulary,) * count))


def _bias(case: Case, outputs: np.ndarray, target: np.ndarray) -> tuple[int, str]:
    """The shortest beginning of the output whose distribution is wrong: its length, in words."""
    for count in range(1, case.horizon + 1):
        p = outputs.reshape(case.vocabulary**count, -1).sum(axis=1)
        q = target.reshape(case.vocabulary**count, -1).sum(axis=1)
        if total_variation(p, q) > EXACT:
            break
    worst = int(np.argmax(p - q))
    start = words(_tokens(worst, count, case.vocabulary))
    return count, f"output {start} has {p[worst]:.4g}, the target {q[worst]:.4g}"


def _joint(case: Case, outputs: np.ndarray, target: np.ndarray) -> str:
    worst = np.unravel_index(int(np.argmax(outputs - target)), outputs.shape)
    texts = [words(_tokens(int(i), case.horizon, case.vocabulary)) for i in worst]
    return (
        "each request alone is right, but they are correlated: one's ℓ follows drafts of the other "
        f"that come later in the order of admission; outputs {' | '.join(texts)} together have "
        f"{outputs[worst]:.4g}, the target {target[worst]:.4g}"
    )
