"""What a calibration does to confidences: exact values, order, ends."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from workbench.calibration import Calibration
from workbench.errors import InputError

UNIT = st.floats(0, 1, width=32)
TEMPERATURES = st.floats(0.1, 10)


def test_values_by_hand():
    # odds 4, 1/4 and 9 to the power 1/T
    c = np.array([[0.8, 0.2], [0.9, 0.9]], np.float32)
    expected = [[4**0.5 / (1 + 4**0.5), 0.25**2 / (1 + 0.25**2)], [0.75, 81 / 82]]
    found = Calibration((2.0, 0.5)).apply(c)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@given(hnp.arrays(np.float32, st.tuples(st.integers(0, 20), st.just(3)), elements=UNIT))
def test_temperature_one_changes_no_bit(c):
    assert np.array_equal(Calibration((1.0, 1.0, 1.0)).apply(c), c)


@given(hnp.arrays(np.float32, 30, elements=UNIT), TEMPERATURES)
def test_order_is_kept_and_the_ends_stay(values, temperature):
    c = np.sort(values)[:, None]
    found = Calibration((temperature,)).apply(c)
    assert (np.diff(found[:, 0]) >= 0).all()
    assert np.array_equal(found == 0, c == 0) and np.array_equal(found == 1, c == 1)


@given(st.lists(st.integers(1, 999), min_size=2, max_size=30, unique=True), st.floats(0.5, 10))
def test_confidences_of_three_decimals_stay_apart(thousandths, temperature):
    c = np.array(sorted(thousandths), np.float32)[:, None] / np.float32(1000)
    assert (np.diff(Calibration((temperature,)).apply(c)[:, 0]) > 0).all()


@given(hnp.arrays(np.float32, 20, elements=st.floats(1 / 64, 63 / 64, width=32)), st.floats(0.5, 2))
def test_the_inverse_temperature_undoes_it(values, temperature):
    c = values[:, None]
    back = Calibration((1 / temperature,)).apply(Calibration((temperature,)).apply(c))
    np.testing.assert_allclose(back, c, rtol=2e-4)


def test_many_rows_are_as_one_row():
    rng = np.random.default_rng(0)
    c = rng.random((100_003, 7)).astype(np.float32)
    calibration = Calibration((0.3, 0.5, 1, 1.5, 2, 4, 8))
    whole = calibration.apply(c)
    for row in (0, 37_448, 37_449, 37_450, 100_002):
        assert np.array_equal(whole[row], calibration.apply(c[row : row + 1])[0])


def test_another_block_size_is_refused():
    with pytest.raises(InputError, match=r"sts\.json: temperatures: has 2 values.* γ = 3"):
        Calibration((1.0, 2.0), path="sts.json").apply(np.zeros((1, 3), np.float32))


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan])
def test_only_positive_finite_temperatures(bad):
    with pytest.raises(InputError, match=r"temperatures\[1\]"):
        Calibration((1.0, bad))
