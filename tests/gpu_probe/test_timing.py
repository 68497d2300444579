import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_probe.timing import Stopwatch, Timing, timed, timed_graph, wall


def test_median_and_tenths_of_a_ramp():
    timing = Timing.of([float(i) for i in range(11)])
    assert (timing.median, timing.p10, timing.p90, timing.repeats) == (5.0, 1.0, 9.0, 11)
    assert timing.spread == pytest.approx(1.6)


@given(st.lists(st.floats(1e-6, 10), min_size=1, max_size=30), st.floats(0.5, 4))
def test_the_spread_has_no_unit(seconds, factor):
    timing = Timing.of(seconds)
    ordered = [min(seconds), timing.p10, timing.median, timing.p90, max(seconds)]
    assert ordered == pytest.approx(sorted(ordered))
    scaled = Timing.of([factor * s for s in seconds])
    assert scaled.spread == pytest.approx(timing.spread, abs=1e-9)


@pytest.mark.parametrize("measure", [timed, timed_graph, wall])
def test_a_known_duration_is_found(measure):
    timing = measure(lambda: time.sleep(0.01), "cpu", 5)
    assert timing.repeats == 5
    assert 0.01 <= timing.median < 0.05


def test_settling_runs_on_before_the_timed_repeats():
    calls = []
    timed(lambda: (calls.append(1), time.sleep(0.002)), "cpu", 2, settle=0.03)
    assert len(calls) >= 2 + 6


def test_stopwatch_gives_the_time_between_marks():
    watch = Stopwatch("cpu")
    watch.mark()
    time.sleep(0.01)
    watch.mark()
    watch.mark()
    long, short = watch.between()
    assert long >= 0.01 > short
