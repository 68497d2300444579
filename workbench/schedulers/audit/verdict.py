"""Lossless or not: the verdict on a scheduler over a battery of exactly enumerated cases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from workbench.errors import InputError
from workbench.schedulers.audit.cases import MAX_LAG, Case, battery
from workbench.schedulers.audit.counterexample import (
    EXACT,
    Counterexample,
    explain,
    marginal,
    peeks,
    steered,
    target_outputs,
    total_variation,
)
from workbench.schedulers.audit.enumeration import Enumeration, enumerate_outputs
from workbench.schedulers.base import Scheduler, lossless
from workbench.schedulers.registry import create

LARGEST_BLOCK = 7  # a scheduler that needs longer blocks, as static:5 does, gets them up to here
_ORDER = ("nothing", "prefix", "block", "outcomes")


@dataclass(frozen=True)
class Verdict:
    """What the audit found. ``verdict`` is "lossless", "not lossless" or "not exercised"."""

    scheduler: str
    confidence_sees: str
    reads: str  # as declared
    found: str  # as seen: "nothing", "prefix", "block" or "outcomes"
    declared_lossless: bool
    verdict: str
    distance: float  # the largest total variation distance, joint over requests
    cases: int
    paths: int
    patterns: int  # distinct ℓ vectors seen
    appendix: tuple[float, ...] | None  # first token's distribution in DSpark's appendix case
    counterexample: str | None

    @property
    def misdeclared(self) -> bool:
        """Whether it reads more than it declares."""
        return _ORDER.index(self.found) > _ORDER.index(self.reads)

    @property
    def agrees(self) -> bool:
        """False if a declaration is refuted: biased though declared lossless, or reads more."""
        refuted = self.verdict == "not lossless" and self.declared_lossless
        return not refuted and not self.misdeclared


def audit(
    spec: str,
    *,
    confidence_sees: str = "prefix",
    seed: int = 0,
    block_size: int = 3,
    vocabulary: int = 3,
    requests: int = 3,
    on_case: Callable[[Case], None] = lambda case: None,
) -> Verdict:
    """Enumerate every case of ``cases.battery`` for the scheduler ``spec`` (``registry.create``).

    Raises InputError if the scheduler cannot be made or breaks the contract.
    """
    block_size, scheduler = _fitting(spec, block_size)
    if scheduler.lag > MAX_LAG or scheduler.history > MAX_LAG:
        raise InputError(
            f"looks back more than {MAX_LAG} steps, too many to enumerate",
            place=f"--scheduler {spec}",
            mend="audit the same rule with a smaller lag",
        )
    lag = max(scheduler.lag, scheduler.history)
    tally = _Tally(scheduler, confidence_sees)
    for case in battery(confidence_sees, seed, lag, block_size, vocabulary, requests):
        try:
            fresh = create(spec, case.block_size)
        except InputError:  # it needs longer blocks than this case has
            continue
        on_case(case)
        tally.add(case, enumerate_outputs(case, fresh))
    return tally.verdict()


def _fitting(spec: str, block_size: int) -> tuple[int, Scheduler]:
    """The block size from ``block_size`` on for which ``spec`` can be made, and the scheduler."""
    refusal = None
    for gamma in range(block_size, max(block_size, LARGEST_BLOCK) + 1):
        try:
            return gamma, create(spec, gamma)
        except InputError as error:
            refusal = refusal or error
    raise refusal


class _Tally:
    def __init__(self, scheduler: Scheduler, sees: str):
        self.scheduler, self.sees = scheduler, sees
        self.cases = self.paths = 0
        self.distance = 0.0
        self.patterns: set[tuple[int, ...]] = set()
        self.steered = self.peeked = False
        self.appendix: tuple[float, ...] | None = None
        self.counterexample: Counterexample | None = None

    def add(self, case: Case, result: Enumeration) -> None:
        distance = total_variation(result.outputs, target_outputs(case))
        if self.cases == 0 and case.horizon == 1:
            self.appendix = tuple(marginal(result.outputs, 0).tolist())
        self.cases += 1
        self.paths += result.paths
        self.distance = max(self.distance, distance)
        for decided in result.decisions.values():
            self.patterns.update(decided.values())
        self.steered = self.steered or steered(result)
        if case.sees == "prefix" and not self.peeked:
            # a confidence that sees its token gives every reader of it a peek, declared or not
            self.peeked = next(peeks(result), None) is not None
        if distance > EXACT:
            found = explain(case, result)
            if self.counterexample is None or found.obscurity < self.counterexample.obscurity:
                self.counterexample = found

    def verdict(self) -> Verdict:
        reads = self.scheduler.reads
        if not self.steered:
            found = "nothing"
        elif reads == "outcomes":
            found = "outcomes"
        else:
            found = "block" if self.peeked else "prefix"
        if self.distance > EXACT:
            verdict = "not lossless"
        elif self.steered or reads == "nothing":
            verdict = "lossless"
        else:
            verdict = "not exercised"
        return Verdict(
            self.scheduler.name,
            self.sees,
            reads,
            found,
            lossless(self.scheduler, self.sees, temperature=1.0),
            verdict,
            self.distance,
            self.cases,
            self.paths,
            len(self.patterns),
            self.appendix,
            self.counterexample.text if self.counterexample else None,
        )
