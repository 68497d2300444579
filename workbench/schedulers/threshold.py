"""Confidence threshold: each request by itself, no cost table."""

from __future__ import annotations

import numpy as np

from workbench.errors import InputError
from workbench.schedulers.base import Scheduler, View


class Threshold(Scheduler):
    """``threshold:h``: verify the drafts before the first confidence below h."""

    reads = "prefix"
    exact_replay = True

    def __init__(self, h: float):
        """Raises InputError unless 0 ≤ h ≤ 1."""
        if not 0 <= h <= 1:
            raise InputError(
                f"threshold {h:g} is no probability", place="--scheduler", mend="h may be 0 to 1"
            )
        self.h = h
        self.name = f"threshold:{h:g}"

    def verify_lengths(self, view: View, survival: np.ndarray) -> np.ndarray:
        keep = view.confidence[:, : view.draft_length] >= self.h
        return np.logical_and.accumulate(keep, axis=1).sum(axis=1)
