"""What an engine remembers of earlier steps, and only from ``lag`` steps back."""

from __future__ import annotations

import numpy as np

from workbench.serving.kernels import past_rows, record_rows
from workbench.serving.state import NEVER


class History:
    """Ring over the last ``depth`` steps; rows live in the request's slot.

    A slot given to a new request forgets its former tenant, so that no scheduler sees the
    survivals of another request.
    """

    def __init__(self, depth: int, slots: int, block_size: int, lag: int):
        self.depth, self.lag = depth, max(lag, 1)
        self.step = 0  # number of the step being planned
        self.stamp = np.full((depth, slots), NEVER, np.int64)  # step that wrote the row
        self.survivals = np.zeros((depth, slots, block_size))
        self.counts = np.zeros((2, depth, slots), np.int64)  # ℓ, and accepted drafts
        self.seconds = np.full(depth, np.nan)

    def forget(self, slot: int) -> None:
        """Clear the slot's rows: a new request moves in."""
        self.stamp[:, slot] = NEVER

    def record(self, slots, survival, verified, accepted, seconds: float) -> None:
        """Close the current step: the rows [R] of its rounds, and its duration.

        survival is None where nothing was drafted; such rounds leave no row.
        """
        if self.depth:
            place = self.step % self.depth
            if survival is not None:
                record_rows(
                    self.stamp[place], self.survivals[place], self.counts[0, place],
                    self.counts[1, place], slots, self.step, survival, verified, accepted,
                )  # fmt: skip
            self.seconds[place] = seconds
        self.step += 1

    def of(self, slots: np.ndarray) -> Rows:
        """The past as seen by the requests in ``slots`` [R]."""
        return Rows(self, slots)


class Rows:
    """``schedulers.base.Past`` for one step."""

    __slots__ = ("_history", "_slots")

    def __init__(self, history: History, slots: np.ndarray):
        self._history, self._slots = history, slots

    def _place(self, lag: int) -> int:
        history = self._history
        if not history.lag <= lag <= history.depth:
            raise ValueError(
                f"the past is visible from {history.lag} to {history.depth} steps back, not {lag}; "
                "set the scheduler's `lag` and `history`"
            )
        return (history.step - lag) % history.depth

    def _present(self, place: int, lag: int) -> np.ndarray:
        return self._history.stamp[place, self._slots] == self._history.step - lag

    def survival(self, lag: int, missing: float = 1.0) -> np.ndarray:
        """Survivals [R, γ]; rows without a round in that step are ``missing`` throughout."""
        history, place = self._history, self._place(lag)
        rows = np.empty((len(self._slots), history.survivals.shape[2]))
        past_rows(
            history.stamp[place], history.survivals[place], self._slots, history.step - lag,
            missing, rows,
        )  # fmt: skip
        return rows

    def verified(self, lag: int) -> np.ndarray:
        """ℓ [R], −1 where the request had no round."""
        place = self._place(lag)
        return np.where(self._present(place, lag), self._history.counts[0, place, self._slots], -1)

    def accepted(self, lag: int) -> np.ndarray:
        """Accepted drafts [R], −1 where the request had no round."""
        place = self._place(lag)
        return np.where(self._present(place, lag), self._history.counts[1, place, self._slots], -1)

    def step_seconds(self, lag: int) -> float:
        """Seconds of that step, NaN before the first."""
        place = self._place(lag)
        history = self._history
        return float(history.seconds[place]) if history.step >= lag else float("nan")
