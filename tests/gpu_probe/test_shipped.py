"""The measured profile that ships: what a run on the card has to keep."""

import itertools
import json
from pathlib import Path

import pytest

from gpu_probe.compare import predicted
from gpu_probe.grid import CAPTURE_SIZES, FULL

PATH = Path(__file__).parents[2] / "profiles" / "h200-qwen3-8b-bf16-dspark7.json"


@pytest.fixture(scope="module")
def profile():
    return json.loads(PATH.read_text())


def test_it_was_measured_on_the_card_by_the_full_grid(profile):
    assert profile["hardware"]["gpu"] == "NVIDIA H200"
    assert tuple(profile["verify"]["batch_tokens"]) == FULL.verify
    assert tuple(profile["graphs"]["batch_tokens"]) == CAPTURE_SIZES
    measured = profile["measured"]
    assert measured["complete"] and measured["repeats"] >= 20
    assert measured["copy_buffer_bytes"] >= 4e9
    assert max(measured["spread"]) < 0.15
    assert max(measured["kernel_errors"].values()) < 1e-2


def test_the_one_request_step_lies_above_the_memory_floor(profile):
    measured = profile["measured"]
    floor = measured["streamed_weight_bytes"] / measured["copy_bandwidth"]
    assert profile["verify"]["seconds"][0] / floor == pytest.approx(
        measured["ratio_to_floor"], rel=1e-3
    )
    assert 1.0 < measured["ratio_to_floor"] < 1.6


def test_it_lies_within_a_fifth_of_vllm(profile):
    rows = profile["measured"]["vllm_ratio"]
    plain = {row["requests"]: row["ratio"] for row in rows if row["arm"] == "no drafts"}
    assert set(plain) == {1, 8, 64, 256}
    assert all(0.8 <= row["ratio"] <= 1.2 for row in rows)


def test_the_tables_add_up_to_whole_steps(profile):
    for cell in profile["measured"]["whole_steps"]:
        seconds = predicted(profile, cell["requests"], cell["query_tokens"], cell["context_tokens"])
        assert seconds == pytest.approx(cell["seconds"], rel=0.06)


def test_attention_grows_with_requests_and_context(profile):
    table = profile["attention"]["seconds"]
    for row in table:
        assert all(a < b for a, b in itertools.pairwise(row))
    for shorter, longer in itertools.pairwise(table):
        assert all(a < b for a, b in zip(shorter[1:], longer[1:], strict=True))
