"""A day from an hour, and other times for the same lengths."""

import numpy as np
import pytest

from workbench.arrivals import Arrivals, poisson, retime, stretch
from workbench.arrivals.reshaping import DAY_S
from workbench.errors import InputError


def hour(n=2000, seed=0, **columns):
    rng = np.random.default_rng(seed)
    prompt = rng.integers(1, 5000, n).astype(np.int32)
    return Arrivals("hour", poisson(2.0, n, rng), prompt, prompt * 2, **columns)


def test_a_day_has_n_requests_the_asked_swing_and_the_lengths_pairs():
    source = hour()
    day = stretch(source, 400_000, np.random.default_rng(1), peak_to_trough=3.0)
    assert day.requests == 400_000 and day.at[0] >= 0 and day.at[-1] < DAY_S
    assert (np.diff(day.at) >= 0).all()
    # cosine with mean 1 and peak three times the trough: 1 ± 0.5
    hours = np.histogram(day.at, 24, (0, DAY_S))[0] / (400_000 / 24)
    middle = (np.arange(24) + 0.5) * 3600
    expected = 1 + 0.5 * np.cos(2 * np.pi * (middle - 14 * 3600) / DAY_S)
    assert hours == pytest.approx(expected, abs=0.05)
    assert (day.output_tokens == 2 * day.prompt_tokens).all()
    assert day.prompt_tokens.mean() == pytest.approx(source.prompt_tokens.mean(), rel=0.02)
    assert "cosine, peak at 14 h" in day.notes[-1]


def test_bursts_survive_the_stretch():
    rng = np.random.default_rng(2)
    gaps = np.where(np.arange(6000) % 60 == 0, 30.0, 0.05)  # a burst of 60 each half minute
    leads = (gaps > 1).astype(np.int32)  # 1 for the first request of a burst
    bursty = Arrivals("b", np.cumsum(gaps), leads, leads)
    day = stretch(bursty, 100_000, rng, peak_to_trough=1.0)
    gap = np.diff(day.at)
    assert gap.std() / gap.mean() == pytest.approx(gaps.std() / gaps.mean(), rel=0.1)
    # and in order: nearly always 59 short gaps between long ones
    long = np.flatnonzero(gap > gap.mean() * 5)
    assert np.median(np.diff(long)) == 60
    assert (day.prompt_tokens[1:][long] == 1).all()  # a request keeps the gap before it


def test_a_flat_day_without_recorded_times_is_poisson():
    lengths = Arrivals("l", np.zeros(50), *(np.ones(50, np.int32),) * 2, timed=False)
    day = stretch(lengths, 86_400, np.random.default_rng(3), peak_to_trough=1.0)
    counts = np.histogram(day.at, 1440, (0, DAY_S))[0]
    assert counts.var() / counts.mean() == pytest.approx(1.0, abs=5 * np.sqrt(2 / 1440))


@pytest.mark.parametrize("n", [1, 2, 63, 65])
def test_small_days(n):
    for rows in (1, 2, 3):
        day = stretch(hour(rows), n, np.random.default_rng(n))
        assert day.requests == n and day.at[-1] < DAY_S
    still = Arrivals("s", np.array([0.0, 0.0, 5.0]))  # a draw may hold no gap at all
    for seed in range(8):
        assert np.isfinite(stretch(still, n, np.random.default_rng(seed)).at).all()


def test_sessions_are_dropped_and_cached_prompts_stay_with_their_request():
    cached = hour().prompt_tokens - 1
    source = hour(cached_prompt_tokens=cached, session=np.zeros(2000, np.int32))
    day = stretch(source, 3000, np.random.default_rng(0))
    assert day.session is None and "sessions dropped" in day.notes
    assert (day.cached_prompt_tokens == day.prompt_tokens - 1).all()


def test_a_million_requests_are_the_same_for_a_seed():
    first = stretch(hour(), 1_000_000, np.random.default_rng(9))
    again = stretch(hour(), 1_000_000, np.random.default_rng(9))
    assert (first.at == again.at).all() and (first.output_tokens == again.output_tokens).all()


def test_bad_days():
    with pytest.raises(InputError, match="a day of 0 requests"):
        stretch(hour(), 0, np.random.default_rng(0))
    with pytest.raises(InputError, match=r"a peak of 0\.5 troughs"):
        stretch(hour(), 5, np.random.default_rng(0), peak_to_trough=0.5)


def test_retime_repeats_the_requests_in_order():
    source = hour(3)
    found = retime(source, np.arange(7.0))
    assert found.at.tolist() == list(range(7))
    assert found.prompt_tokens.tolist() == source.prompt_tokens[[0, 1, 2, 0, 1, 2, 0]].tolist()
    assert found.notes == ["lengths of hour in its order, 7 requests from 3"]
