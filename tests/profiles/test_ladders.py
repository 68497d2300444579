"""Capture ladders by name and by list, and a profile with other captured sizes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.profiles.samples import profile
from tests.support import write_profile
from workbench.errors import InputError
from workbench.profiles import StepCost, ladder, read_profile, with_graph_sizes

# Ladders ------------------------------------------------------------------------------------------


def test_vllm_captures_51_sizes_up_to_512():
    # vllm-project/vllm, config/vllm.py: [1, 2, 4] + range(8, 256, 8) + range(256, 513, 16)
    assert ladder("vllm") == [1, 2, 4, *range(8, 256, 8), *range(256, 513, 16)]
    assert len(ladder("vllm")) == 51
    assert ladder("vllm", 7) == ladder("vllm")  # tokens, whatever is drafted


def test_sglang_captures_batch_sizes_times_their_tokens():
    plain = ladder("sglang")
    assert plain[:8] == [1, 2, 4, 8, 12, 16, 24, 32] and plain[-1] == 256
    drafting = ladder("sglang", 7)
    assert [size // 8 for size in drafting[:10]] == [1, 2, 3, 4, 5, 6, 7, 8, 10, 12]
    assert all(size % 8 == 0 for size in drafting) and drafting[-1] == 256 * 8


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("none", []),
        ("8", [8]),
        ("4,1,2,4", [1, 2, 4]),
        ("1,2,4,8-32:8", [1, 2, 4, 8, 16, 24, 32]),
        ("1-4", [1, 2, 3, 4]),
        ("10-14:3", [10, 13]),
        ("5-5", [5]),
    ],
)
def test_lists_and_ranges(text, sizes):
    assert ladder(text) == sizes


@pytest.mark.parametrize(
    "text", ["", "x", "1,,2", "0", "0-8", "-4", "8-4", "1-8:0", "8-1:-1", "1.5", "vllm,8", "1-2-3"]
)
def test_what_is_no_ladder_is_refused_with_the_flag_and_the_mend(text):
    with pytest.raises(InputError) as error:
        ladder(text)
    assert "--graph-sizes" in str(error.value) and "1,2,4,8-256:8" in str(error.value)


@given(st.sets(st.integers(1, 5000), min_size=1, max_size=20))
def test_a_written_list_is_read_back(sizes):
    assert ladder(",".join(map(str, sizes))) == sorted(sizes)


# Another ladder for a profile ---------------------------------------------------------------------

# b tokens take b ms as a graph; eager steps, measured from 65 tokens on, 100 ms more
MEASURED = {
    "format": "workbench.profile/1",
    "name": "p",
    "verify": {"batch_tokens": [1, 128], "seconds": [0.001, 0.128]},
    "graphs": {
        "batch_tokens": [1, 8, 64],
        "beyond": {"batch_tokens": [65, 128, 256], "seconds": [0.165, 0.228, 0.356]},
        "requests": [1, 4],
    },
}


def seconds(sizes: list[int], document: dict = MEASURED) -> StepCost:
    return StepCost(with_graph_sizes(profile(document), sizes))


def test_sizes_replace_the_measured_ones_and_those_of_the_drafter_stay():
    cost = seconds([2, 16, 64])
    assert [cost.padded(tokens) for tokens in (1, 3, 17, 64, 65)] == [2, 16, 64, 64, 65]
    assert cost.verify_seconds(3) == pytest.approx(0.016)
    assert cost.last_captured == 64
    assert cost.profile.graphs.requests == [1, 4]


def test_the_same_sizes_change_nothing():
    before, after = StepCost(profile(MEASURED)), seconds([1, 8, 64])
    tokens = np.arange(1, 400)
    assert after.verify_seconds(tokens) == pytest.approx(before.verify_seconds(tokens))


def test_without_sizes_nothing_is_padded_and_nothing_is_eager():
    cost = seconds([])
    tokens = np.arange(1, 200)
    assert (cost.padded(tokens) == tokens).all()
    assert cost.verify_seconds(tokens) == pytest.approx(tokens * 0.001)
    assert cost.last_captured is None


@pytest.mark.parametrize("limit", [1, 8, 20, 32, 63])
def test_past_a_lower_limit_the_eager_overhead_is_added(limit):
    cost = seconds([limit])
    assert cost.verify_seconds(limit) == pytest.approx(limit * 0.001)
    for tokens in range(limit + 1, 257):
        assert cost.verify_seconds(tokens) == pytest.approx(tokens * 0.001 + 0.1)


def test_past_a_lower_limit_the_measured_eager_points_stay():
    bent = MEASURED | {
        "graphs": MEASURED["graphs"]
        | {"beyond": {"batch_tokens": [65, 128], "seconds": [0.2, 0.5]}}
    }
    cost, measured = seconds([8], bent), StepCost(profile(bent))
    for tokens in range(65, 300):
        assert cost.verify_seconds(tokens) == measured.verify_seconds(tokens)
    # below, the graph's time plus the gap at 65 tokens: 200 − 65 ms
    assert cost.verify_seconds(32) == pytest.approx(0.032 + 0.135)


def test_up_to_a_higher_limit_the_graph_curve_goes_on():
    cost = seconds([1, 64, 120])
    for tokens in range(65, 121):
        assert cost.verify_seconds(tokens) == pytest.approx(0.120)
    # past it, between measured eager points
    for tokens in (128, 200, 256, 300):
        assert cost.verify_seconds(tokens) == pytest.approx(tokens * 0.001 + 0.1)


def test_a_profile_without_graphs_can_be_given_some():
    bare = {key: value for key, value in MEASURED.items() if key != "graphs"}
    cost = seconds([4, 8], bare)
    assert cost.verify_seconds(5) == pytest.approx(0.008)
    assert cost.verify_seconds(9) == pytest.approx(0.009)  # no eager curve was measured


@given(st.sets(st.integers(1, 60), min_size=1, max_size=8).map(sorted))
def test_steps_never_become_cheaper_with_more_tokens(sizes):
    table = seconds(sizes).verify_seconds(np.arange(1, 300))
    assert (np.diff(table) >= -1e-12).all()


def test_the_profile_given_is_left_alone():
    given_profile = profile(MEASURED)
    with_graph_sizes(given_profile, [2])
    assert given_profile.graphs.batch_tokens == [1, 8, 64]


@pytest.mark.parametrize("limit", [20, 32, 40])
def test_past_a_higher_limit_the_eager_curve_goes_on(tmp_path, limit):
    measured = read_profile(str(write_profile(
        tmp_path / "p.json", [1, 16], [1.0, 2.0],
        graphs={"batch_tokens": [1, 16],
                "beyond": {"batch_tokens": [17, 32], "seconds": [10.0, 25.0]}},
    )))  # fmt: skip
    old, new = StepCost(measured), StepCost(with_graph_sizes(measured, [1, limit]))
    for tokens in range(limit + 1, 90):
        assert new.verify_seconds(tokens) == pytest.approx(old.verify_seconds(tokens))
