"""DSpark's Algorithm 1: hardware-aware prefix scheduling with an early stop."""

from __future__ import annotations

import numpy as np

from workbench.schedulers.admission import Workspace, early_stop
from workbench.schedulers.base import Scheduler, View


class Greedy(Scheduler):
    """``greedy``: admit by descending survival while Θ rises, stop at the first Θ ≤ best.

    Whether a token is admitted is settled before anything after it is looked at, which keeps the
    output distribution. The stop is the global optimum only if Θ has one peak: on a staircase
    whose riser lies at R it verifies nothing.
    """

    reads = "prefix"
    exact_replay = True
    name = "greedy"

    def __init__(self):
        self._work = Workspace()

    def verify_lengths(self, view: View, survival: np.ndarray) -> np.ndarray:
        work, drafts = self._work, view.draft_length
        values, count = work.ordered(survival, drafts)
        budget = early_stop(values, count, view.requests, view.step_seconds(count))
        return work.first(survival, drafts, budget, values)
