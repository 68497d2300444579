"""Global search on this step's confidences: the best Θ, at the price of a biased output."""

from __future__ import annotations

import numpy as np

from workbench.schedulers.admission import admit, candidates, global_search, throughput
from workbench.schedulers.base import Scheduler, View


class GlobalSearch(Scheduler):
    """``global``: the number of tokens with the highest Θ over current survivals, no early stop.

    Not lossless: whether a token is verified depends on the confidences after it, and those depend
    on the token (DSpark, appendix A).
    """

    reads = "block"
    name = "global"

    def verify_lengths(self, view: View, survival: np.ndarray) -> np.ndarray:
        values = candidates(survival)
        theta = throughput(values, view.requests, view.step_seconds(len(values)))
        return admit(survival, global_search(theta), values)
