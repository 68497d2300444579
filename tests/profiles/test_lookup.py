"""Lookup rules, and what they believe of vLLM's own startup curve (DeepSeek-V4-Flash on B300)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.profiles.samples import V4_FLASH
from workbench.errors import InputError
from workbench.profiles import Lookup, StepCost, profile_belief, read_profile

RULES = ("floor", "ceil", "linear", "cells")


def ms(lookup, tokens):
    return round(float(lookup.span(tokens, 0)[0]) * 1e3, 3)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [  # points 10, 20, 40 at 1, 2, 6 s: below, on, between, on, past
        ("floor", [1, 1, 1, 2, 6, 6]),
        ("ceil", [1, 1, 2, 2, 6, 6]),
        ("linear", [1, 1, 1.5, 2, 6, 6]),
    ],
)
def test_clamped_rules_by_hand(rule, expected):
    lookup = Lookup([10, 20, 40], [1, 2, 6], rule, clamped=True)
    assert [lookup.span(n, 0)[0] for n in (5, 10, 15, 20, 40, 60)] == expected
    assert lookup.span(5, 55)[[0, 5, 10, 15, 35, 55]].tolist() == expected


def test_linear_extrapolates_unless_clamped():
    assert Lookup([10, 20], [1, 2], "linear").span(30, 0)[0] == 3


def test_ceil_stops_at_the_capture_limit():
    lookup = Lookup([10, 20, 40, 80], [1, 2, 6, 7], "ceil", limit=20)
    # 21..39: no blending with the 2 s of the last graph, the eager curve's edge holds
    assert [lookup.span(n, 0)[0] for n in (11, 20, 21, 39, 60, 120)] == [2, 2, 6, 6, 6.5, 8]
    without_tail = Lookup([10, 20], [1, 2], "ceil", limit=20)
    assert without_tail.span(30, 0)[0] == 3


def test_cells_prices_measured_points_only_but_always_no_drafts():
    lookup = Lookup([10, 20, 40], [1, 2, 6], "cells")
    inf = np.inf
    assert lookup.span(18, 4).tolist() == [2, inf, 2, inf, inf]
    assert lookup.span(20, 1).tolist() == [2, inf]
    assert lookup.span(41, 2).tolist() == [6, inf, inf]  # past the last one
    assert lookup.span(3, 0).tolist() == [1]


def test_unknown_rule():
    with pytest.raises(InputError, match="floor, ceil, linear, cells"):
        Lookup([1], [1], "nearest")


points = st.lists(st.integers(1, 300), min_size=1, max_size=8, unique=True).map(sorted)


@given(points, st.data())
def test_rules_bracket_each_other_on_rising_tables(x, data):
    y = sorted(data.draw(st.lists(st.floats(1e-3, 1), min_size=len(x), max_size=len(x))))
    floor, ceil, linear = (
        Lookup(x, y, rule, clamped=True).span(0, 400) for rule in ("floor", "ceil", "linear")
    )
    assert (floor <= linear + 1e-12).all() and (linear <= ceil + 1e-12).all()
    for table in (floor, ceil, linear):
        assert table[x].tolist() == y
    cells = Lookup(x, y, "cells").span(0, 400)
    measured = np.isfinite(cells[1:]).nonzero()[0] + 1
    assert measured.tolist() == x and cells[0] == y[0]


@pytest.fixture(scope="module")
def flash():
    read = read_profile(V4_FLASH)
    return StepCost(read), {rule: profile_belief(read, rule).by_batch for rule in RULES}


@pytest.mark.parametrize(
    ("tokens", "truth", "floor", "ceil"),
    [
        (1, 5.11, 5.11, 5.11),
        (2, 5.16, 5.11, 5.16),
        (64, 7.90, 7.90, 7.90),
        (65, 8.21, 7.90, 8.21),
        (161, 11.39, 11.32, 11.39),
        (257, 12.52, 11.51, 12.52),
        (752, 17.76, 17.69, 17.76),
        (1024, 20.63, 20.63, 20.63),
        (1025, 104.49, 20.63, 104.49),  # floor sees no cliff until the first eager point
        (1280, 104.49, 20.63, 104.49),
        (1536, 104.49, 104.49, 104.49),
        (3072, 118.97, 104.49, 118.97),
        (24576, 334.12, 234.89, 334.12),  # past the end ceil goes on, floor holds
    ],
)
def test_v4_flash(flash, tokens, truth, floor, ceil):
    cost, lookup = flash
    assert round(cost.verify_seconds(tokens) * 1e3, 2) == truth
    assert round(ms(lookup["floor"], tokens), 2) == floor
    assert round(ms(lookup["ceil"], tokens), 2) == ceil


def test_ceil_is_the_truth_of_a_padded_engine(flash):
    cost, lookup = flash
    assert lookup["ceil"].span(1, 20000).tolist() == cost.verify_span(1, 20000).tolist()


def test_linear_blends_across_the_cliff(flash):
    _, lookup = flash
    assert ms(lookup["linear"], 1280) == pytest.approx((20.63 + 104.49) / 2)
    assert 11.51 < ms(lookup["linear"], 257) < 12.52


def test_cells_offers_captured_sizes(flash):
    _, lookup = flash
    span = lookup["cells"].span(16, 64)
    assert (np.isfinite(span).nonzero()[0] + 16).tolist() == [16, 24, 32, 40, 48, 56, 64, 72, 80]


def budget(lookup, requests, conditional, draft):
    """Argmax of Θ over batch tokens, for survivals conditional**k of every request."""
    survival = np.sort(np.repeat(conditional ** np.arange(1, 8), requests))[::-1]
    tau = requests + np.concatenate([[0.0], np.cumsum(survival)])
    seconds = lookup.span(requests, 7 * requests) + draft
    return requests + int(np.argmax(tau / seconds))


def test_floor_walks_off_the_cliff_where_ceil_stays_inside(flash):
    cost, lookup = flash
    draft = cost.draft_seconds(256, 7)
    assert budget(lookup["ceil"], 256, 0.8, draft) <= 1024
    assert budget(lookup["floor"], 256, 0.8, draft) > 1024


def test_budgets_end_on_treads(flash):
    cost, lookup = flash
    for requests in (16, 64, 128):
        draft = cost.draft_seconds(requests, 7)
        chosen = budget(lookup["ceil"], requests, 0.8, draft)
        assert cost.padded(chosen) == chosen
        cells = budget(lookup["cells"], requests, 0.8, draft)
        assert cost.padded(cells) == cells
