"""What a calibration does on blocks that it was not fitted on, by draft position."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from workbench.calibration.fit import at_edge
from workbench.calibration.model import Calibration
from workbench.calibration.sample import Sample
from workbench.traces.statistics import ECE_BINS, calibration_error, roc_auc


class Reliability(msgspec.Struct, kw_only=True):
    """Bins of a reliability diagram of a_k, equally wide; those without rows are left out."""

    predicted: list[float]  # mean survival of the rows in the bin
    observed: list[float]  # share of them whose prefix passed
    rows: list[int]


class Quality(msgspec.Struct, kw_only=True):
    """How good confidences are at one position. NaN where no row tells, in JSON null."""

    survival_ece: float  # of a_k; the mean gap of its diagram, weighted by rows
    auc: float  # ROC-AUC of c_k for "token k passes, 1..k−1 having passed"
    brier: float  # mean squared error of c_k over the same rows
    reliability: Reliability


class PositionReport(msgspec.Struct, kw_only=True):
    """Draft position k, before and after calibration."""

    position: int  # k, 1-based
    temperature: float
    at_edge: bool  # the best temperature may lie beyond the grid
    rows: int  # that tell whether the prefix 1..k passes
    judged: int  # of those, the prefix 1..k−1 passed
    before: Quality
    after: Quality


def evaluate(sample: Sample, calibration: Calibration) -> list[PositionReport]:
    """A report per position of ``sample``, which should not be the one that was fitted on.

    Raises InputError if the calibration is for another block size.
    """
    after = _qualities(sample, calibration.apply(sample.confidence))
    return [
        PositionReport(
            position=k,
            temperature=temperature,
            at_edge=at_edge(temperature),
            rows=int(sample.survival_rows(k).sum()),
            judged=int(sample.judged(k).sum()),
            before=before,
            after=calibrated,
        )
        for k, (temperature, before, calibrated) in enumerate(
            zip(
                calibration.temperatures,
                _qualities(sample, sample.confidence),
                after,
                strict=True,
            ),
            start=1,
        )
    ]


def _qualities(sample: Sample, confidence: np.ndarray) -> Iterator[Quality]:
    """Position by position; confidence: float32 [A, γ], of the sample's rows."""
    survival = np.ones(sample.rows)
    for k in range(1, sample.block_size + 1):
        survival *= confidence[:, k - 1]
        known, judged = sample.survival_rows(k), sample.judged(k)
        passed = sample.accepted >= k
        yield Quality(
            survival_ece=calibration_error(survival[known], passed[known]),
            auc=roc_auc(confidence[judged, k - 1], passed[judged]),
            brier=_brier(confidence[judged, k - 1], passed[judged]),
            reliability=_reliability(survival[known], passed[known]),
        )


def _brier(predicted: np.ndarray, happened: np.ndarray) -> float:
    if not len(predicted):
        return float("nan")
    return float(np.mean((predicted.astype(np.float64) - happened) ** 2))


def _reliability(survival: np.ndarray, passed: np.ndarray) -> Reliability:
    bins = np.minimum((survival * ECE_BINS).astype(np.int64), ECE_BINS - 1)
    rows = np.bincount(bins, minlength=ECE_BINS)
    filled = np.flatnonzero(rows)
    count = rows[filled]
    return Reliability(
        predicted=(np.bincount(bins, survival, ECE_BINS)[filled] / count).tolist(),
        observed=(np.bincount(bins, passed, ECE_BINS)[filled] / count).tolist(),
        rows=count.tolist(),
    )


def mean_known(values: Sequence[float]) -> float:
    """The mean of what is not NaN; NaN if nothing is."""
    known = [value for value in values if not math.isnan(value)]
    return math.fsum(known) / len(known) if known else float("nan")
