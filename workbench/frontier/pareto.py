"""The Pareto frontier of tok/s/GPU against tok/s/user: exact set, interpolated curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


def non_dominated(speed: Sequence[float], throughput: Sequence[float]) -> np.ndarray:
    """Indices of the points that no other beats, by ascending speed; int64.

    A point is dominated if another is at least as good in both figures and better in one. Of
    equal points the first is kept. Points with a NaN never count.
    """
    speed, throughput = np.asarray(speed, float), np.asarray(throughput, float)
    known = np.flatnonzero(~(np.isnan(speed) | np.isnan(throughput)))
    # fastest first, of equal speeds the highest throughput; the sort is stable
    order = known[np.lexsort((-throughput[known], -speed[known]))]
    best = np.maximum.accumulate(throughput[order])
    keep = np.ones(len(order), bool)
    keep[1:] = best[1:] > best[:-1]
    return order[keep][::-1]


@dataclass(frozen=True)
class Reach:
    """A value read off a curve; ``edge``: at the end of what was simulated, more may be there."""

    value: float
    edge: bool = False


@dataclass(frozen=True)
class Curve:
    """A frontier: straight lines between neighbouring non-dominated points.

    speed [n]: tok/s/user, ascending; throughput [n]: tok/s/GPU, descending.
    """

    speed: np.ndarray
    throughput: np.ndarray

    @classmethod
    def through(cls, speed: Sequence[float], throughput: Sequence[float]) -> Curve:
        """The frontier of these points."""
        chosen = non_dominated(speed, throughput)
        return cls(np.asarray(speed, float)[chosen], np.asarray(throughput, float)[chosen])

    def throughput_at(self, speed: float) -> Reach | None:
        """The largest throughput at which a user still has ``speed``; None: not reachable.

        Below the slowest point the throughput is that point's: it keeps the promise, and whether
        a higher load could give more was not simulated (``edge``).
        """
        if not len(self.speed) or speed > self.speed[-1]:
            return None
        return Reach(
            float(np.interp(speed, self.speed, self.throughput)), bool(speed < self.speed[0])
        )

    def speed_at(self, throughput: float) -> Reach | None:
        """The highest speed at which a GPU still gives ``throughput``; None: not reachable."""
        if not len(self.speed) or throughput > self.throughput[0]:
            return None
        value = np.interp(throughput, self.throughput[::-1], self.speed[::-1])
        return Reach(float(value), bool(throughput < self.throughput[-1]))
