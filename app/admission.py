"""The order in which drafts of a round are admitted, and what each does to the step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from app.batch import Batch
from workbench.profiles import StepCost, TruthBelief


@dataclass(frozen=True)
class Path:
    """Θ along the order of admission: K = 0..N drafts by survival, then position, then request."""

    survival: np.ndarray  # [N] descending
    request: np.ndarray  # int64 [N] row of the batch
    position: np.ndarray  # int64 [N] 0-based
    batch_tokens: np.ndarray  # int64 [N + 1]
    padded_tokens: np.ndarray  # int64 [N + 1] as the step runs
    seconds: np.ndarray  # [N + 1] of the step
    theta: np.ndarray  # [N + 1] expected tokens per second


def path_of(batch: Batch, cost: StepCost, prefill: int = 0, sync: bool = False) -> Path:
    """The admission path over the current survivals of whole blocks, zeros left out."""
    survival = batch.survival
    request, position = np.nonzero(survival > 0)
    values = survival[request, position]
    order = np.lexsort((request, position, -values))
    values = values[order]
    seconds = seconds_of(batch, cost, prefill, survival.shape[1], sync)(len(values))
    tokens = len(batch.request) + np.concatenate([[0.0], np.cumsum(values)])
    batch_tokens = len(batch.request) + prefill + np.arange(len(values) + 1)
    return Path(
        survival=values,
        request=request[order],
        position=position[order],
        batch_tokens=batch_tokens,
        padded_tokens=np.array([cost.padded(int(count)) for count in batch_tokens]),
        seconds=seconds,
        theta=tokens / seconds,
    )


def seconds_of(
    batch: Batch, cost: StepCost, prefill: int, drafted: int, sync: bool
) -> Callable[[int], np.ndarray]:
    """What a scheduler believes of this step: seconds [K + 1] for 0..K drafts."""
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
