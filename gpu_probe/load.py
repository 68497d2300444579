"""How long the card has lately worked, so that a step at the power limit is timed as in service."""

from __future__ import annotations

# the limit acts on a mean of about a second, within which idle gaps of this share do not matter
IDLE = 0.25


class Load:
    """Seconds of work that a card lacks before its power limit acts as it does in service.

    seconds: how long the card has to work; where it did so lately, less is missing.
    """

    def __init__(self, seconds: float):
        self.seconds = seconds
        self._spans: list[tuple[float, float]] = []

    def note(self, start: float, end: float) -> None:
        """The card worked from ``start`` to ``end``, by a clock that only moves on."""
        self._spans.append((start, end))

    def missing(self, now: float) -> float:
        """Seconds of work missing at ``now``."""
        since = now - (1 + IDLE) * self.seconds
        self._spans = [span for span in self._spans if span[1] > since]
        worked = sum(end - max(start, since) for start, end in self._spans)
        return max(0.0, self.seconds - worked)
