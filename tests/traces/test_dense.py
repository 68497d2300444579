"""Filling the gaps of a live log: what was recorded stays, what is drawn has the log's rates."""

from __future__ import annotations

import numpy as np
import pytest

from tests.traces.samples import header, random_rounds, request, rounds_request, write
from workbench.errors import InputError
from workbench.traces import densify, fill_gaps, read_trace
from workbench.traces.dense import acceptance_table


def _rounds(tmp_path, *requests, **fields):
    return read_trace(write(tmp_path / "t", header(coverage="rounds", **fields), *requests))


def test_dense_trace_comes_back_as_it_is(tmp_path):
    trace = read_trace(write(tmp_path / "t", header(), request()))
    dense, drawn = densify(trace, np.random.default_rng(0))
    assert dense is trace and not drawn.any() and len(drawn) == trace.rows


def test_recorded_parts_stay_and_masks_say_what_was_drawn(tmp_path):
    # rounds start at anchors 0, 2 and 3; the second rejected its first draft with two verified,
    # the third accepted two of three
    trace = _rounds(tmp_path, rounds_request(), rounds_request(id="b"))
    dense = fill_gaps(trace, np.random.default_rng(0))
    c = trace.confidence
    got = dense.trace
    assert got.row_start.tolist() == [0, 6, 12] and got.header.coverage == "dense"
    assert got.verified is None
    for r in (0, 6):
        assert got.confidence[r].tolist() == c[0].tolist()
        assert got.confidence[r + 1][:2].tolist() == c[0][1:].tolist()
        assert got.confidence[r + 2].tolist() == c[1].tolist()
        assert got.confidence[r + 3].tolist() == c[2].tolist()
        assert got.confidence[r + 4][:2].tolist() == c[2][1:].tolist()
        assert got.confidence[r + 5][:1].tolist() == c[2][2:].tolist()
        assert got.accepted[r] >= 1  # one recorded, then drawn
        assert got.accepted[r + 2 : r + 6].tolist() == [0, 2, 1, 0]  # rejections are never redrawn
        assert dense.outcome_drawn[r : r + 6].tolist() == [True, True, False, False, False, False]
        borrowed = [False, True, False, False, True, True]
        assert dense.confidence_borrowed[r : r + 6].tolist() == borrowed
    assert np.array_equal(dense.drawn, dense.outcome_drawn | dense.confidence_borrowed)


def test_borrowed_confidences_come_from_the_same_domain_and_position(tmp_path):
    rows = {"accepted": [2, 2], "verified": [2, 2], "output_tokens": 7}
    code = [[0.01, 0.02, 0.03], [0.04, 0.05, 0.06]]
    chat = [[0.91, 0.92, 0.93], [0.94, 0.95, 0.96]]
    trace = _rounds(
        tmp_path,
        rounds_request(domain="code", confidence=code, **rows),
        rounds_request(id="b", domain="chat", confidence=chat, **rows),
    )
    seen = set()
    for seed in range(20):
        dense, _ = densify(trace, np.random.default_rng(seed))
        for r, other in ((1, code[1]), (4, code[0]), (7, chat[1]), (10, chat[0])):
            assert dense.confidence[r, 2] == np.float32(other[2])  # the only other row
            seen.add(float(dense.confidence[r, 2]))
    assert len(seen) == 4


def test_full_acceptance_needs_no_drawing_at_the_start_of_a_row(tmp_path):
    trace = _rounds(
        tmp_path, rounds_request(output_tokens=5, accepted=[3], verified=[3], confidence=[[1] * 3])
    )
    dense = fill_gaps(trace, np.random.default_rng(0))
    assert dense.trace.accepted[0] == 3
    assert dense.outcome_drawn.tolist() == [False, True, True, True]


def test_the_last_round_is_cut_at_the_end_of_the_output(tmp_path):
    trace = _rounds(tmp_path, rounds_request(output_tokens=5))
    dense, drawn = densify(trace, np.random.default_rng(0))
    assert dense.rows == len(drawn) == 4


@pytest.mark.parametrize("confident", [True, False])
def test_drawn_outcomes_have_the_conditional_acceptance_of_their_position(tmp_path, confident):
    rate = np.array([0.9, 0.6, 0.8, 0.3])
    rng = np.random.default_rng(1)
    trace = read_trace(write(tmp_path / "t", *random_rounds(rng, rate, 1500, confident)))
    filled = fill_gaps(trace, np.random.default_rng(2))
    dense, whole = filled.trace, ~filled.confidence_borrowed
    if not confident:  # d accepted tokens after a row's start positions are shifted: leave those
        start = np.zeros(dense.rows, bool)
        start[dense.row_start[trace.row_request()] + trace.row_anchor()] = True
        whole = start
    accepted = dense.accepted[whole]
    left = dense.output_tokens[dense.row_request()] - 1 - dense.row_anchor()
    for k, p in enumerate(rate, 1):
        rows = (accepted >= k - 1) & (left[whole] >= k)
        n = rows.sum()
        assert n > 500
        # 4.5 standard errors of the log's own estimate and of the draws
        assert abs((accepted[rows] >= k).mean() - p) < 4.5 * np.sqrt(2 * p * (1 - p) / n * 4)


def test_acceptance_follows_the_confidence_bin(tmp_path):
    # confidence 0.05 is always rejected, 0.95 always accepted, 40 rounds of each
    low = {"confidence": [[0.05] * 3] * 40, "accepted": [0] * 40, "verified": [1] * 40}
    high = {"confidence": [[0.95] * 3] * 40, "accepted": [1] * 40, "verified": [1] * 40}
    trace = _rounds(
        tmp_path,
        rounds_request(output_tokens=41, **low),
        rounds_request(id="b", output_tokens=81, **high),
    )
    table = acceptance_table(trace)
    assert table[0, 0] == 0 and table[0, 9] == 1
    assert table[0, 5] == pytest.approx(0.5, abs=0.02)  # an empty bin: the position's rate
    assert table[2, 9] == pytest.approx(table[0, 5])  # an unseen position: the rate of all


def test_same_seed_same_result(tmp_path):
    rng = np.random.default_rng(3)
    trace = read_trace(write(tmp_path / "t", *random_rounds(rng, np.array([0.8, 0.5]), 30)))
    one, _ = densify(trace, np.random.default_rng(4))
    two, _ = densify(trace, np.random.default_rng(4))
    other, _ = densify(trace, np.random.default_rng(5))
    assert np.array_equal(one.confidence, two.confidence)
    assert np.array_equal(one.accepted, two.accepted)
    assert not np.array_equal(one.accepted, other.accepted)


def test_a_log_that_verified_nothing_cannot_be_filled(tmp_path):
    rows = {"accepted": [0, 0], "verified": [0, 0], "confidence": [[1] * 3] * 2}
    trace = _rounds(tmp_path, rounds_request(output_tokens=3, **rows))
    with pytest.raises(InputError, match="no round verified a draft"):
        densify(trace, np.random.default_rng(0))
