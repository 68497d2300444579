"""How planners read a cost table between and beyond its probes (the truth never does this).

``floor``: the last probe at or below (SGLang's 1-D table). ``ceil``: the next probe at or above
(vLLM: up to the capture limit, beyond it linear among the points past the limit). ``linear``:
between the two neighbours. ``cells``: measured points only (TensorRT-LLM's exact table, D-Cut).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from workbench.errors import InputError
from workbench.profiles.interpolate import ByToken, Curve

Rule = Literal["floor", "ceil", "linear", "cells"]


class Lookup:
    """Seconds by batch tokens under one lookup rule.

    points: strictly increasing batch tokens [n]; seconds [n]; limit: the capture limit, which
    ``ceil`` and ``cells`` do not step over; clamped: no extrapolation, the end points hold.
    """

    def __init__(
        self,
        points: Sequence[int],
        seconds: Sequence[float],
        rule: Rule,
        *,
        limit: int | None = None,
        clamped: bool = False,
    ):
        if rule not in get_args(Rule):
            raise InputError(
                f"no lookup rule '{rule}'",
                place="lookup",
                mend=f"one of {', '.join(get_args(Rule))}",
            )
        self.rule: Rule = rule
        self.points = np.asarray(points, np.int64)
        self.seconds = np.asarray(seconds, np.float64)
        self.limit = limit
        self.clamped = clamped
        self._curve = Curve(points, seconds)
        past = self.points > limit if limit is not None else np.zeros(len(self.points), bool)
        self._tail = Curve(self.points[past], self.seconds[past]) if past.any() else None
        self._last = int(self.points[~past][-1]) if not past.all() else 0
        self._by_token = ByToken(self._values)

    def span(self, first: int, more: int) -> np.ndarray:
        """Believed seconds of first..first + more batch tokens, float64 [more + 1].

        ``cells``: +inf where nothing was measured, so that no planner goes there; only ``first``
        itself (verify nothing) always has a price, that of the shape it would be padded to.
        """
        seconds = self._by_token.upto(first + more)[first:]
        if self.rule != "cells":
            return seconds
        seconds = np.where(
            np.isin(np.arange(first, first + more + 1), self.points), seconds, np.inf
        )
        seconds[0] = self._by_token.upto(first)[first]
        return seconds

    def _values(self, tokens: np.ndarray) -> np.ndarray:
        if self.rule == "floor":
            i = np.searchsorted(self.points, tokens, side="right") - 1
            return self.seconds[np.maximum(i, 0)]
        if self.rule == "linear":
            return self._clip(self._curve, tokens)
        i = np.minimum(np.searchsorted(self.points, tokens), len(self.points) - 1)
        next_probe = self.seconds[i]
        if self.rule == "cells" or self.limit is None:
            return next_probe
        # vLLM: no blending across the cliff, past the end the last two points go on
        tail = self._tail if self._tail is not None else self._curve
        return np.where(tokens <= self._last, next_probe, self._clip(tail, tokens))

    def _clip(self, curve: Curve, tokens: np.ndarray) -> np.ndarray:
        if self.clamped:
            tokens = np.clip(tokens, self.points[0], self.points[-1])
        return curve.values(tokens)
