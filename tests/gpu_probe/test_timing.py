import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_probe import timing
from gpu_probe.timing import Stopwatch, Timing, timed, timed_graph, timed_in_order, wall


def test_median_and_tenths_of_a_ramp():
    ramp = Timing.of([float(i) for i in range(11)])
    assert (ramp.median, ramp.p10, ramp.p90, ramp.repeats) == (5.0, 1.0, 9.0, 11)
    assert ramp.spread == pytest.approx(1.6)


@given(st.lists(st.floats(1e-6, 10), min_size=1, max_size=30), st.floats(0.5, 4))
def test_the_spread_has_no_unit(seconds, factor):
    one = Timing.of(seconds)
    ordered = [min(seconds), one.p10, one.median, one.p90, max(seconds)]
    assert ordered == pytest.approx(sorted(ordered))
    scaled = Timing.of([factor * s for s in seconds])
    assert scaled.spread == pytest.approx(one.spread, abs=1e-9)


@pytest.mark.parametrize("measure", [timed, timed_graph, wall])
def test_a_known_duration_is_found(measure):
    found = measure(lambda: time.sleep(0.01), "cpu", 5)
    assert found.repeats == 5
    assert 0.01 <= found.median < 0.05


class Card:
    """A clock that a run moves on by what it takes at that moment."""

    def __init__(self, monkeypatch, takes):
        self.now, self.runs, self.takes = 0.0, 0, takes
        monkeypatch.setattr(timing.time, "perf_counter", lambda: self.now)

    def run(self):
        self.now += self.takes(self.now)
        self.runs += 1


def test_a_steady_clock_has_settled_after_three_slices(monkeypatch):
    card = Card(monkeypatch, lambda now: 0.0055)
    timing.settled(card.run, "cpu", 0.025, 0.4)
    assert card.runs == 3 + 3 * 5


def test_a_sinking_clock_is_waited_for(monkeypatch):
    card = Card(monkeypatch, lambda now: 0.005 * (1 + 2 * min(now, 0.2)))
    timing.settled(card.run, "cpu", 0.025, 0.4)
    assert 0.2 < card.now < 0.36
    assert card.takes(card.now) == pytest.approx(0.007)


def test_a_clock_that_sinks_late_is_waited_for_as_long_as_asked(monkeypatch):
    def late(now):
        return 0.005 if now < 0.15 else 0.006

    card = Card(monkeypatch, late)
    timing.settled(card.run, "cpu", 0.025, 0.4)
    assert card.takes(card.now) == 0.005
    card = Card(monkeypatch, late)
    timing.settled(card.run, "cpu", 0.025, 0.4, 0.3)
    assert card.takes(card.now) == 0.006 and 0.3 < card.now < 0.36
    card = Card(monkeypatch, late)
    assert timed_in_order([card.run], "cpu", 6, 0.4, 0.3)[0].median == pytest.approx(0.006)


def test_a_restless_clock_is_given_up(monkeypatch):
    card = Card(monkeypatch, lambda now: 0.005 * (1 + now))
    timing.settled(card.run, "cpu", 0.025, 0.4)
    assert 0.4 <= card.now < 0.45


def test_without_a_limit_there_are_three_runs(monkeypatch):
    card = Card(monkeypatch, lambda now: 0.005)
    timing.settled(card.run, "cpu", 0.0, 0.0)
    assert card.runs == 3


def test_repeats_end_when_the_median_stands(monkeypatch):
    steady = Card(monkeypatch, lambda now: 0.01)
    assert timed(steady.run, "cpu", 30).repeats == 20
    restless = Card(monkeypatch, lambda now: 0.01 * (1 + now))
    assert timed(restless.run, "cpu", 30).repeats == 30


def test_a_swinging_clock_is_timed_for_as_long_as_asked(monkeypatch):
    """Over whole swings the median is their middle, wherever the timing began."""

    def swings(now):
        return 0.01 if now % 0.4 < 0.2 else 0.011

    card = Card(monkeypatch, swings)
    short = timed_in_order([card.run], "cpu", 9)[0]
    assert short.median == pytest.approx(0.01) and short.repeats <= 9
    card = Card(monkeypatch, swings)
    long = timed_in_order([card.run], "cpu", 9, span=0.8)[0]
    assert long.median * long.repeats >= 0.75
    assert long.p10 == pytest.approx(0.01) and long.p90 == pytest.approx(0.011)


def test_parts_add_up_to_the_whole():
    whole, short, long = timed_in_order(
        [lambda: time.sleep(0.002), lambda: time.sleep(0.01)], "cpu", 4
    )
    assert short.median < long.median < whole.median
    assert whole.median == pytest.approx(short.median + long.median, rel=0.2)


def test_stopwatch_gives_the_time_between_marks():
    watch = Stopwatch("cpu")
    watch.mark()
    time.sleep(0.01)
    watch.mark()
    watch.mark()
    long, short = watch.between()
    assert long >= 0.01 > short
