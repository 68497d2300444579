"""The scheduler's side of live decoding: one lane is one engine with its requests and its past."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from workbench.schedulers import Scheduler, View, checked, checked_draft_length
from workbench.serving.history import History

StepSeconds = Callable[[int, int], np.ndarray]  # (R, drafts) → believed seconds [drafts + 1]


def flat_cost(requests: int, drafts: int) -> np.ndarray:
    """Every step costs the same."""
    return np.ones(drafts + 1)


class Lane:
    """Some slots of the batch that one scheduler plans for, blind to all others."""

    def __init__(
        self, scheduler: Scheduler, slots: range, block_size: int, step_seconds: StepSeconds
    ):
        self.scheduler, self.slots, self.gamma = scheduler, slots, block_size
        self.step_seconds = step_seconds
        self.order: list[int] = []  # occupied slots in order of admission: the scheduler's rows
        depth = max(scheduler.history, scheduler.lag)
        self._history = History(depth, len(slots), block_size, scheduler.lag)

    def admit(self, slot: int) -> None:
        """A new request moves into ``slot``."""
        self._history.forget(slot - self.slots.start)
        self.order.append(slot)

    def ask(self, request: np.ndarray, context: np.ndarray) -> int:
        """Drafts per request of this step; ``request``, ``context``: by slot of the batch."""
        order = np.array(self.order)
        count = len(order)
        self._rows = order - self.slots.start
        self._view = View(
            block_size=self.gamma,
            request=request[order],
            context=context[order] + 1,
            prefill_tokens=0,
            step_seconds=lambda drafts: self.step_seconds(count, drafts),
            past=self._history.of(self._rows),
            age=np.zeros(count),
        )
        self._view.draft_length = checked_draft_length(self.scheduler, self._view)
        self._survival = None
        return self._view.draft_length

    def plan(self, confidence: np.ndarray | None) -> np.ndarray:
        """ℓ [R] in the order of ``order``; confidence: [slots of the batch, γ] or None.

        Without confidences only a scheduler that never reads them can be asked.
        """
        view = self._view
        drafts, count = view.draft_length, len(view.request)
        if not drafts:
            return np.zeros(count, int)
        view.confidence = np.zeros((count, self.gamma))
        if confidence is not None:
            view.confidence[:, :drafts] = confidence[self.order, :drafts]
        self._survival = np.cumprod(view.confidence, axis=1)
        return checked(self.scheduler, view, self._survival).astype(int)

    def close(self, lengths: np.ndarray, accepted: np.ndarray, running: np.ndarray) -> None:
        """End the step: ℓ [R], accepted drafts [R], and which requests [R] go on."""
        self._history.record(self._rows, self._survival, lengths, accepted, float("nan"))
        self.order = [slot for slot, on in zip(self.order, running.tolist(), strict=True) if on]
