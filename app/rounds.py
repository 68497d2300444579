"""One decode round of recorded requests, asked of several schedulers: what each admits and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workbench.errors import InputError
from workbench.profiles import StepCost, TruthBelief
from workbench.schedulers import Outcomes, Scheduler, View, checked, checked_draft_length, create
from workbench.schedulers.admission import Workspace
from workbench.serving import Demand, Population, request_order, stream


@dataclass(frozen=True)
class Batch:
    """R decoding requests that stand at recorded anchors; all rows are in the order of admission.

    They came there by verifying whole blocks. ``past``: (request, survival [R, γ]) of each earlier
    step, the latest last, by slot.
    """

    population: Population
    request: np.ndarray  # int64 [R] index into the population
    row: np.ndarray  # int64 [R] of the population's rows
    context: np.ndarray  # int64 [R] tokens
    past: tuple[tuple[np.ndarray, np.ndarray], ...]

    @property
    def confidence(self) -> np.ndarray:
        """c [R, γ]. Raises InputError if the traces carry none."""
        if self.population.confidence is None:
            raise InputError(
                "carries no confidences",
                file=self.population.traces[0].name,
                mend="choose a trace with confidences",
            )
        return self.population.confidence[self.row].astype(np.float64)

    @property
    def survival(self) -> np.ndarray:
        """a [R, γ]."""
        return np.cumprod(self.confidence, axis=1)

    @property
    def accepted(self) -> np.ndarray:
        """Drafts [R] that verification of the whole block accepts, clipped at the output's end."""
        population = self.population
        left = population.row_start[self.request + 1] - self.row  # tokens to come after the anchor
        return np.minimum(population.accepted[self.row].astype(np.int64), left - 1)


def batch_at(demand: Demand, requests: int, step: int, seed: int = 0) -> Batch:
    """The batch of ``requests`` slots after ``step`` rounds; a finished request's slot is refilled.

    Raises InputError if the traces hold too few requests with a round to decode.
    """
    population = demand.population
    usable = int((population.output > 1).sum())
    if not usable:
        raise InputError("holds no request with a decode round", file=population.traces[0].name)
    count = max(4 * requests, len(population.output))
    order = request_order(population, demand.weights, count, stream(seed, "order"))
    queue = iter(np.resize(order[population.output[order] > 1], count * (step + 2)))
    request = np.array([next(queue) for _ in range(requests)], np.int64)
    row = population.row_start[request].astype(np.int64)
    past = []
    for _ in range(step):
        batch = Batch(population, request, row, row, ())
        if population.confidence is not None:
            past.append((request.copy(), batch.survival))
        row = row + batch.accepted + 1
        for slot in np.flatnonzero(row >= population.row_start[request + 1]):
            request[slot] = next(queue)
            row[slot] = population.row_start[request[slot]]
    context = population.prompt[request] + row - population.row_start[request] + 1
    return Batch(population, request, row, context, tuple(past))


class _Past:
    """``schedulers.base.Past`` over a batch's earlier steps."""

    def __init__(self, batch: Batch):
        self._batch = batch

    def _mine(self, lag: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Of ``lag`` steps ago: which slots held today's request, and the survivals."""
        if lag > len(self._batch.past):
            return None
        request, survival = self._batch.past[-lag]
        return request == self._batch.request, survival

    def survival(self, lag: int, missing: float = 1.0) -> np.ndarray:
        gamma = self._batch.population.block_size
        found = self._mine(lag)
        if found is None:
            return np.full((len(self._batch.request), gamma), missing)
        return np.where(found[0][:, None], found[1], missing)

    def verified(self, lag: int) -> np.ndarray:
        found, gamma = self._mine(lag), self._batch.population.block_size
        if found is None:
            return np.full(len(self._batch.request), -1)
        return np.where(found[0], gamma, -1)

    def accepted(self, lag: int) -> np.ndarray:
        return np.full(len(self._batch.request), -1)

    def step_seconds(self, lag: int) -> float:
        return float("nan")


@dataclass(frozen=True)
class Path:
    """Θ along the order of admission: K = 0..N drafts by descending survival."""

    survival: np.ndarray  # [N] sorted
    seconds: np.ndarray  # [N + 1] of the step
    theta: np.ndarray  # [N + 1] expected tokens per second


def path_of(batch: Batch, cost: StepCost, prefill: int = 0, sync: bool = False) -> Path:
    """The admission path over the current survivals of whole blocks."""
    survival = batch.survival
    values, count = Workspace().ordered(survival, survival.shape[1])
    values = values[:count].copy()
    seconds = _seconds(batch, cost, prefill, survival.shape[1], sync)(count)
    tokens = len(batch.request) + np.concatenate([[0.0], np.cumsum(values)])
    return Path(values, seconds, tokens / seconds)


def _seconds(batch: Batch, cost: StepCost, prefill: int, drafted: int, sync: bool):
    belief = TruthBelief(cost)

    def seconds(drafts: int) -> np.ndarray:
        return belief.step_seconds(
            len(batch.request),
            prefill,
            drafts,
            mean_context=float(batch.context.mean()),
            draft_tokens=drafted,
            sync=sync,
        )

    return seconds


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
            step_seconds=_seconds(batch, cost, prefill, drafted, scheduler.synchronous),
            past=_Past(batch),
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
