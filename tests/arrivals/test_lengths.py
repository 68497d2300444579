"""Cutting and continuing recordings: the stated rule, and the lookup against a plain walk."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.arrivals import fit_outputs
from workbench.errors import InputError


def starts(rows):
    return np.concatenate([[0], np.cumsum(rows)]).astype(np.int64)


def fit(wanted, rows, domain=None, seed=0, order=None):
    domain = np.zeros(len(rows), int) if domain is None else np.array(domain)
    order = None if order is None else np.array(order)
    return fit_outputs(np.array(wanted), starts(rows), domain, np.random.default_rng(seed), order)


def test_a_long_recording_is_cut_and_one_that_fits_is_whole():
    found = fit([4, 6, 1], [5, 5, 5], order=[0, 1, 2])
    assert found.recorded.tolist() == [0, 1, 2] and found.rows.tolist() == [3, 5, 0]
    assert found.start.tolist() == [0, 1, 2, 3]
    assert found.cut.tolist() == [True, False, True] and not found.continued.any()
    rows, first = found.materialise()
    assert rows.tolist() == [0, 1, 2, 5, 6, 7, 8, 9] and first.tolist() == [0, 3, 8, 8]
    assert found.describe().startswith("2 of 3 requests cut")


def test_a_short_recording_goes_on_at_row_0_of_the_other():
    found = fit([8, 3], [3, 2], order=[0, 1])
    # 7 rows: all of 0, all of 1, and 0 again, cut after 2
    assert found.recorded.tolist() == [0, 1, 0, 1] and found.rows.tolist() == [3, 2, 2, 2]
    assert found.first_row.tolist() == [0, 0, 0, 0]
    assert found.continued.tolist() == [True, False]
    assert found.materialise()[0].tolist() == [0, 1, 2, 3, 4, 0, 1, 3, 4]


def test_the_only_recording_of_a_domain_is_repeated():
    found = fit([8], [3, 2], domain=[0, 1], order=[0])
    assert found.recorded.tolist() == [0, 0, 0] and found.rows.tolist() == [3, 3, 1]


def test_a_recording_without_rows_is_continued_at_once():
    found = fit([3], [0, 0, 9], order=[1])
    assert found.recorded.tolist() == [2] and found.rows.tolist() == [2]
    with pytest.raises(InputError, match="no recorded request of its domain has rows"):
        fit([3], [0, 0, 9], domain=[0, 0, 1], order=[1])


def test_the_default_order_uses_each_recording_once_before_any_twice():
    found = fit([1] * 10, [4] * 4)
    assert sorted(found.recorded[:4]) == sorted(found.recorded[4:8]) == [0, 1, 2, 3]
    assert (fit([1] * 10, [4] * 4, seed=1).recorded != found.recorded).any()


def test_continuations_are_drawn_evenly_among_the_others():
    n = 30_000
    found = fit([3] * n, [1, 1, 1, 1], order=[2] * n)
    second = found.recorded.reshape(n, 2)[:, 1]
    counts = np.bincount(second, minlength=4)
    assert counts[2] == 0
    assert np.abs(counts[[0, 1, 3]] - n / 3).max() < 5 * np.sqrt(n * 2 / 9)


@settings(max_examples=200)
@given(st.data())
def test_every_request_has_its_rows_by_the_rule(data):
    recordings = data.draw(
        st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2)), min_size=1, max_size=8)
    )
    rows = np.array([r for r, _ in recordings])
    domain = np.array([d for _, d in recordings])
    usable = [o for o in range(len(rows)) if ((domain == domain[o]) & (rows > 0)).any()]
    if not usable:
        return
    order = data.draw(st.lists(st.sampled_from(usable), min_size=1, max_size=9))
    wanted = data.draw(st.lists(st.integers(1, 40), min_size=len(order), max_size=len(order)))
    seed = data.draw(st.integers(0, 99))
    found = fit(wanted, rows, domain, seed, order)
    again = fit(wanted, rows, domain, seed, order)
    assert (again.recorded == found.recorded).all()
    flat, first = found.materialise()
    row_start = starts(rows)
    for r, (own, m) in enumerate(zip(order, wanted, strict=True)):
        segments = range(found.start[r], found.start[r + 1])
        pieces = [(found.recorded[s], found.rows[s]) for s in segments]
        assert sum(count for _, count in pieces) == m - 1
        if rows[own] > 0 or m == 1:
            assert pieces[0][0] == own
        if rows[own] >= m - 1:
            assert len(pieces) == 1 and not found.continued[r]
        assert all(domain[piece] == domain[own] for piece, _ in pieces)
        assert all(count == rows[piece] for piece, count in pieces[:-1])
        assert found.cut[r] == (pieces[-1][1] < rows[pieces[-1][0]])
        peers = ((domain == domain[own]) & (rows > 0)).sum()
        if peers > 1:
            assert all(a[0] != b[0] for a, b in pairwise(pieces))
        walk = [row_start[piece] + i for piece, count in pieces for i in range(count)]
        assert flat[first[r] : first[r + 1]].tolist() == walk
        if m > 1:
            anchors = np.arange(m - 1)
            assert found.row(np.full(m - 1, r), anchors).tolist() == walk


def test_nothing_to_replay():
    found = fit([], [3, 4])
    assert found.requests == 0 and len(found.materialise()[0]) == 0


def test_impossible_wishes():
    with pytest.raises(InputError, match="request 1 has no output tokens"):
        fit([2, 0], [3])
    with pytest.raises(InputError, match=r"about 2e\+09 recorded requests"):
        fit([2_000_000_000], [1, 1])
