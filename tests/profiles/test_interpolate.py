from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.profiles.interpolate import ByToken, Curve, Table

values = st.floats(0, 1e3, allow_nan=False)
points = st.lists(st.integers(0, 10**6), min_size=1, max_size=8, unique=True).map(sorted)
where = st.floats(-1e6, 2e6, allow_nan=False)


@st.composite
def curves(draw):
    x = draw(points)
    return x, draw(st.lists(values, min_size=len(x), max_size=len(x)))


@st.composite
def tables(draw):
    rows, columns = draw(points), draw(points)
    row = st.lists(values, min_size=len(columns), max_size=len(columns))
    return rows, columns, draw(st.lists(row, min_size=len(rows), max_size=len(rows)))


@pytest.mark.parametrize(
    ("v", "seconds"),
    [
        (10, 1.0),  # a point
        (15, 2.0),  # between
        (20, 3.0),
        (25, 3.5),
        (40, 5.0),  # past the end: the last two points go on
        (0, 1.0),  # before the start: the line falls to -1, the edge holds
    ],
)
def test_hand_computed(v, seconds):
    assert Curve([10, 20, 30], [1, 3, 4]).at(v) == pytest.approx(seconds, abs=1e-15)


def test_falling_ends():
    falling = Curve([10, 20], [3, 1])
    assert falling.at(30) == 1  # never below the edge point
    assert falling.at(0) == 5  # the line rises on this side


def test_one_point_is_constant():
    curve = Curve([5], [2.5])
    assert [curve.at(v) for v in (0, 5, 5.5, 6, 100)] == [2.5] * 5


def test_bilinear_by_hand():
    table = Table([1, 3], [0, 10], [[0, 10], [20, 50]])
    assert table.at(2, 5) == (5 + 35) / 2
    assert table.at(1, 10) == 10
    assert table.at(5, 10) == 50 + 40  # rows go on
    assert table.at(3, 20) == 80  # columns go on
    assert table.at(5, 20) == 80 + (80 - 20)  # both: row 1 gives 20, row 3 gives 80
    assert table.at(0, 5) == 5  # never below the edge row


def test_one_point_axes_of_a_table():
    assert Table([4], [0, 10], [[1, 3]]).at(99, 5) == 2
    assert Table([1, 3], [7], [[1], [3]]).at(2, 99) == 2
    assert Table([4], [7], [[6]]).at(0, 0) == 6


@given(curves(), st.lists(where, min_size=1, max_size=20))
def test_arrays_equal_scalars(curve, v):
    built = Curve(*curve)
    assert built.values(np.array(v)).tolist() == [built.at(value) for value in v]


@given(tables(), st.lists(st.tuples(where, where), min_size=1, max_size=20))
def test_table_arrays_equal_scalars(table, v):
    built = Table(*table)
    rows, columns = np.array(v).T
    assert built.values(rows, columns).tolist() == [built.at(r, c) for r, c in v]


@given(curves())
def test_points_are_exact(curve):
    built = Curve(*curve)
    assert [built.at(v) for v in curve[0]] == curve[1]


@given(curves(), where)
def test_never_below_the_edge_outside_and_within_neighbours_inside(curve, v):
    x, y = curve
    got = Curve(x, y).at(v)
    if v <= x[0]:
        assert got >= y[0]
    elif v >= x[-1]:
        assert got >= y[-1]
    else:
        i = max(i for i in range(len(x)) if x[i] <= v)
        low, high = sorted(y[i : i + 2])
        assert low - 1e-9 <= got <= high + 1e-9


@given(curves(), st.lists(where, min_size=2, max_size=20))
def test_rising_points_give_a_rising_curve_never_below_the_first(curve, v):
    x, y = curve[0], sorted(curve[1])
    got = [Curve(x, y).at(value) for value in sorted(v)]
    assert all(b >= a - 1e-9 * (1 + abs(a)) for a, b in pairwise(got))
    assert min(got) >= y[0]


def test_by_token_computes_once_and_grows():
    calls = []

    def double(tokens):
        calls.append(len(tokens))
        return 2.0 * tokens

    table = ByToken(double)
    assert table.upto(10).tolist() == [2.0 * n for n in range(11)]
    table.upto(900)
    assert calls == [1024]
    assert table.upto(5000)[5000] == 10000.0
    assert table.upto(8).base is not None and not table.upto(8).flags.writeable
    assert len(calls) == 2
