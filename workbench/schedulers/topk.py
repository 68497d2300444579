"""DSpark's production form: the budget from older confidences, admission by current ones."""

from __future__ import annotations

import numpy as np

from workbench.errors import InputError
from workbench.schedulers.admission import Workspace, global_search
from workbench.schedulers.base import Scheduler, View
from workbench.schedulers.calls import MOST_LAG

DEFAULT_LAG = 2


class TopK(Scheduler):
    """``topk:lag``: asynchronous dynamic top-k (DSpark, section 5.2).

    The budget K, in drafts, is the argmax of Θ over the survivals of ``lag`` engine steps ago for
    today's requests; a request without that row counts with survival 1. The K candidates with the
    highest current survival are verified. The host needs no confidence of this step.
    """

    reads = "prefix"
    synchronous = False

    def __init__(self, lag: int = DEFAULT_LAG):
        """Raises InputError for a lag outside 1..MOST_LAG steps.

        At 0 this step's own confidences would bias the output.
        """
        if lag > MOST_LAG:
            raise InputError(
                f"topk cannot look {lag} steps back",
                place="--scheduler",
                mend=f"the lag is 1 to {MOST_LAG} steps",
            )
        if lag < 1:
            raise InputError(
                f"topk cannot plan with a lag of {lag}",
                place="--scheduler",
                mend="the lag is at least 1 step; `global` searches this step's confidences",
            )
        self.lag = lag
        self._work = Workspace()
        self.name = "topk" if lag == DEFAULT_LAG else f"topk:{lag}"

    def verify_lengths(self, view: View, survival: np.ndarray) -> np.ndarray:
        work, drafts = self._work, view.draft_length
        past = view.past.survival(self.lag, missing=self.new_survival)
        older, count = work.ordered(past, drafts)
        budget = global_search(older, count, view.requests, view.step_seconds(count))
        # the K highest are verified even where their survival is 0: the budget is not reconsidered
        return work.best(survival, drafts, budget)
