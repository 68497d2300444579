"""Accepted length and acceptance by position against closed forms and hand-worked rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.traces.samples import header, random_rounds, request, rounds_request, write
from workbench.traces import read_trace, rounds_of, trace_statistics
from workbench.traces.statistics import calibration_error, roc_auc


def _dense(tmp_path, accepted, **fields):
    rows = len(accepted)
    line = request(output_tokens=rows + 1, accepted=accepted, confidence=None, **fields)
    return read_trace(write(tmp_path / "t", header(), line))


def test_replayed_rounds_jump_and_the_one_at_the_end_does_not_count(tmp_path):
    trace = _dense(tmp_path, [1, 3, 0, 2, 0, 0, 3, 0])  # anchors 0, 2, 3, 6
    rounds = rounds_of(trace)
    assert rounds.row.tolist() == [0, 2, 3, 6]
    assert rounds.reaches_end.tolist() == [False, False, False, True]
    assert rounds.accepted_length(trace) == pytest.approx(1 + (1 + 0 + 2) / 3)
    length = trace_statistics(trace).accepted_length
    assert length.replayed_rounds == pytest.approx(2.0)
    # 9 output tokens: anchors 0..5 have their three drafts inside the output
    assert length.all_anchors == pytest.approx(1 + (1 + 3 + 0 + 2 + 0 + 0) / 6)
    assert length.recorded_rounds is None and length.replay == "exact"


def test_a_round_that_ends_exactly_at_the_last_token_reaches_the_end(tmp_path):
    assert rounds_of(_dense(tmp_path, [3, 0, 0, 0])).reaches_end.tolist() == [True]
    assert rounds_of(_dense(tmp_path, [2, 0, 0, 0])).reaches_end.tolist() == [False, True]


def test_a_request_of_one_token_has_no_rounds(tmp_path):
    trace = _dense(tmp_path, [])
    assert len(rounds_of(trace).row) == 0
    statistics = trace_statistics(trace)
    assert np.isnan(statistics.accepted_length.replayed_rounds)
    assert np.isnan(statistics.positions[0].acceptance)


def test_tokens_past_the_end_are_not_judged(tmp_path):
    # the last anchor has one token left, the one before it two: their zeros at k > left are cuts
    trace = _dense(tmp_path, [3, 3, 2, 1])
    judged = [(p.judged, p.accepted) for p in trace_statistics(trace).positions]
    assert judged == [(4, 4), (3, 3), (2, 2)]


def test_constant_acceptance_gives_the_geometric_sum(tmp_path):
    # every anchor accepts k drafts with probability p^k (1 − p): τ = (1 − p^(γ+1)) / (1 − p)
    p, rows = 0.7, 60_000
    passed = np.random.default_rng(0).random((rows, 3)) < p
    accepted = np.where(passed.all(axis=1), 3, passed.argmin(axis=1))
    length = trace_statistics(_dense(tmp_path, accepted.tolist())).accepted_length
    expected = (1 - p**4) / (1 - p)
    assert length.replayed_rounds == pytest.approx(expected, abs=0.03)
    assert length.all_anchors == pytest.approx(expected, abs=0.02)


def test_rounds_are_judged_at_verified_positions_only(tmp_path):
    trace = read_trace(
        write(
            tmp_path / "t",
            header(coverage="rounds"),
            rounds_request(),
            rounds_request(id="b", output_tokens=8, accepted=[1, 0, 3], verified=[1, 0, 3]),
        )
    )
    statistics = trace_statistics(trace)
    assert [(p.judged, p.accepted) for p in statistics.positions] == [(5, 4), (2, 2), (2, 1)]
    length = statistics.accepted_length
    assert length.replay == "approximate" and length.all_anchors is None
    assert length.recorded_rounds == pytest.approx(1.5)  # 2, 1 and 2, 1; the last reach the end
    assert length.mean_verified == pytest.approx((1 + 2 + 1 + 0) / 4)


def test_full_verification_is_recovered_from_a_log_of_short_ones(tmp_path):
    rate = np.full(3, 0.7)  # the same everywhere, so that the log's gaps can be filled exactly
    rng = np.random.default_rng(5)
    trace = read_trace(write(tmp_path / "t", *random_rounds(rng, rate, 3000)))
    length = trace_statistics(trace).accepted_length
    whole = 1 + rate.cumprod().sum()
    assert length.recorded_rounds < whole - 0.4
    assert length.replayed_rounds == pytest.approx(whole, abs=0.05)
    assert 0 < length.replayed_rounds_drawn < length.replayed_rounds_counted


def test_confidence_is_compared_over_the_same_rows(tmp_path):
    rows = [[0.5, 0.4, 0.1], [0.7, 0.9, 0.1], [0.3, 0.2, 0.1], [0.1, 0.1, 0.1], [0.1, 0.1, 0.1]]
    line = request(output_tokens=6, accepted=[3, 0, 1, 0, 0], confidence=rows)
    first, second, _ = trace_statistics(read_trace(write(tmp_path / "t", header(), line))).positions
    assert first.mean_confidence == pytest.approx(np.mean([0.5, 0.7, 0.3, 0.1, 0.1]))
    assert second.judged == 2  # anchors 0 and 2 passed token 1
    assert second.mean_confidence == pytest.approx((0.4 + 0.2) / 2)
    assert second.acceptance == pytest.approx(0.5)


def test_calibration_error_by_hand():
    predicted = np.array([0.31, 0.32, 0.95, 1.0])
    happened = np.array([True, False, True, True])
    # bins 4/15..5/15 (0.63 of 1 happened) and the last one (1.95 of 2)
    expected = (abs(0.63 - 1) + abs(1.95 - 2)) / 4
    assert calibration_error(predicted, happened) == pytest.approx(expected)
    assert np.isnan(calibration_error(predicted[:0], happened[:0]))


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=30))
def test_auc_is_the_share_of_ordered_pairs(pairs):
    score = np.array([s for s, _ in pairs], float)
    positive = np.array([p for _, p in pairs])
    above = score[positive][:, None] - score[~positive][None, :]
    if above.size == 0:
        assert np.isnan(roc_auc(score, positive))
    else:
        expected = ((above > 0) + 0.5 * (above == 0)).mean()
        assert roc_auc(score, positive) == pytest.approx(expected)
