"""The requests of one run: which recorded request each replays, how long it is, when it is due."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.serving.population import Population


@dataclass(frozen=True)
class Workload:
    """N requests in order of issue.

    Request j replays the recorded rows of its segments ``segment_start[j]:segment_start[j + 1]``
    one after another: segment s is ``segment_rows[s]`` rows from row ``segment_first[s]`` on.
    """

    prompt: np.ndarray  # int64 [N] prompt tokens
    output: np.ndarray  # int64 [N] output tokens
    segment_start: np.ndarray  # int64 [N + 1]
    segment_first: np.ndarray  # int64 [segments]
    segment_rows: np.ndarray  # int64 [segments]
    due: np.ndarray | None = None  # float64 [N] seconds, non-decreasing; None: a closed loop
    source: np.ndarray | None = None  # int64 [N] index into the population; None without a trace

    def __len__(self) -> int:
        return len(self.output)


def replay(population: Population, order: np.ndarray, due: np.ndarray | None = None) -> Workload:
    """Requests that are replayed as they were recorded, in the given order [N]."""
    output = population.output[order]
    return Workload(
        prompt=population.prompt[order],
        output=output,
        segment_start=np.arange(len(order) + 1),
        segment_first=population.row_start[order],
        segment_rows=output - 1,
        due=due,
        source=order,
    )
