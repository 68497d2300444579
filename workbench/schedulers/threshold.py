"""Confidence threshold: each request by itself, no cost table."""

from __future__ import annotations

import numpy as np

from workbench.errors import InputError
from workbench.schedulers.base import Scheduler, View


class Threshold(Scheduler):
    """``threshold:h``: verify the drafts before the first confidence below h."""

    prices = False
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
        # as float32, which recorded confidences are: a recorded 0.9 is not below 0.9
        keep = view.confidence[:, : view.draft_length].astype(np.float32) >= np.float32(self.h)
        return np.logical_and.accumulate(keep, axis=1).sum(axis=1)
