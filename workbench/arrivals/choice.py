"""Which arrival process a rate with its optional burstiness means."""

from __future__ import annotations

import numpy as np

from workbench.arrivals import processes
from workbench.errors import InputError


def process(
    rate: float,
    n: int,
    rng: np.random.Generator,
    cv: float | None = None,
    on_off: tuple[float, float] | None = None,
) -> np.ndarray:
    """Arrival times [n] in seconds at ``rate`` requests per second: Poisson unless told otherwise.

    ``cv`` gives gamma gaps of that coefficient of variation, ``on_off`` bursts of mean (on, off)
    seconds. Raises InputError if both are given or a number is out of range.
    """
    if cv is not None and on_off is not None:
        raise InputError("burstiness and on-off exclude each other", mend="give one of them")
    if on_off is not None:
        return processes.on_off(rate, *on_off, n, rng)
    if cv is not None:
        return processes.gamma(rate, cv, n, rng)
    return processes.poisson(rate, n, rng)
