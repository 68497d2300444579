"""The past that a scheduler sees: rows of today, from its lag on, never a former tenant's."""

import numpy as np
import pytest

from workbench.serving.history import History


def record(history, slots, value):
    count = len(slots)
    history.record(
        np.array(slots, np.int64),
        np.full((count, 2), value),
        np.full(count, 1),
        np.full(count, 0),
        value,
    )


def test_rows_follow_the_request_not_the_position():
    history = History(depth=2, slots=4, block_size=2, lag=2)
    history.record(
        np.array([0, 3]),
        np.array([[0.1, 0.0], [0.3, 0.2]]),
        np.array([1, 2]),
        np.array([0, 2]),
        0.5,
    )
    record(history, [0, 3], 0.7)
    past = history.of(np.array([3, 1, 0]))
    assert past.survival(2).tolist() == [[0.3, 0.2], [1, 1], [0.1, 0]]
    assert past.survival(2, missing=0.5)[1].tolist() == [0.5, 0.5]
    assert past.verified(2).tolist() == [2, -1, 1]
    assert past.accepted(2).tolist() == [2, -1, 0]
    assert past.step_seconds(2) == 0.5


def test_a_new_tenant_has_no_past():
    history = History(depth=2, slots=2, block_size=2, lag=1)
    record(history, [0, 1], 0.4)
    history.forget(1)
    assert history.of(np.array([0, 1])).survival(1).tolist() == [[0.4, 0.4], [1, 1]]


def test_a_step_without_the_request_is_missing_even_if_older_ones_are_kept():
    history = History(depth=2, slots=1, block_size=2, lag=1)
    record(history, [0], 0.4)
    record(history, [], 0.0)  # a step of prefill alone
    past = history.of(np.array([0]))
    assert past.survival(1).tolist() == [[1, 1]]
    assert past.survival(2).tolist() == [[0.4, 0.4]]


@pytest.mark.parametrize("lag", [1, 2, 3])
def test_before_the_first_step_everything_is_missing(lag):
    history = History(depth=3, slots=1, block_size=2, lag=lag)
    for _ in range(lag):  # steps 0 .. lag − 1 look back to before the first
        past = history.of(np.array([0]))
        assert past.survival(lag).tolist() == [[1, 1]]
        assert past.verified(lag).tolist() == past.accepted(lag).tolist() == [-1]
        assert np.isnan(past.step_seconds(lag))
        record(history, [0], 0.25)
    assert history.of(np.array([0])).survival(lag).tolist() == [[0.25, 0.25]]


@pytest.mark.parametrize("lag", [0, 1, 4])
def test_nothing_newer_than_the_lag_or_older_than_kept_is_shown(lag):
    past = History(depth=3, slots=1, block_size=2, lag=2).of(np.array([0]))
    with pytest.raises(ValueError, match="from 2 to 3 steps back"):
        past.survival(lag)
