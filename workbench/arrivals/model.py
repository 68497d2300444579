"""What arrivals are in memory: one row per request, in order of arrival."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """N requests in order of arrival: when they come and, where known, how long they are.

    Raises ValueError if the arrays disagree in length or ``at`` decreases.
    """

    name: str  # as the user named it
    at: np.ndarray  # float64 [N], seconds from 0, non-decreasing
    prompt_tokens: np.ndarray | None = None  # int32 [N]
    output_tokens: np.ndarray | None = None  # int32 [N], the one that prefill produces included
    session: np.ndarray | None = None  # int32 [N], −1: none
    cached_prompt_tokens: np.ndarray | None = None  # int32 [N], 0..prompt_tokens − 1
    notes: list[str] = field(default_factory=list)  # what was dropped or assumed
    timed: bool = True  # False: the file has lengths only, and every ``at`` is 0

    def __post_init__(self):
        for name in ("prompt_tokens", "output_tokens", "session", "cached_prompt_tokens"):
            column = getattr(self, name)
            if column is not None and len(column) != len(self.at):
                raise ValueError(f"{name} has {len(column)} rows, at has {len(self.at)}")
        if (np.diff(self.at) < 0).any():
            raise ValueError("at decreases")

    @property
    def requests(self) -> int:
        """N, the number of requests."""
        return len(self.at)

    @property
    def span_s(self) -> float:
        """Seconds from 0 to the last arrival; 0 without requests."""
        return float(self.at[-1]) if len(self.at) else 0.0


@dataclass(slots=True, eq=False)
class Recorded:
    """Requests as a file has them, on the file's own clock and in the file's order."""

    time: np.ndarray | None  # float64 [N] seconds; None: the file has no times
    prompt: np.ndarray | None = None  # int32 [N]
    output: np.ndarray | None = None  # int32 [N]
    session: np.ndarray | None = None  # int32 [N]
    cached: np.ndarray | None = None  # int32 [N]
    notes: list[str] = field(default_factory=list)
    span: tuple[float, float] | None = None  # of the file's clock; default: first to last time
    zero: float | None = None  # where a run without ``start`` begins; default: the first time
    grouped: bool = False  # the format lists requests by session, so disorder is no news


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked of a file: the slice in seconds of the file's clock, seed and model."""

    start: float | None = None
    stop: float | None = None
    seed: int = 0
    model: str | None = None
