"""Arrival processes against the closed forms of their gaps and counts."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.arrivals import gamma, on_off, poisson, process, weibull
from workbench.errors import InputError

N = 200_000
SIGMAS = 5  # a false alarm once in two million


def gaps(at):
    return np.diff(at, prepend=0.0)


def rng(seed=0):
    return np.random.default_rng(seed)


def near(values, mean):
    return abs(values.mean() - mean) < SIGMAS * values.std() / math.sqrt(len(values))


def test_poisson_gaps_are_exponential():
    found = gaps(poisson(4.0, N, rng()))
    assert near(found, 0.25)
    assert near(found**2, 2 * 0.25**2)
    assert near(np.exp(-found), 4.0 / 5.0)  # Laplace transform at 1: rate / (rate + 1)


@pytest.mark.parametrize("cv", [0.3, 1.0, 2.0, 5.0])
def test_gamma_gaps_have_the_asked_mean_and_cv(cv):
    found = gaps(gamma(2.0, cv, N, rng(1)))
    assert near(found, 0.5)
    assert near(found**2, 0.25 * (1 + cv**2))
    shape = cv**-2
    assert near(np.exp(-found), (1 + 0.5 / shape) ** -shape)


def test_gamma_of_cv_0_is_a_clock_and_of_cv_1_is_poisson():
    assert gamma(4.0, 0.0, 3, rng()).tolist() == [0.25, 0.5, 0.75]
    found = np.sort(gaps(gamma(1.0, 1.0, N, rng(2))))
    empirical = np.arange(1, N + 1) / N
    distance = np.abs(empirical - (1 - np.exp(-found))).max()
    assert distance < 2.2 / math.sqrt(N)  # Kolmogorov: p = 1e-4


@pytest.mark.parametrize("shape", [0.5, 1.0, 2.0])
def test_weibull_gaps_have_the_asked_mean_and_shape(shape):
    found = gaps(weibull(5.0, shape, N, rng(3)))
    assert near(found, 0.2)
    scale = 0.2 / math.gamma(1 + 1 / shape)
    assert near(found > scale, math.exp(-1))


@pytest.mark.parametrize(("on", "off"), [(5.0, 15.0), (1.0, 1.0), (2.0, 0.0)])
def test_on_off_counts_have_the_dispersion_of_an_interrupted_poisson_process(on, off):
    rate, interval = 3.0, 10.0
    at = on_off(rate, on, off, 600_000, rng(4))
    counts = np.bincount((at // interval).astype(int))[:-1]
    speed = 1 / on + 1 / off if off else math.inf
    kept = 1 - (1 - math.exp(-speed * interval)) / (speed * interval) if off else 0.0
    dispersion = 1 + 2 * rate * off**2 / (on + off) * kept
    long_run = 1 + 2 * rate * off**2 / (on + off)
    assert abs(len(at) / at[-1] - rate) < SIGMAS * math.sqrt(long_run * rate / at[-1])
    assert counts.var() / counts.mean() == pytest.approx(dispersion, rel=0.05)


def test_on_off_is_silent_for_the_off_share_and_fast_otherwise():
    on, off, rate = 4.0, 12.0, 50.0
    at = on_off(rate, on, off, N, rng(5))
    silent = gaps(at)[gaps(at) > 0.2]  # at 200 requests/s nothing else makes such a gap
    assert silent.sum() / at[-1] == pytest.approx(off / (on + off), rel=0.05)
    assert silent.mean() == pytest.approx(off + 0.2 + 0.005, rel=0.1)  # memoryless beyond 0.2 s


def test_on_off_starts_in_the_steady_state():
    first = np.array([on_off(100.0, 1.0, 9.0, 1, rng(seed))[0] for seed in range(2000)])
    # off with 0.9, then 9 s of silence on average; else the first arrival comes at once
    assert abs((first > 0.1).mean() - 0.9 * math.exp(-0.1 / 9)) < SIGMAS * 0.3 / math.sqrt(2000)
    assert near(first[first > 0.1] - 0.1, 9.0)


@given(
    st.sampled_from([{}, {"cv": 3.0}, {"cv": 0.0}, {"on_off": (1.0, 5.0)}]),
    st.integers(0, 200),
    st.floats(1e-3, 1e4),
    st.integers(0, 2**32),
)
def test_every_process_gives_n_ordered_times_and_the_same_for_a_seed(kind, n, rate, seed):
    at = process(rate, n, rng(seed), **kind)
    assert at.shape == (n,) and at.dtype == np.float64
    assert np.isfinite(at).all() and (np.diff(at, prepend=0.0) >= 0).all()
    assert (process(rate, n, rng(seed), **kind) == at).all()


def test_process_chooses_by_its_arguments():
    assert (process(2.0, 9, rng()) == poisson(2.0, 9, rng())).all()
    assert (process(2.0, 9, rng(), cv=3) == gamma(2.0, 3, 9, rng())).all()
    assert (process(2.0, 9, rng(), on_off=(1, 2)) == on_off(2.0, 1, 2, 9, rng())).all()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: process(0.0, 1, rng()), "rate of 0"),
        (lambda: process(math.nan, 1, rng()), "rate of nan"),
        (lambda: process(1.0, -1, rng()), "-1 requests"),
        (lambda: process(1.0, 1, rng(), cv=-1.0), "cv of -1"),
        (lambda: process(1.0, 1, rng(), cv=math.inf), "cv of inf"),
        (lambda: process(1.0, 1, rng(), on_off=(0.0, 1.0)), "phases of 0 and 1 s"),
        (lambda: process(1.0, 1, rng(), on_off=(1.0, -1.0)), "phases of 1 and -1 s"),
        (lambda: process(1e-9, 9, rng(), on_off=(1.0, 1.0)), "plain Poisson"),
        (lambda: process(1.0, 1, rng(), cv=2.0, on_off=(1.0, 1.0)), "give one of them"),
        (lambda: weibull(1.0, 0.0, 1, rng()), "shape of 0"),
    ],
)
def test_bad_numbers_are_named(call, says):
    with pytest.raises(InputError, match=says):
        call()


@pytest.mark.parametrize(
    "make",
    [
        lambda: poisson(1e-300, 5, rng()),
        lambda: poisson(1e300, 5, rng()),
        lambda: gamma(1.0, 1e-200, 5, rng()),
        lambda: gamma(1.0, 1e200, 5, rng()),
        lambda: weibull(1e-10, 1.0, 5, rng()),
        lambda: on_off(1.0, 1e300, 1e300, 5, rng()),
        lambda: on_off(1.0, 1.0, float("nan"), 5, rng()),
    ],
)
def test_numbers_that_would_overflow_are_refused(make):
    with pytest.raises(InputError) as caught:
        make()
    assert caught.value.mend


@settings(deadline=None, max_examples=50)
@given(st.floats(1e-9, 1e9), st.floats(1e-6, 1000), st.floats(1.0, 1e9), st.floats(0, 1e9))
def test_all_that_is_taken_gives_finite_times(rate, cv, on_s, off_s):
    for at in (gamma(rate, cv, 20, rng()), poisson(rate, 20, rng())):
        assert np.isfinite(at).all() and (np.diff(at) >= 0).all()
    try:
        at = on_off(rate, on_s, off_s, 20, rng())
    except InputError:  # more phases than memory holds
        return
    assert np.isfinite(at).all() and (np.diff(at) >= 0).all()
