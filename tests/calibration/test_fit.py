"""The fit against temperatures that are known, by hand and by exhaustive search."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from workbench.calibration import Calibration, fit_calibration
from workbench.calibration.evaluate import evaluate, mean_known
from workbench.calibration.fit import GRID, at_edge
from workbench.calibration.sample import Sample, pooled, split
from workbench.traces import read_trace
from workbench.traces.statistics import calibration_error
from workbench.traces.synthetic import Lengths, synthetic_trace

STEP = math.log(GRID[1] / GRID[0])


def sample(confidence, accepted, known=None) -> Sample:
    c = np.array(confidence, np.float32)
    known = [c.shape[1]] * len(c) if known is None else known
    return Sample(c, np.array(accepted), np.array(known), 1)


def distorted(trace, temperatures):
    """The trace of a drafter whose confidences are off by these temperatures."""
    return replace(trace, confidence=Calibration(temperatures).apply(trace.confidence))


def test_the_grid():
    assert len(GRID) == 41 and GRID[0] == 0.1 and GRID[20] == 1.0 and GRID[40] == 10.0
    np.testing.assert_allclose(np.diff(np.log(GRID)), STEP)
    assert [at_edge(t) for t in (0.1, GRID[1], 1.0, GRID[39], 10.0)] == [True, *[False] * 3, True]


@pytest.mark.parametrize(
    "off", [(0.5, 0.5, 0.5, 0.5), (2.0, 1.5, 1.2, 1.0), (0.4, 1.0, 1.6, 0.7)], ids=str
)
def test_known_distortions_are_found_within_a_step(off):
    rng = np.random.default_rng(5)
    trace = synthetic_trace((0.9, 0.88, 0.85, 0.8), rng, requests=3000, output_tokens=Lengths(150))
    found = fit_calibration(pooled([distorted(trace, off)]))
    # σ(logit(σ(logit(c)/off))/T) is c where T = 1/off; half a step is the grid's own rounding
    error = np.log(np.array(found.temperatures) * np.array(off))
    assert (np.abs(error) <= STEP + 1e-9).all(), found.temperatures


def test_calibrated_confidences_keep_their_temperatures():
    trace = synthetic_trace(
        (0.9, 0.8, 0.7), np.random.default_rng(1), requests=2000, output_tokens=Lengths(150)
    )
    found = fit_calibration(pooled([trace])).temperatures
    assert (np.abs(np.log(found)) <= STEP + 1e-9).all()


def test_each_temperature_minimises_the_error_with_the_earlier_ones_fixed():
    rng = np.random.default_rng(2)
    c = rng.random((500, 3)).astype(np.float32)
    accepted = np.cumprod(rng.random((500, 3)) < np.sqrt(c), axis=1).sum(axis=1)
    known = rng.integers(0, 4, 500)
    found = fit_calibration(sample(c, accepted, known)).temperatures
    for k in (1, 2, 3):
        rows = known >= k

        def error(t, k=k, rows=rows):
            a = Calibration((*found[: k - 1], float(t))).apply(c[rows, :k]).astype(float).prod(1)
            return calibration_error(a, accepted[rows] >= k)

        assert error(found[k - 1]) <= min(map(error, GRID)) + 1e-6


def test_error_of_six_rows_by_hand():
    # survivals .9 .9 .9 share bin 13, .1 bin 1, .5 .5 bin 7; passed: 2 of 3, 0 of 1, 2 of 2
    six = sample([[0.9], [0.9], [0.9], [0.1], [0.5], [0.5]], [1, 1, 0, 0, 1, 1])
    expected = (abs(2.7 - 2) + abs(0.1 - 0) + abs(1.0 - 2)) / 6
    report = evaluate(six, Calibration((1.0,)))[0]
    assert report.before.survival_ece == pytest.approx(expected, abs=1e-7)
    assert report.before.reliability.rows == [1, 2, 3]
    assert report.before.reliability.observed == pytest.approx([0, 1, 2 / 3])
    assert report.before.reliability.predicted == pytest.approx([0.1, 0.5, 0.9])
    brier = (2 * 0.1**2 + 0.9**2 + 0.1**2 + 2 * 0.5**2) / 6
    assert report.before.brier == pytest.approx(brier, abs=1e-7)
    # 4 passed, 2 failed: pairs won .9 over .1 twice, .5 over .1 twice, tied .9 with .9 twice
    assert report.before.auc == pytest.approx((4 + 0.5 * 2) / 8)
    # temperature 2: odds 9 → 3, 1/9 → 1/3; bins 11, 3, 7
    doubled = evaluate(six, Calibration((2.0,)))[0]
    assert doubled.after.survival_ece == pytest.approx((0.25 + 0.25 + 1) / 6, abs=1e-6)
    assert doubled.after.auc == report.before.auc


def test_the_error_is_of_the_product_over_all_known_rows():
    two = sample([[0.5, 0.5]] * 4 + [[0.5, 0.9]], [2, 1, 0, 0, 0], known=[2, 2, 2, 2, 1])
    first, second = evaluate(two, Calibration((1.0, 1.0)))
    assert (first.rows, first.judged, second.rows, second.judged) == (5, 5, 4, 2)
    assert first.before.survival_ece == pytest.approx(abs(2.5 - 2) / 5)
    assert second.before.survival_ece == pytest.approx(0.0)
    assert second.before.brier == pytest.approx(0.25)  # of c_2 where token 1 passed


@pytest.mark.parametrize(("confidence", "edge"), [(0.55, 0.1), (0.9, 10.0)])
def test_a_temperature_at_the_edge_is_flagged(confidence, edge):
    # 0.55 of what always passes wants the least temperature, 0.9 of a coin the greatest
    passed = np.arange(400) % 2 if edge == 10 else np.ones(400, int)
    one = sample(np.full((400, 1), confidence), passed)
    calibration = fit_calibration(one)
    assert calibration.temperatures == (edge,)
    assert evaluate(one, calibration)[0].at_edge


def test_ties_take_the_temperature_nearest_to_one():
    # confidences of 0 and 1 do not move, whatever the temperature
    certain = sample([[1, 0], [0, 1], [1, 1]], [1, 0, 2])
    assert fit_calibration(certain).temperatures == (1.0, 1.0)


def test_a_position_that_no_row_tells_of_keeps_temperature_one():
    blind = sample([[0.99, 0.5, 0.5]] * 50, [0] * 50, known=[1] * 50)
    calibration = fit_calibration(blind)
    assert calibration.temperatures == (10.0, 1.0, 1.0)
    last = evaluate(blind, calibration)[2]
    assert last.rows == 0 and math.isnan(last.after.survival_ece) and not last.at_edge
    assert last.after.reliability.rows == []


@pytest.mark.parametrize("name", ["math-t0", "chat-t0.6", "code-dflash"])
def test_what_one_slope_cannot_mend_keeps_its_order(name):
    """A head away from its temperature, or none: the error is not promised, the order is."""
    before, after = _half_and_half([name])
    assert before > 0.03 and after > 0.015


def _half_and_half(names, sharpened=1.0):
    traces = [distorted(read_trace(name), (sharpened,) * 7) for name in names]
    fit_half, held_out = split(traces, 0.5, np.random.default_rng(0))
    reports = evaluate(held_out, fit_calibration(fit_half))
    for report in reports:
        # float32 may merge neighbours, no more
        assert report.after.auc == pytest.approx(report.before.auc, abs=1e-4)
    before = mean_known([report.before.survival_ece for report in reports])
    return before, mean_known([report.after.survival_ece for report in reports])


DSPARK = ("chat", "code", "math")


@pytest.mark.parametrize("names", [*[(n,) for n in DSPARK], DSPARK], ids=" ".join)
def test_shipped_traces_end_below_one_and_a_half_percent(names):
    assert _half_and_half(names)[1] <= 0.015


@pytest.mark.parametrize("names", [*[(n,) for n in DSPARK], DSPARK], ids=" ".join)
def test_overconfident_copies_end_below_one_and_a_half_percent(names):
    before, after = _half_and_half(names, sharpened=0.4)
    assert before >= 0.05
    assert after <= 0.015
