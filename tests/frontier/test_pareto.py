"""The exact set against brute force, the curve against its own points."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.frontier import Curve, non_dominated

# few distinct values, so that ties are common
points = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), max_size=30)


def dominates(a, b) -> bool:
    return a[0] >= b[0] and a[1] >= b[1] and a != b


@given(points)
def test_non_dominated_is_what_brute_force_finds(some):
    found = non_dominated([p[0] for p in some], [p[1] for p in some]).tolist()
    kept = [some[i] for i in found]
    expected = {p for p in some if not any(dominates(q, p) for q in some)}
    assert set(kept) == expected
    assert len(kept) == len(expected)  # of equal points one
    assert kept == sorted(kept)
    assert all(i == some.index(some[i]) for i in found)  # and that is the first


def test_points_without_a_figure_never_count():
    assert non_dominated([1, math.nan, 3], [9, 99, math.nan]).tolist() == [0]
    assert non_dominated([], []).tolist() == []


@given(points.filter(len))
def test_the_curve_passes_through_its_points_and_falls(some):
    curve = Curve.through([p[0] for p in some], [p[1] for p in some])
    assert (np.diff(curve.speed) > 0).all() and (np.diff(curve.throughput) < 0).all()
    for speed, throughput in zip(curve.speed, curve.throughput, strict=True):
        assert curve.throughput_at(speed).value == pytest.approx(throughput)
        assert curve.speed_at(throughput).value == pytest.approx(speed)


@given(points.filter(len), st.floats(0, 1))
def test_reading_there_and_back_gives_the_same_place(some, share):
    curve = Curve.through([p[0] for p in some], [p[1] for p in some])
    speed = curve.speed[0] + share * (curve.speed[-1] - curve.speed[0])
    throughput = curve.throughput_at(speed).value
    assert curve.speed_at(throughput).value == pytest.approx(speed)


def test_interpolation_by_hand():
    curve = Curve.through([100, 50, 60], [10, 30, 5])  # the third is beaten by the first
    assert curve.throughput_at(75).value == 20
    assert curve.speed_at(20).value == 75


def test_beyond_what_was_simulated():
    curve = Curve.through([100, 50], [10, 30])
    assert curve.throughput_at(100.1) is None
    assert curve.speed_at(30.1) is None
    slow, thin = curve.throughput_at(20), curve.speed_at(5)
    assert (slow.value, slow.edge) == (30, True)
    assert (thin.value, thin.edge) == (100, True)
    assert not curve.throughput_at(50).edge and not curve.speed_at(10).edge


def test_a_curve_without_points_reaches_nothing():
    empty = Curve.through([], [])
    assert empty.throughput_at(0.0) is None and empty.speed_at(0.0) is None
