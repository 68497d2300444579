"""Hindsight: schedulers that know what verification will accept."""

from __future__ import annotations

import numpy as np

from workbench.schedulers.base import Scheduler, View


class Oracle(Scheduler):
    """``oracle``: verify exactly what will be accepted, so that nothing is rejected.

    No upper bound: the longest acceptance now is not always on a path with the fewest rounds.
    ``oracle:path`` takes such a path through the recorded anchors. Neither can be deployed, and
    both bias the output, since only accepted tokens are ever verified.
    """

    prices = False
    reads = "outcomes"
    needs_confidence = False
    synchronous = False

    def __init__(self, path: bool = False):
        self.path = path
        self.name = "oracle:path" if path else "oracle"

    def verify_lengths(self, view: View, survival: np.ndarray) -> np.ndarray:
        lengths = view.outcomes.path() if self.path else view.outcomes.accepted
        return np.minimum(lengths, view.draft_length)
