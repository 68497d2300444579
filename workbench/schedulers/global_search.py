"""Global search on this step's confidences: the best Θ, at the price of a biased output."""

from __future__ import annotations

import numpy as np

from workbench.schedulers.admission import Workspace, global_search
from workbench.schedulers.base import Scheduler, View


class GlobalSearch(Scheduler):
    """``global``: the number of tokens with the highest Θ over current survivals, no early stop.

    Not lossless: whether a token is verified depends on the confidences after it, and those depend
    on the token (DSpark, appendix A).
    """

    reads = "block"
    name = "global"

    def __init__(self):
        self._work = Workspace()

    def verify_lengths(self, view: View, survival: np.ndarray) -> np.ndarray:
        work, drafts = self._work, view.draft_length
        values, count = work.ordered(survival, drafts)
        budget = global_search(values, count, view.requests, view.step_seconds(count))
        return work.first(survival, drafts, budget, values)
