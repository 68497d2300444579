"""The shipped vLLM profiles against the numbers that were published.

vLLM blog of 2026-08-14, figure 2: startup profile of DeepSeek-V4-Flash-0731, TP=4, B300, capture
limit 1024, in milliseconds. The medians and the table's treads are two readings of one figure.
"""

from __future__ import annotations

import numpy as np
import pytest

from workbench.files import shipped
from workbench.profiles import StepCost, profile_belief, read_profile

NAME = "b300-tp4-v4flash-vllm"
RAISED = "b300-tp4-v4flash-vllm-graphs4096-extrapolated"

# vLLM captures 1, 2, 4, then every 8 tokens to 256, then every 16
CAPTURED = [1, 2, 4, *range(8, 257, 8), *range(272, 1025, 16)]
EAGER = [1536, 2048, 4096, 8192, 16384]
MEDIANS = """
5.109 5.162 5.119 5.345 5.592 6.084 6.262 6.827 6.94 7.128 7.9 8.214 8.506 8.701 8.773 9.048 9.198
9.466 9.427 9.904 9.904 11.32 11.297 11.39 10.405 10.534 10.513 10.775 10.731 11.022 10.977 11.274
11.205 11.508 11.297 12.52 12.624 13.904 14.106 14.578 13.538 13.933 13.819 14.281 14.31 14.668
15.665 15.991 15.991 16.222 15.034 15.601 15.569 15.86 15.925 16.662 17.078 17.254 17.361 17.685
17.758 15.991 16.057 16.256 16.39 17.148 17.219 17.905 17.905 18.09 18.165 18.58 18.58 18.695
19.162 19.48 19.56 19.681 19.641 20.09 20.173 20.256 20.634 104.489 103.633 133.452 135.665 234.892
"""
DRAFT_MEDIANS = """
0.883 0.917 0.997 1.071 1.317 1.549 1.606 1.877 1.994 2.103 2.274 2.317 2.417 2.623 2.72 2.751 2.871
3.049 3.143 3.306 3.36 3.743 3.789 3.931 4.043 4.194 4.311 4.443 4.52 4.7 4.829 4.909 5.063 5.177
5.38
"""
TREADS = {
    **{1: 5.11, 4: 5.16, 8: 5.35, 16: 5.59, 24: 6.08, 32: 6.26, 40: 6.83, 48: 6.94, 56: 7.13},
    **{64: 7.90, 72: 8.21, 80: 8.51, 88: 8.70, 96: 8.77, 104: 9.05, 112: 9.20, 128: 9.47},
    **{144: 9.90, 160: 11.32, 240: 11.39, 256: 11.51, 272: 12.52, 288: 12.62, 304: 13.90},
    **{320: 14.11, 416: 14.58, 432: 14.67, 448: 15.67, 480: 15.99, 576: 16.22, 592: 16.66},
    **{608: 17.08, 640: 17.36, 656: 17.69, 768: 17.76, 784: 17.90, 816: 18.09, 848: 18.58},
    **{880: 18.69, 896: 19.16, 928: 19.56, 960: 19.68, 976: 20.09, 1024: 20.63},
    **{1536: 104.49, 2048: 104.49, 4096: 133.45, 8192: 135.66, 16384: 234.89},
}
DRAFT_TREADS = {
    **{1: 0.88, 2: 0.92, 4: 1.00, 8: 1.07, 16: 1.32, 24: 1.55, 32: 1.61, 40: 1.88, 48: 1.99},
    **{64: 2.27, 96: 2.72, 128: 3.14, 160: 3.79, 192: 4.31, 224: 4.83, 256: 5.38},
}


def monotone(numbers: str) -> np.ndarray:
    """Seconds as vLLM's table has them: the running maximum of the medians."""
    return np.maximum.accumulate(np.array(numbers.split(), float)) / 1e3


def test_the_profile_is_the_running_maximum_of_the_published_medians():
    profile, seconds = read_profile(NAME), monotone(MEDIANS)
    graphs, beyond = profile.graphs, profile.graphs.beyond
    assert profile.verify.batch_tokens == graphs.batch_tokens == CAPTURED
    assert profile.verify.seconds == pytest.approx(seconds[: len(CAPTURED)].tolist(), abs=1e-9)
    assert beyond.batch_tokens == EAGER
    assert beyond.seconds == pytest.approx(seconds[len(CAPTURED) :].tolist(), abs=1e-9)
    assert profile.draft.requests == graphs.requests == [1, 2, 4, *range(8, 257, 8)]
    assert profile.draft.tokens == [7]
    drafts = [row[0] for row in profile.draft.seconds]
    assert drafts == pytest.approx(monotone(DRAFT_MEDIANS).tolist(), abs=1e-9)


def test_charged_seconds_are_the_published_treads():
    cost = StepCost(read_profile(NAME))
    for tokens, ms in TREADS.items():
        assert cost.verify_seconds(tokens) * 1e3 == pytest.approx(ms, abs=0.006), tokens
    for requests, ms in DRAFT_TREADS.items():
        assert cost.draft_seconds(requests, 7) * 1e3 == pytest.approx(ms, abs=0.02), requests
    # a batch of 121 runs the graph of 128, the post says; the first eager token costs five graphs
    assert cost.verify_seconds(121) == cost.verify_seconds(128)
    assert cost.verify_seconds(1025) / cost.verify_seconds(1024) == pytest.approx(5.06, abs=0.01)


@pytest.mark.parametrize("name", [NAME, RAISED])
def test_what_the_profiles_say_of_themselves(name):
    profile = read_profile(name)
    assert profile.name == name and (shipped("profiles") / f"{name}.json").is_file()
    assert (profile.hardware.gpus, profile.engine.name) == (4, "vLLM")
    assert profile.target.name == "DeepSeek-V4-Flash-0731"
    assert profile.drafter.block_size == 7
    assert profile.verify.reference_context == 8192
    assert "figure 2" in profile.document["source"] and "licence" in profile.document
    assert "maximum" in profile.document["measured"]["statistic"]
    seconds = profile.verify.seconds
    assert seconds == sorted(seconds)
    assert profile_belief(profile, "ceil").warnings == []


def test_the_raised_capture_limit_is_an_extrapolation_and_says_so():
    published, raised = read_profile(NAME), read_profile(RAISED)
    assert "EXTRAPOLATION" in raised.document["notes"][0]
    assert raised.graphs.batch_tokens == [*CAPTURED, *range(1040, 4097, 16)]
    assert raised.verify.batch_tokens == [*CAPTURED, 4096]
    assert raised.verify.seconds[:-1] == published.verify.seconds
    assert raised.draft.seconds == published.draft.seconds
    # straight on from the treads that end at 976 and at 1024 tokens
    slope = (20.634 - 20.090) / (1024 - 976)
    assert slope * 1e3 == pytest.approx(11.3, abs=0.05)
    assert raised.verify.seconds[-1] * 1e3 == pytest.approx(20.634 + slope * 3072, abs=1e-3)
    cost = StepCost(raised)
    assert cost.verify_seconds(2048) * 1e3 == pytest.approx(20.634 + slope * 1024, abs=1e-3)
    assert cost.verify_seconds(1025) == cost.verify_seconds(1040)
    assert cost.verify_seconds(4096) < StepCost(published).verify_seconds(4096)  # dearer eagerly
    assert cost.verify_seconds(8192) == StepCost(published).verify_seconds(8192)
    # the published slopes near by: medians of 512..1024 tokens, and the eager tail
    tokens, medians = np.array(CAPTURED), np.array(MEDIANS.split(), float)[: len(CAPTURED)]
    high = tokens >= 512
    assert np.polyfit(tokens[high], medians[high], 1)[0] == pytest.approx(slope, rel=0.2)
    eager = (234.892 - 135.665) / 8192
    assert eager == pytest.approx(slope, rel=0.1)
