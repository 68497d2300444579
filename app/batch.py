"""Decoding requests that stand at recorded anchors, as a server has them in one step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.errors import InputError
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


class Past:
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
