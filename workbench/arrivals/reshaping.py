"""New arrivals from old: other times for the same lengths, and an hour stretched to a day."""

from __future__ import annotations

import math

import numpy as np

from workbench.arrivals.model import Arrivals
from workbench.errors import InputError

DAY_S = 86400.0
_GRID = 8192  # points of the cumulative rate over the day
_BLOCK = 64  # requests drawn together, so that bursts survive


def retime(arrivals: Arrivals, at: np.ndarray) -> Arrivals:
    """The requests of ``arrivals`` in their order, again from the first when used up, at new times.

    ``at`` float64 [n], seconds, non-decreasing. Sessions are dropped: their calls would no longer
    follow one another.
    """
    index = np.arange(len(at)) % arrivals.requests
    note = f"lengths of {arrivals.name} in its order"
    if len(at) > arrivals.requests:
        note += f", {len(at)} requests from {arrivals.requests}"
    return _taken(arrivals, index, np.asarray(at, np.float64), [note])


def stretch(
    arrivals: Arrivals,
    n: int,
    rng: np.random.Generator,
    *,
    peak_to_trough: float = 3.0,
    peak_s: float = 14 * 3600.0,
) -> Arrivals:
    """n requests over 24 h that resemble ``arrivals``, with a diurnal rate.

    The rate follows a cosine with its peak at ``peak_s`` and the given ratio of peak to trough (an
    assumption: the public hour says nothing about the day). Gaps and lengths are resampled together
    in blocks of 64 consecutive requests (circular block bootstrap, Politis and Romano 1992), so
    bursts and the company that lengths keep survive; gaps are then scaled to the rate. A file
    without times gives Poisson arrivals. Sessions are dropped. Raises InputError for bad numbers.
    """
    if n < 1 or not arrivals.requests:
        raise InputError(f"a day of {n} requests", mend="give 1 or more")
    if not (math.isfinite(peak_to_trough) and peak_to_trough >= 1):
        raise InputError(f"a peak of {peak_to_trough:g} troughs", mend="give a ratio of 1 or more")
    before = np.diff(arrivals.at)  # of row i + 1
    recorded = arrivals.timed and before.sum() > 0
    rows = arrivals.requests - 1 if recorded else arrivals.requests
    block = min(_BLOCK, rows)
    index = rng.integers(rows, size=-(-n // block))[:, None] + np.arange(block)
    index = (index.ravel() % rows)[:n]
    gaps = before[index] if recorded else rng.exponential(1.0, n)
    # the last request comes one mean gap before the day's end
    passed = np.cumsum(gaps)
    if not passed[-1] > 0:  # a draw of simultaneous requests only
        passed = np.arange(1.0, n + 1)
    share = passed / (passed[-1] * (1 + 1 / n))
    clock = np.linspace(0.0, DAY_S, _GRID)
    swing = (peak_to_trough - 1) / (peak_to_trough + 1)
    angle = 2 * np.pi / DAY_S
    lift = np.sin(angle * (clock - peak_s)) + np.sin(angle * peak_s)
    cumulative = clock / DAY_S + swing * lift / (2 * np.pi)
    at = np.interp(share, cumulative, clock)
    notes = [
        f"{n} requests over 24 h resampled from {arrivals.requests} of {arrivals.name} "
        f"in blocks of {block}; assumed daily rate: cosine, peak at {peak_s / 3600:g} h, "
        f"{peak_to_trough:g} times the trough"
    ]
    return _taken(arrivals, index + 1 if recorded else index, at, notes)


def _taken(arrivals: Arrivals, index: np.ndarray, at: np.ndarray, notes: list[str]) -> Arrivals:
    def rows(column):
        return None if column is None else column[index]

    if arrivals.session is not None:
        notes = [*notes, "sessions dropped"]
    return Arrivals(
        arrivals.name,
        at,
        rows(arrivals.prompt_tokens),
        rows(arrivals.output_tokens),
        cached_prompt_tokens=rows(arrivals.cached_prompt_tokens),
        notes=[*arrivals.notes, *notes],
    )
