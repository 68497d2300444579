import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_probe.load import IDLE, Load


def test_a_card_that_was_idle_lacks_all_and_one_that_worked_nothing():
    load = Load(1.0)
    assert load.missing(5.0) == 1.0
    load.note(5.0, 6.0)
    assert load.missing(6.0) == 0
    assert load.missing(6.0 + IDLE) == pytest.approx(0)
    assert load.missing(6.0 + IDLE + 0.3) == pytest.approx(0.3)
    assert load.missing(9.0) == 1.0


@given(
    st.lists(st.tuples(st.floats(0.01, 2), st.floats(0.01, 2)), max_size=8),
    st.floats(0.1, 2),
)
def test_work_only_lessens_what_is_missing(spans, seconds):
    load, now = Load(seconds), 0.0
    for pause, work in spans:
        before = load.missing(now + pause)
        load.note(now + pause, now + pause + work)
        now += pause + work
        after = load.missing(now)
        assert 0 <= after <= max(0.0, before) or after == pytest.approx(before)


def test_without_a_need_nothing_is_missing():
    assert Load(0.0).missing(1.0) == 0
