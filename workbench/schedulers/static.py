"""Schedulers that read nothing: no speculation, and a fixed number of drafts (MTP-k)."""

from __future__ import annotations

import numpy as np

from workbench.errors import InputError
from workbench.schedulers.base import Scheduler, View


class Static(Scheduler):
    """``static:k``: draft and verify k tokens of every request."""

    prices = False
    reads = "nothing"
    exact_replay = True
    needs_confidence = False
    synchronous = False

    def __init__(self, k: int, block_size: int):
        """Raises InputError unless 0 ≤ k ≤ ``block_size``."""
        if not 0 <= k <= block_size:
            raise InputError(
                f"static:{k} cannot verify {k} drafts: the drafter proposes {block_size} a round",
                place="--scheduler",
                mend=f"k may be 0 to {block_size}",
            )
        self.k = self.uniform = k
        self.name = f"static:{k}"

    def draft_length(self, view: View) -> int:
        return self.k

    def verify_lengths(self, view: View, survival: np.ndarray) -> np.ndarray:
        return np.full(view.requests, min(self.k, view.draft_length))


class NoSpeculation(Static):
    """``none``: plain autoregressive decoding; the drafter is skipped."""

    def __init__(self, block_size: int):
        super().__init__(0, block_size)
        self.name, self.drafter = "none", False
