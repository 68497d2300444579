"""The planning schedulers against the paper's figures and a second implementation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schedulers.samples import (
    FixedPast,
    algorithm_1,
    best_budget,
    first,
    sorted_candidates,
    survivals,
    view,
)
from workbench.schedulers import create
from workbench.schedulers.admission import kth_largest, sort_descending

APPENDIX = 1 / np.array([1.0, 0.5, 0.45])


def lengths(spec, confidence, seconds=None, past=None):
    confidence = np.asarray(confidence, float)
    scheduler = create(spec, confidence.shape[1])
    return scheduler.verify_lengths(view(confidence, seconds, past), survivals(confidence)).tolist()


@pytest.mark.parametrize(
    ("spec", "c2", "expected"),
    [("greedy", 0.9, 0), ("greedy", 0, 0), ("global", 0.9, 2), ("global", 0, 0)],
)
def test_appendix_of_the_paper(spec, c2, expected):
    assert lengths(spec, [[0.8, c2]], APPENDIX) == [expected]


def test_topk_takes_its_budget_from_the_past_and_its_tokens_from_now():
    past = FixedPast([[0.8, 0.72], [0.8, 0.72]])
    seconds = [1, 1, 1, 10, 10]  # two drafts are free
    assert lengths("topk", [[0.1, 0.1], [0.9, 0.9]], seconds, past) == [0, 2]
    assert past.asked == [(2, 1.0)]
    assert lengths("topk:3", [[0.9, 0.1], [0.8, 0.1]], seconds, past) == [1, 1]
    assert past.asked[-1] == (3, 1.0)


def test_requests_without_a_past_are_priced_as_certain():
    seconds = 1 + 0.4 * np.arange(5)
    unknown = FixedPast(np.ones((2, 2)))
    assert lengths("global", [[0.5, 0.5], [0.5, 0.5]], seconds) == [0, 0]
    # Θ_k = (2 + k) / (1 + 0.4 k) falls from 2; with 0.3 it rises
    assert lengths("topk", [[0.5, 0.5], [0.5, 0.5]], 1 + 0.3 * np.arange(5), unknown) == [2, 2]


@pytest.mark.parametrize(
    ("budget", "expected"), [(1, [1, 0, 0]), (2, [1, 1, 0]), (3, [1, 1, 1]), (4, [2, 1, 1])]
)
def test_ties_go_by_position_then_request(budget, expected):
    seconds = np.where(np.arange(10) <= budget, 1.0, 100.0)
    ties = [[0.5, 1.0, 1.0]] * 3  # survivals all 0.5
    for spec in ("greedy", "global"):
        assert lengths(spec, ties, seconds) == expected
    assert lengths("topk", ties, seconds, FixedPast(np.ones((3, 3)))) == expected


def test_flat_costs_verify_everything_that_may_be_accepted():
    confidence = [[0.9, 0.0, 0.9], [0.2, 0.2, 0.2]]
    for spec in ("greedy", "global"):
        assert lengths(spec, confidence) == [1, 3]
    assert lengths("topk", confidence, past=FixedPast(np.ones((2, 3)))) == [3, 3]


def test_equal_throughput_does_not_admit():
    # a = 0.5 at 1.5 times the price: Θ stays 1
    assert lengths("greedy", [[0.5]], [1.0, 1.5]) == [0]
    assert lengths("global", [[0.5]], [1.0, 1.5]) == [0]


def test_greedy_stalls_at_a_riser_that_global_search_crosses():
    seconds = np.where(np.arange(9) == 0, 1.0, 2.0)
    assert lengths("greedy", [[1.0] * 8], seconds) == [0]
    assert lengths("global", [[1.0] * 8], seconds) == [8]


@pytest.mark.parametrize(
    ("h", "expected"), [(0, [3, 3]), (0.5, [3, 0]), (0.7, [1, 0]), (0.9, [1, 0]), (1, [0, 0])]
)
def test_threshold_cuts_at_the_first_confidence_below(h, expected):
    assert lengths(f"threshold:{h}", [[0.9, 0.5, 0.95], [0.4, 1, 1]]) == expected


def test_threshold_is_measured_by_confidence_and_not_by_survival():
    assert lengths("threshold:0.8", [[0.8] * 7]) == [7]


def test_no_scheduler_verifies_more_than_was_drafted():
    confidence = np.full((2, 5), 0.9)
    seen = view(confidence, past=FixedPast(np.ones((2, 5))))
    seen.draft_length = 2
    survival = survivals(confidence)
    survival[:, 2:] = 0
    for spec in ("static:5", "threshold:0.1", "greedy", "topk", "global"):
        assert create(spec, 5).verify_lengths(seen, survival).tolist() == [2, 2], spec


def test_an_empty_batch_is_answered():
    empty = np.zeros((0, 3))
    seen = view(empty, [1.0], FixedPast(empty))
    for spec in ("none", "static:2", "threshold:0.5", "greedy", "topk", "global"):
        assert create(spec, 3).verify_lengths(seen, empty).shape == (0,), spec


VALUES = st.sampled_from([0.0, 0.25, 0.5, 0.8, 0.9, 1.0])


@st.composite
def batches(draw):
    count, gamma = draw(st.integers(0, 4)), draw(st.integers(1, 4))
    values = st.one_of(VALUES, st.floats(0, 1)) if draw(st.booleans()) else VALUES
    tables = [[[draw(values) for _ in range(gamma)] for _ in range(count)] for _ in range(2)]
    size = count * gamma + 1
    kind = draw(st.sampled_from(["flat", "linear", "staircase", "falling", "any"]))
    if kind == "flat":
        seconds = np.ones(size)
    elif kind == "linear":
        seconds = 1 + draw(st.sampled_from([0.05, 0.25, 0.5])) * np.arange(size)
    elif kind == "staircase":
        seconds = 1 + 0.5 * (np.arange(size) // draw(st.integers(1, 4)))
    elif kind == "falling":
        seconds = 2 - np.arange(size) / size
    else:
        seconds = np.array([draw(st.floats(0.1, 4)) for _ in range(size)])
    shape = (count, gamma)
    return np.reshape(tables[0], shape), np.reshape(tables[1], shape), seconds


@settings(max_examples=2000, deadline=None)
@given(batches())
def test_planners_equal_plain_loops(batch):
    confidence, older, seconds = batch
    survival = survivals(confidence).tolist()
    before = survivals(older)
    past = FixedPast(before)
    assert lengths("greedy", confidence, seconds) == algorithm_1(survival, seconds)
    best = first(survival, best_budget(survival, seconds))
    assert lengths("global", confidence, seconds) == best
    stale = first(survival, best_budget(before.tolist(), seconds), above=-1.0)
    assert lengths("topk", confidence, seconds, past) == stale


@settings(max_examples=300, deadline=None)
@given(batches())
def test_admission_is_closed_under_prefixes(batch):
    confidence, _, seconds = batch
    survival = survivals(confidence).tolist()
    for spec in ("greedy", "global"):
        answer = lengths(spec, confidence, seconds)
        admitted = sorted_candidates(survival)[: sum(answer)]
        assert sorted(admitted) == [(r, j) for r, ell in enumerate(answer) for j in range(ell)]


def test_batches_of_serving_size_equal_plain_loops():
    rng = np.random.default_rng(5)
    confidence = rng.choice(rng.random(40), (256, 7))  # many ties
    seconds = 1 + 0.002 * (np.arange(256 * 7 + 1) // 8 * 8)
    survival = survivals(confidence).tolist()
    assert lengths("greedy", confidence, seconds) == algorithm_1(survival, seconds)
    budget = best_budget(survival, seconds)
    assert 0 < budget < 1000
    assert lengths("global", confidence, seconds) == first(survival, budget)


@pytest.mark.parametrize("h", [0.1, 0.35, 0.7, 0.9])
def test_a_recorded_confidence_equal_to_the_threshold_is_not_below_it(h):
    recorded = np.float32([[h, h, h]])  # as traces hold them
    assert lengths(f"threshold:{h}", recorded) == [3]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.one_of(VALUES, st.floats(0, 1), st.just(5e-324)), min_size=1, max_size=600),
    st.integers(0, 2**32 - 1),
)
def test_sorting_and_selecting_by_bits_are_exact(some, seed):
    rng = np.random.default_rng(seed)
    # many of them close together, so that the upper bits agree
    values = np.concatenate(
        [some, np.repeat(some, 3) * (1 - 2.0**-45 * rng.integers(0, 9, 3 * len(some)))]
    )
    expected = np.sort(values)[::-1]
    mine, spare = values.copy(), np.empty(len(values))
    sort_descending(mine, len(mine), spare)
    assert (mine == expected).all()
    for k in {1, len(values), int(rng.integers(1, len(values) + 1))}:
        assert kth_largest(values.copy(), len(values), k, spare) == expected[k - 1]
