"""The earlier steps of an enumerated batch, as a scheduler sees them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from workbench.schedulers.base import Scheduler


@dataclass(frozen=True)
class Row:
    """One request in an earlier step; None where nothing was drafted or no scheduler asks."""

    survival: tuple[float, ...] | None
    verified: int | None
    accepted: int | None


@dataclass(frozen=True)
class Entry:
    """One earlier step; its rows are those of the requests still running."""

    rows: tuple[Row, ...]
    seconds: float | None

    def only(self, fields: Collection[str]) -> Entry:
        """Without what is never asked for, so that more states are equal."""
        blank = {name: None for name in ("survival", "verified", "accepted") if name not in fields}
        rows = tuple(replace(row, **blank) for row in self.rows)
        return Entry(rows, self.seconds if "seconds" in fields else None)


def advanced(
    latest: Entry, window: tuple[Entry, ...], running: Sequence[int], depth: int
) -> tuple[Entry, ...]:
    """The window after a step, for the requests at places ``running`` of the step."""
    entries = (latest, *window)[:depth]
    return tuple(Entry(tuple(e.rows[i] for i in running), e.seconds) for e in entries)


class WindowPast:
    """``schedulers.base.Past`` over a window of entries; notes which fields are asked for."""

    def __init__(
        self,
        window: tuple[Entry, ...],
        requests: int,
        block_size: int,
        scheduler: Scheduler,
        asked: set[str],
    ):
        self._window, self._requests, self._block_size = window, requests, block_size
        self._first = max(scheduler.lag, 1)
        self._depth = max(scheduler.history, scheduler.lag)
        self._asked = asked

    def _entry(self, field: str, lag: int) -> Entry | None:
        if not self._first <= lag <= self._depth:
            raise ValueError(
                f"the past is visible from {self._first} to {self._depth} steps back, not {lag}; "
                "set the scheduler's `lag` and `history`"
            )
        self._asked.add(field)
        return self._window[lag - 1] if lag <= len(self._window) else None

    def survival(self, lag: int, missing: float = 1.0) -> np.ndarray:
        """Survivals [R, γ] of that step, ``missing`` where there is none."""
        survival = np.full((self._requests, self._block_size), missing)
        entry = self._entry("survival", lag)
        for i, row in enumerate(entry.rows if entry else ()):
            if row.survival is not None:
                survival[i] = row.survival
        return survival

    def verified(self, lag: int) -> np.ndarray:
        """ℓ [R], −1 before the first step."""
        return self._counts("verified", lag)

    def accepted(self, lag: int) -> np.ndarray:
        """Accepted drafts [R], −1 before the first step."""
        return self._counts("accepted", lag)

    def step_seconds(self, lag: int) -> float:
        """Seconds of that step, NaN before the first."""
        entry = self._entry("seconds", lag)
        return float("nan") if entry is None or entry.seconds is None else entry.seconds

    def _counts(self, field: str, lag: int) -> np.ndarray:
        entry = self._entry(field, lag)
        rows = entry.rows if entry else ()
        counts = [getattr(row, field) for row in rows]
        return np.array(
            [-1 if count is None else count for count in counts] or [-1] * self._requests
        )
