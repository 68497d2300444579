"""Throughput at a speed that is promised, and speed at the baseline's throughput.

The two comparisons of the DSpark paper (arXiv 2607.05147, its production results against MTP-1):
at an SLA anchor in tok/s/user, how much more a GPU gives; and at the throughput that the baseline
has there, how much faster a user is served.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from workbench.frontier.pareto import Curve, Reach


@dataclass(frozen=True)
class Figure:
    """A figure over the seeds that reach it: mean, lowest, highest, and in how many seeds."""

    mean: float
    min: float
    max: float
    reached: int
    edge: bool = False  # at the end of what was simulated: at least this much


@dataclass(frozen=True)
class SlaRow:
    """One scheduler at one anchor; None where it or the baseline does not reach it.

    Gains are relative (0.5: +50 %) and paired: each seed against the baseline under that seed.
    """

    scheduler: str
    seeds: int
    throughput: Figure | None  # tok/s/GPU, the largest with mean speed ≥ the anchor
    throughput_gain: Figure | None
    matched: Figure | None  # tok/s/user, the highest at the baseline's throughput there
    speed_gain: Figure | None


def sla_rows(curves: Mapping[str, Sequence[Curve]], baseline: str, anchor: float) -> list[SlaRow]:
    """A row per scheduler at ``anchor`` tok/s/user.

    curves: by scheduler, a frontier per seed, seeds in the same order; baseline: one of them.
    """
    base = [curve.throughput_at(anchor) for curve in curves.get(baseline, [])]
    base_speed = [
        None if reach is None else curve.speed_at(reach.value)
        for curve, reach in zip(curves.get(baseline, []), base, strict=True)
    ]
    rows = []
    for scheduler, mine in curves.items():
        throughput = [curve.throughput_at(anchor) for curve in mine]
        matched = [
            None if reach is None else curve.speed_at(reach.value)
            for curve, reach in zip(mine, base, strict=False)
        ]
        own = scheduler == baseline
        rows.append(
            SlaRow(
                scheduler,
                len(mine),
                _figure(throughput),
                None if own else _figure(_gains(throughput, base)),
                _figure(matched),
                None if own else _figure(_gains(matched, base_speed)),
            )
        )
    return rows


def _gains(mine: Sequence[Reach | None], base: Sequence[Reach | None]) -> list[Reach | None]:
    # at the baseline's edge its true value may be higher, so that no bound follows
    return [
        None if a is None or b is None else Reach(a.value / b.value - 1, a.edge or b.edge)
        for a, b in zip(mine, base, strict=False)
    ]


def _figure(reaches: Sequence[Reach | None]) -> Figure | None:
    values = [reach.value for reach in reaches if reach is not None]
    if not values:
        return None
    edge = any(reach.edge for reach in reaches if reach is not None)
    return Figure(float(np.mean(values)), min(values), max(values), len(values), edge)
