"""How requests come: a closed loop of users, or arrivals at given times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Load:
    """One kind of load: ``concurrency``, ``rate`` or ``arrivals`` is set.

    ``concurrency``: closed loop of that many users, each sends its next request when the last
    ends. ``rate``: requests per second of a random process. ``arrivals``: the file that is
    replayed, or ``trace`` for the traces' own arrival_s.
    """

    concurrency: int | None = None
    rate: float | None = None
    arrivals: str | None = None
    stagger: bool = False  # closed loop: spread the users' starts over a first request's length

    def label(self) -> dict:
        """The field that names this load in a result."""
        if self.concurrency is not None:
            return {"concurrency": self.concurrency}
        return {"rate": self.rate} if self.rate is not None else {"arrivals": self.arrivals}

    def default_requests(self, recorded: int) -> int:
        """Design §6: all of the trace, and in a closed loop at least 8 per user."""
        return max(recorded, 8 * self.concurrency) if self.concurrency else recorded


def stream(seed: int, name: str) -> np.random.Generator:
    """The random stream ``name`` of a run: streams do not disturb each other."""
    return np.random.default_rng([seed, *name.encode()])
