"""Synthetic traces: closed forms first, then the draws against them, then the paper."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.traces.samples import same
from workbench.errors import InputError
from workbench.traces import read_trace, rounds_of, trace_statistics, write_trace
from workbench.traces.presets import PRESETS, find_preset
from workbench.traces.statistics import calibration_error, roc_auc
from workbench.traces.synthetic import (
    HIGHEST_AUC,
    Lengths,
    calibrated_auc,
    concentration_for,
    expected_accepted_length,
    synthetic_trace,
)

# DSpark, arXiv 2607.05147, table 1, Qwen3-4B: accepted length with the bonus token, by benchmark
TABLE_1 = {
    "eagle3": {"math": (5.14, 4.62, 3.92), "code": (3.69, 4.16, 3.77), "chat": (2.39, 2.26, 2.55)},
    "dflash": {"math": (5.40, 4.85, 4.15), "code": (4.40, 4.74, 4.18), "chat": (3.07, 2.96, 2.83)},
    "dspark": {"math": (6.11, 5.70, 4.89), "code": (5.13, 5.38, 4.86), "chat": (3.64, 3.54, 3.29)},
}
RATES = (0.9, 0.6, 0.75)


def trace(rates=RATES, seed=0, **options):
    return synthetic_trace(rates, np.random.default_rng(seed), **options)


# The concentration that gives an AUC ---------------------------------------------------------


def test_auc_of_uniform_confidences_is_five_sixths():
    # c uniform on [0, 1]: c is 2x given success, 2(1 − x) given failure, and P(X > Y) = 5/6
    assert calibrated_auc(0.5, 2.0) == pytest.approx(5 / 6, abs=1e-12)


@pytest.mark.parametrize(("mean", "concentration"), [(0.5, 8.0), (0.7, 10.0), (0.9, 25.0)])
def test_auc_is_the_probability_of_ranking_a_success_above_a_failure(mean, concentration):
    a, b = mean * concentration, (1 - mean) * concentration
    edges = np.linspace(0, 1, 200_001)
    x = (edges[1:] + edges[:-1]) / 2
    density = x ** (a - 1) * (1 - x) ** (b - 1)
    success, failure = x * density, (1 - x) * density
    success, failure = success / success.sum(), failure / failure.sum()
    below = np.cumsum(failure) - failure / 2
    assert calibrated_auc(mean, concentration) == pytest.approx(success @ below, abs=1e-5)


@given(st.floats(0.01, 0.99), st.floats(0.501, HIGHEST_AUC))
def test_concentration_inverts_the_auc(mean, auc):
    assert calibrated_auc(mean, concentration_for(mean, auc)) == pytest.approx(auc, abs=1e-6)


@given(st.floats(0.01, 0.99), st.floats(1e-3, 1e4), st.floats(1.01, 10))
def test_auc_falls_as_confidences_concentrate(mean, concentration, factor):
    assert calibrated_auc(mean, concentration) > calibrated_auc(mean, concentration * factor) > 0.5


@pytest.mark.parametrize("auc", [0.3, 0.4999, 1.0, 1.2, math.nan])
def test_an_auc_out_of_reach_is_an_error(auc):
    with pytest.raises(InputError, match="--auc"):
        concentration_for(0.7, auc)
    with pytest.raises(InputError, match="--auc"):
        trace((1.0, 0.0), auc=auc)  # also where no concentration is needed


# What is drawn ---------------------------------------------------------------------------------


@pytest.mark.parametrize("auc", [0.5, 0.7, 0.85, 0.97])
def test_rows_follow_rates_auc_and_calibration(auc):
    drawn = trace(auc=auc, requests=800)
    accepted, confidence = drawn.accepted, drawn.confidence
    for k, p in enumerate(RATES):
        mine = accepted >= k
        passed = accepted[mine] > k
        n, sigma = int(mine.sum()), math.sqrt(p * (1 - p) / int(mine.sum()))
        assert n > 50_000
        assert passed.mean() == pytest.approx(p, abs=5 * sigma)
        assert confidence[:, k].mean(dtype=float) == pytest.approx(p, abs=0.005)
        assert roc_auc(confidence[mine, k], passed) == pytest.approx(auc, abs=0.01)
        assert calibration_error(confidence[mine, k].astype(float), passed) < 0.006


def test_replayed_rounds_pass_at_the_given_rates():
    drawn = trace(requests=1000)
    rounds = rounds_of(drawn)
    accepted = drawn.accepted[rounds.row[~rounds.reaches_end]]
    for k, p in enumerate(RATES):
        judged = int((accepted >= k).sum())
        assert judged > 20_000
        sigma = math.sqrt(p * (1 - p) / judged)
        # leaving out the last round of each request costs a little: long rounds reach the end
        assert (accepted > k).sum() / judged == pytest.approx(p, abs=5 * sigma + 0.005)


def test_rows_and_positions_are_independent():
    drawn = trace(requests=1000)
    first, second = drawn.confidence[:, 0].astype(float), drawn.confidence[:, 1].astype(float)
    noise = 5 / math.sqrt(drawn.rows)
    assert abs(np.corrcoef(first, second)[0, 1]) < noise
    assert abs(np.corrcoef(drawn.accepted[:-1], drawn.accepted[1:])[0, 1]) < noise


def test_an_auc_of_one_half_says_nothing():
    assert (trace(auc=0.5).confidence == np.float32(RATES)).all()


def test_certain_positions_are_certain():
    drawn = trace((1.0, 0.5, 0.0, 0.9))
    assert set(np.unique(drawn.accepted)) == {1, 2}
    assert (drawn.confidence[:, 0] == 1).all() and (drawn.confidence[:, 2] == 0).all()


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=9),
    st.floats(0.5, HIGHEST_AUC),
    st.integers(1, 20),
    st.floats(1, 40),
    st.floats(0, 60),
    st.integers(0, 2**32),
)
def test_every_trace_is_one_that_can_be_read(
    tmp_path_factory, rates, auc, requests, mean, spread, seed
):
    lengths = Lengths(mean, spread)
    drawn = trace(rates, seed, auc=auc, requests=requests, output_tokens=lengths)
    assert drawn.rows == int((drawn.output_tokens - 1).sum())
    assert drawn.accepted.max(initial=0) <= len(rates) and drawn.output_tokens.min() >= 1
    path = tmp_path_factory.mktemp("synthetic") / "drawn.jsonl"
    write_trace(path, drawn)
    if drawn.rows:
        assert same(drawn, read_trace(path))


def test_lengths_have_their_mean_and_spread():
    values = Lengths(300, 200).draw(200_000, np.random.default_rng(0))
    assert values.mean() == pytest.approx(300, rel=0.01)
    assert values.std() == pytest.approx(200, rel=0.03)
    assert values.min() >= 1 and values.dtype == np.int32
    assert set(Lengths(256).draw(9, np.random.default_rng(0))) == {256}


def test_one_seed_gives_the_same_requests_whatever_the_rates():
    options = dict(output_tokens=Lengths(100, 50), prompt_tokens=Lengths(80, 30))
    one, other = trace(RATES, **options), trace((0.3,) * 7, auc=0.6, **options)
    assert one.ids == other.ids
    assert (one.output_tokens == other.output_tokens).all()
    assert (one.prompt_tokens == other.prompt_tokens).all()
    assert same(one, trace(RATES, **options))
    assert not same(one, trace(RATES, seed=1, **options))


def test_header_says_that_it_is_synthetic_and_how():
    labels = dict(domain="code", temperature=0.6, confidence_sees="token", target="T", drafter="D")
    header = trace(auc=0.8, origin="a figure", **labels).header
    for said in ("synthetic", "0.9,0.6,0.75", "a figure", "0.8", "256", "128"):
        assert said in header.source
    assert {field: getattr(header, field) for field in labels} == labels
    assert header.block_size == 3 and header.coverage == "dense"


@pytest.mark.parametrize(
    ("rates", "options", "said"),
    [
        ((), {}, "0 positions"),
        ((0.5,) * 256, {}, "256 positions"),
        ((0.5, 1.2), {}, "position 2 is 1.2"),
        ((0.5, math.nan), {}, "position 2 is nan"),
        (RATES, {"temperature": -1.0}, "--temperature"),
        (RATES, {"requests": 10**6, "output_tokens": Lengths(1000)}, "fewer or shorter"),
    ],
)
def test_values_out_of_range_are_errors(rates, options, said):
    with pytest.raises(InputError, match=said):
        trace(rates, **options)


# The paper -------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", PRESETS.values(), ids=list(PRESETS))
def test_accepted_lengths_of_the_paper_come_back(preset):
    published = np.mean(TABLE_1[preset.drafter][preset.domain])
    assert expected_accepted_length(preset.conditional) == pytest.approx(published, rel=0.01)
    drawn = trace(preset.conditional, requests=200, output_tokens=Lengths(1024))
    length = trace_statistics(drawn).accepted_length
    assert length.replay == "exact" and length.replayed_rounds_counted > 30_000
    assert length.replayed_rounds == pytest.approx(published, rel=0.02)
    # rows do not know of each other, so an anchor is as good as a round's beginning
    assert length.all_anchors == pytest.approx(length.replayed_rounds, rel=0.02)


def test_presets_are_named_after_what_they_hold():
    assert len(PRESETS) == 9
    for name, preset in PRESETS.items():
        assert name == f"{preset.target}-{preset.drafter}-{preset.domain}".lower()
        assert len(preset.conditional) == 7
    with pytest.raises(InputError, match="qwen3-4b-eagle3-chat"):
        find_preset("qwen3")
