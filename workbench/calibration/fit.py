"""Sequential temperature scaling: position by position, the temperature that makes a_k honest."""

from __future__ import annotations

import numpy as np

from workbench.calibration.model import Calibration, logit, scaled
from workbench.calibration.sample import Sample
from workbench.traces.statistics import calibration_error

GRID = np.logspace(-1, 1, 41)  # as SGLang's fit has it; 1 is its middle
# where several temperatures are equally good, the one that changes least
_NEAREST_ONE_FIRST = np.argsort(np.abs(np.log(GRID)), kind="stable")


def fit_calibration(sample: Sample, fitted_on: str = "") -> Calibration:
    """Temperatures from left to right, each minimising the ECE of the survival a_k.

    a_k is the product of the calibrated c_1..c_k; the temperatures of earlier positions are fixed
    when T_k is sought on ``GRID``, and the ECE (15 equally wide bins) is over all rows that tell
    whether the prefix 1..k passes. A position of which no row tells gets 1.
    Source: DSpark (arXiv 2607.05147); grid and bins: SGLang.
    """
    temperatures: list[float] = []
    survival = np.ones(sample.rows)
    for k in range(1, sample.block_size + 1):
        rows = sample.survival_rows(k)
        if not rows.any():
            temperatures += [1.0] * (sample.block_size - k + 1)
            break
        logits = logit(sample.confidence[:, k - 1])
        best = _best(survival[rows], logits[rows], sample.accepted[rows] >= k)
        temperatures.append(best)
        survival *= scaled(logits, best)
    return Calibration(tuple(temperatures), fitted_on=fitted_on)


def _best(prefix: np.ndarray, logits: np.ndarray, passed: np.ndarray) -> float:
    """The temperature on the grid; prefix: a_{k−1} [n], logits: of c_k [n], passed: bool [n]."""
    errors = [
        calibration_error(prefix * scaled(logits, GRID[i]), passed) for i in _NEAREST_ONE_FIRST
    ]
    return float(GRID[_NEAREST_ONE_FIRST[int(np.argmin(errors))]])


def at_edge(temperature: float) -> bool:
    """Whether the best temperature may lie beyond the grid."""
    return bool(temperature <= GRID[0] or temperature >= GRID[-1])
