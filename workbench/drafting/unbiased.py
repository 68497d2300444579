"""Whether recorded acceptance is unbiased: accepted drafts against Σ min(p_d, p_t), by position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

if TYPE_CHECKING:
    from workbench.drafting.record import Blocks

FORMAT = "workbench.unbiased/1"


class Position(msgspec.Struct, kw_only=True):
    """Draft token k over all anchors that judge it. What does not exist is NaN."""

    position: int  # k, 1-based
    judged: int
    accepted: float  # mean over judged anchors
    overlap: float  # mean of Σ min(p_d, p_t): the chance of acceptance
    excess: float  # accepted − overlap
    standard_error: float  # of the excess, clustered by request

    @property
    def sigmas(self) -> float:
        """|excess| in standard errors."""
        return abs(self.excess) / self.standard_error if self.standard_error else float("nan")


class Unbiased(msgspec.Struct, kw_only=True):
    """The report ``workbench record --report`` writes."""

    format: str
    positions: list[Position]
    requests: list[str]  # ids
    excess: list[list[float]]  # [requests][γ] Σ accepted − Σ min(p_d, p_t) over judged anchors
    judged: list[list[int]]  # [requests][γ]


def unbiased(ids: Sequence[str], blocks: Sequence[Blocks]) -> Unbiased:
    """Sums by request and position, and what they say by position."""
    gamma = blocks[0].judged.shape[1] if blocks else 0
    judged = np.zeros((len(blocks), gamma), int)
    accepted, overlap = np.zeros((len(blocks), gamma)), np.zeros((len(blocks), gamma))
    for row, block in enumerate(blocks):
        passed = block.accepted[:, None] > np.arange(gamma)
        judged[row] = block.judged.sum(axis=0)
        accepted[row] = (passed & block.judged).sum(axis=0)
        overlap[row] = np.where(block.judged, block.overlap, 0.0).sum(axis=0)
    excess = accepted - overlap
    return Unbiased(
        format=FORMAT,
        positions=[_position(k, judged[:, k], accepted[:, k], excess[:, k]) for k in range(gamma)],
        requests=list(ids),
        excess=excess.round(4).tolist(),
        judged=judged.tolist(),
    )


def _position(k: int, judged: np.ndarray, accepted: np.ndarray, excess: np.ndarray) -> Position:
    total = int(judged.sum())
    share = float(accepted.sum() / total) if total else float("nan")
    mean = float(excess.sum() / total) if total else float("nan")
    spread = float(np.sqrt(((excess - mean * judged) ** 2).sum()) / total) if total else mean
    return Position(
        position=k + 1,
        judged=total,
        accepted=share,
        overlap=share - mean,
        excess=mean,
        standard_error=spread,
    )
