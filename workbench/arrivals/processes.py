"""Arrival processes: Poisson, gamma and Weibull renewal, on/off. All give n times from 0."""

from __future__ import annotations

import math

import numpy as np

from workbench.errors import InputError

LEAST_SHAPE = 0.02  # of gamma and Weibull gaps; below, their moments overflow
_LEAST_CV, _MOST_CV = 1e-6, 1000.0
_LEAST_RATE, _MOST_RATE = 1e-9, 1e9  # requests per second
_MOST_PHASE_S = 1e9
_MOST_PHASES = 50_000_000  # on/off phases held in memory


def poisson(rate: float, n: int, rng: np.random.Generator) -> np.ndarray:
    """Poisson arrivals: times [n] in seconds, exponential gaps of mean 1/rate."""
    _check(rate, n)
    return np.cumsum(rng.exponential(1.0 / rate, n))


def gamma(rate: float, cv: float, n: int, rng: np.random.Generator) -> np.ndarray:
    """Gamma renewal arrivals: times [n] in seconds, gaps of mean 1/rate and the given cv.

    cv is standard deviation ÷ mean of the gaps: 0 is a fixed gap, 1 is Poisson, more is burstier.
    vLLM's and SGLang's benchmarks call the gamma shape "burstiness": it is 1/cv².
    """
    _check(rate, n)
    if cv != 0 and not _LEAST_CV <= cv <= _MOST_CV:
        raise InputError(
            f"gaps with a cv of {cv:g}",
            mend=f"give 0 or {_LEAST_CV:g} to {_MOST_CV:g}; 1 is Poisson",
        )
    if cv == 0:
        return np.arange(1, n + 1) / rate
    shape = cv**-2.0
    return np.cumsum(rng.gamma(shape, 1.0 / (shape * rate), n))


def weibull(rate: float, shape: float, n: int, rng: np.random.Generator) -> np.ndarray:
    """Weibull renewal arrivals: times [n] in seconds, gaps of mean 1/rate; shape 1 is Poisson."""
    _check(rate, n)
    if not LEAST_SHAPE <= shape < math.inf:
        raise InputError(f"a Weibull shape of {shape:g}", mend=f"give {LEAST_SHAPE:g} or more")
    return np.cumsum(rng.weibull(shape, n)) / (rate * math.gamma(1 + 1 / shape))


def on_off(rate: float, on_s: float, off_s: float, n: int, rng: np.random.Generator) -> np.ndarray:
    """Interrupted Poisson arrivals: times [n] in seconds, silence and bursts by turns.

    Phases are exponential with means ``on_s`` and ``off_s``; the run begins in the steady state (on
    with probability on/(on+off)). Arrivals come in "on" only, at rate·(on+off)/on, so that ``rate``
    is the long-run mean. Variance ÷ mean of the arrivals in a long interval tends to
    1 + 2·rate·off²/(on+off).
    """
    _check(rate, n)
    if not (0 < on_s <= _MOST_PHASE_S and 0 <= off_s <= _MOST_PHASE_S):
        raise InputError(
            f"on-off phases of {on_s:g} and {off_s:g} s",
            mend=f"give seconds on > 0 and off ≥ 0, at most {_MOST_PHASE_S:g}",
        )
    if off_s == 0 or n == 0:
        return poisson(rate, n, rng)
    # the clock that runs in "on" only sees plain Poisson arrivals; silence is put in afterwards
    burst_rate = rate * (on_s + off_s) / on_s
    awake = np.cumsum(rng.exponential(1.0 / burst_rate, n))
    if awake[-1] / on_s > _MOST_PHASES:
        raise InputError(
            f"{awake[-1] / on_s:.3g} on-off phases for {n} requests",
            mend="phases far shorter than the gap between requests are plain Poisson arrivals",
        )
    parts, done = [], 0.0
    while done <= awake[-1]:
        expected = int((awake[-1] - done) / on_s * 1.1) + 16
        parts.append(done + np.cumsum(rng.exponential(on_s, expected)))
        done = parts[-1][-1]
    ends = np.concatenate(parts)
    silence = np.cumsum(rng.exponential(off_s, len(ends)))
    begins_off = rng.random() < off_s / (on_s + off_s)
    before = np.searchsorted(ends, awake, side="right") - (0 if begins_off else 1)
    return awake + np.where(before >= 0, silence[np.maximum(before, 0)], 0.0)


def _check(rate: float, n: int) -> None:
    if not (math.isfinite(rate) and rate > 0):
        raise InputError(
            f"a rate of {rate:g} requests/s brings no requests", mend="give more than 0"
        )
    if not _LEAST_RATE <= rate <= _MOST_RATE:
        raise InputError(
            f"a rate of {rate:g} requests/s", mend=f"give {_LEAST_RATE:g} to {_MOST_RATE:g}"
        )
    if n < 0:
        raise InputError(f"{n} requests", mend="give 0 or more")
