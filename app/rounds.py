"""One decode round of recorded requests, asked of several schedulers: what each admits and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from app.admission import path_of, seconds_of
from app.batch import Batch, Past
from workbench.profiles import StepCost
from workbench.schedulers import Outcomes, Scheduler, View, checked, checked_draft_length, create


@dataclass(frozen=True)
class Decision:
    """What a scheduler admits in this round, what it expects and what then happens."""

    scheduler: str
    lengths: np.ndarray  # ℓ [R]
    batch_tokens: int  # B, prefill included
    padded_tokens: int
    seconds: float  # of the step
    expected_tokens: float  # R + Σ survivals of what is admitted
    kept_tokens: int  # R + accepted drafts
    reason: str

    @property
    def drafts(self) -> int:
        """K = Σ ℓ."""
        return int(self.lengths.sum())

    @property
    def theta(self) -> float:
        """Expected tokens per second of the step."""
        return self.expected_tokens / self.seconds


def decide(spec: str, batch: Batch, cost: StepCost, prefill: int = 0) -> Decision:
    """Ask ``spec`` about this round. Raises InputError as ``schedulers.create`` does."""
    gamma, requests = batch.population.block_size, len(batch.request)
    scheduler = create(spec, gamma)
    accepted = batch.accepted

    def view(drafted: int) -> View:
        return View(
            block_size=gamma,
            request=np.arange(requests),
            context=batch.context,
            prefill_tokens=prefill,
            step_seconds=seconds_of(batch, cost, prefill, drafted, scheduler.synchronous),
            past=Past(batch),
            draft_length=drafted,
            outcomes=Outcomes(accepted, lambda: batch.population.shortest_path[batch.row])
            if scheduler.reads == "outcomes"
            else None,
        )

    drafted = checked_draft_length(scheduler, view(gamma))
    survival = np.zeros((requests, gamma))
    lengths = np.zeros(requests, np.int64)
    if drafted:
        seen = view(drafted)
        seen.confidence = batch.confidence
        survival[:, :drafted] = batch.survival[:, :drafted]
        lengths = checked(scheduler, seen, survival)
    within = np.arange(gamma) < lengths[:, None]
    batch_tokens = requests + int(lengths.sum()) + prefill
    seconds = view(drafted).step_seconds(int(lengths.sum()))
    return Decision(
        scheduler=scheduler.name,
        lengths=lengths,
        batch_tokens=batch_tokens,
        padded_tokens=cost.padded(batch_tokens),
        seconds=float(seconds[-1]),
        expected_tokens=requests + float((survival * within).sum()),
        kept_tokens=requests + int(np.minimum(lengths, accepted).sum()),
        reason=_reason(scheduler, batch, cost, prefill, int(lengths.sum())),
    )


def _reason(scheduler: Scheduler, batch: Batch, cost: StepCost, prefill: int, drafts: int) -> str:
    kind, requests = scheduler.name.partition(":")[0], len(batch.request)
    if scheduler.uniform is not None:
        return f"{scheduler.uniform} drafts of every request, whatever the survivals"
    if kind == "threshold":
        return "each request up to its first confidence below the threshold, whatever it costs"
    if kind == "oracle":
        return "sees what will be accepted and verifies that"
    if kind == "topk":
        return (
            f"K = {drafts} has the highest Θ over the survivals of {scheduler.lag} steps ago; "
            "they go to the highest survivals of now"
        )
    if kind == "global":
        return f"K = {drafts} has the highest Θ of the whole path"
    if kind == "greedy":
        path = path_of(batch, cost, prefill, sync=True)
        if drafts >= len(path.survival):
            return "Θ rose with every draft, so all are verified"
        before, after = path.theta[drafts], path.theta[drafts + 1]
        here = cost.padded(requests + prefill + drafts)
        there = cost.padded(requests + prefill + drafts + 1)
        step = f", as it needs the next graph ({here:,} → {there:,} tokens)" if there > here else ""
        return (
            f"draft {drafts + 1} (survival {path.survival[drafts]:.2f}) would bring Θ from "
            f"{before:,.0f} to {after:,.0f} tok/s{step}: stop"
        )
    return "by its own rule"


def heat(batch: Batch, decision: Decision) -> dict[str, Sequence]:
    """A cell per request and position: survival, and whether it was admitted and accepted."""
    survival, accepted = batch.survival, batch.accepted
    requests, gamma = survival.shape
    place, position = np.divmod(np.arange(requests * gamma), gamma)
    admitted = position < decision.lengths[place]
    passed = position < accepted[place]
    fate = np.where(admitted, np.where(passed, "kept", "rejected"), "not verified")
    return {
        "request": place + 1,
        "position": position + 1,
        "survival": survival.ravel(),
        "confidence": batch.confidence.ravel(),
        "fate": fate,
    }
