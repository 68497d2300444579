"""DSpark's Algorithm 1: hardware-aware prefix scheduling with an early stop."""

from __future__ import annotations

import numpy as np

from workbench.schedulers.admission import admit, candidates, early_stop, throughput
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

    def verify_lengths(self, view: View, survival: np.ndarray) -> np.ndarray:
        values = candidates(survival)
        theta = throughput(values, view.requests, view.step_seconds(len(values)))
        return admit(survival, early_stop(theta), values)
