"""Views for scheduler tests, and planners written a second time as plain loops."""

from __future__ import annotations

import numpy as np

from workbench.schedulers import View


class FixedPast:
    """A past in which every earlier step had the same survivals; notes the lag asked for."""

    def __init__(self, survival):
        self._survival, self.asked = np.asarray(survival, float), []

    def survival(self, lag, missing=1.0):
        self.asked.append((lag, missing))
        return self._survival


def view(confidence, seconds=None, past=None) -> View:
    """A view after drafting; ``seconds`` [≥ R·γ + 1] are T with 0, 1, … drafts verified."""
    confidence = np.asarray(confidence, float)
    count, gamma = confidence.shape
    seconds = np.ones(count * gamma + 1) if seconds is None else np.asarray(seconds, float)
    return View(
        block_size=gamma,
        request=np.arange(count),
        context=np.full(count, 100),
        prefill_tokens=0,
        step_seconds=lambda drafts: seconds[: drafts + 1],
        past=past,
        confidence=confidence,
        draft_length=gamma,
    )


def survivals(confidence) -> np.ndarray:
    """a [R, γ] from c [R, γ]."""
    return np.cumprod(np.asarray(confidence, float), axis=1)


def sorted_candidates(survival, above=0.0) -> list[tuple[int, int]]:
    """(request, position) by survival descending, position ascending, request ascending."""
    found = [
        (-survival[r][j], j, r)
        for r in range(len(survival))
        for j in range(len(survival[r]))
        if survival[r][j] > above
    ]
    return [(r, j) for _, j, r in sorted(found)]


def algorithm_1(survival, seconds) -> list[int]:
    """DSpark's Algorithm 1 step by step."""
    count = len(survival)
    lengths = [0] * count
    tokens, best = float(count), count / seconds[0]
    for admitted, (r, j) in enumerate(sorted_candidates(survival), start=1):
        tokens += survival[r][j]
        theta = tokens / seconds[admitted]
        if theta <= best:
            break
        best = theta
        lengths[r] += 1
    return lengths


def best_budget(survival, seconds) -> int:
    """The smallest K with the highest Θ."""
    count = len(survival)
    tokens, best, budget = float(count), count / seconds[0], 0
    for admitted, (r, j) in enumerate(sorted_candidates(survival), start=1):
        tokens += survival[r][j]
        if tokens / seconds[admitted] > best:
            best, budget = tokens / seconds[admitted], admitted
    return budget


def first(survival, budget, above=0.0) -> list[int]:
    """ℓ when the first ``budget`` candidates are verified."""
    lengths = [0] * len(survival)
    for r, _ in sorted_candidates(survival, above)[:budget]:
        lengths[r] += 1
    return lengths
