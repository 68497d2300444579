"""The measured profile that ships: what a run on the card has to keep."""

import itertools
import json
import statistics
from pathlib import Path

import pytest

from gpu_probe import held_out, price
from gpu_probe.compare import VLLM
from gpu_probe.grid import FULL
from gpu_probe.ladders import VLLM_DRAFTS
from workbench.profiles.reader import read_profile

PATH = Path(__file__).parents[2] / "profiles" / "h200-qwen3-8b-bf16-dspark7.json"


@pytest.fixture(scope="module")
def profile():
    return json.loads(PATH.read_text())


def test_it_was_measured_on_the_card_by_the_full_grid(profile):
    assert profile["hardware"]["gpu"] == "NVIDIA H200"
    assert tuple(profile["verify"]["batch_tokens"]) == FULL.verify
    assert tuple(profile["graphs"]["batch_tokens"]) == VLLM_DRAFTS
    measured = profile["measured"]
    assert measured["repeats"] >= 15
    assert measured["copy_buffer_bytes"] >= 4e9
    assert max(measured["spread"]) < 0.15
    assert max(measured["kernel_errors"].values()) < 1e-2


def test_the_one_request_step_lies_above_the_memory_floor(profile):
    measured = profile["measured"]
    floor = measured["streamed_weight_bytes"] / measured["copy_bandwidth"]
    step = measured["verify_whole"]["seconds"][0][0]
    assert step / floor == pytest.approx(measured["ratio_to_floor"], rel=1e-3)
    assert 1.0 < measured["ratio_to_floor"] < 1.6


@pytest.mark.parametrize("size", ["8b", "4b", "30b-a3b"])
def test_decode_steps_lie_near_vllm(size):
    path = next(PATH.parent.glob(f"h200-qwen3-{size}-bf16-*.json"))
    rows = json.loads(path.read_text())["measured"]["vllm_ratio"]
    plain = {row["requests"]: row["ratio"] for row in rows if row["arm"] == "no drafts"}
    assert set(plain) == {1, 8, 64, 256}
    assert all(0.9 <= row["ratio"] <= 1.1 for row in rows)


@pytest.mark.parametrize("size", ["8b", "4b", "30b-a3b"])
def test_what_is_charged_lies_near_vllm_too(size):
    path = next(PATH.parent.glob(f"h200-qwen3-{size}-bf16-*.json"))
    profile = json.loads(path.read_text())
    vllm = VLLM[profile["target"]["name"], "NVIDIA H200"]
    for requests, milliseconds in vllm["none"].items():
        step = price.Step(requests, requests, vllm["context"])
        assert 0.9 <= 1e3 * price.target(profile, step) / milliseconds <= 1.1


def test_the_tables_add_up_to_whole_steps(profile):
    # whole steps were timed over requests of one context
    uniform = {**profile["attention"], "seconds": profile["measured"]["attention"]["uniform"]}
    off = []
    for cell in profile["measured"]["whole_steps"]:
        requests = cell["requests"]
        step = price.Step(requests, requests * cell["query_tokens"], cell["context_tokens"])
        seconds = price.target({**profile, "attention": uniform}, step)
        off.append(abs(seconds / cell["seconds"] - 1))
    assert len(off) == 13 and statistics.median(off) < 0.015 and max(off) < 0.06


@pytest.mark.parametrize("path", sorted(PATH.parent.glob("h200-*.json")), ids=lambda p: p.stem)
def test_attention_reads_the_cache_once_at_any_number_of_query_tokens(path):
    profile = json.loads(path.read_text())
    measured = profile["measured"]
    axes = profile["attention"]
    for table in axes["seconds"]:
        for requests, row in zip(axes["requests"], table, strict=True):
            for context, seconds in zip(axes["context_tokens"], row, strict=True):
                moved = requests * context * measured["target_kv_bytes"]
                if requests >= 64 and context >= 2048:
                    assert seconds < 1.3 * moved / measured["copy_bandwidth"]


@pytest.mark.parametrize("path", sorted(PATH.parent.glob("h200-*.json")), ids=lambda p: p.stem)
def test_every_measured_profile_is_whole_and_read(path):
    document = json.loads(path.read_text())
    measured = document["measured"]
    assert document["name"] == path.stem
    assert measured["complete"]
    parts = ("attention", "graphs", "prefill", "power", "draft", "host", "kv_cache")
    assert set(parts) <= document.keys()
    assert read_profile(path).draft is not None
    fit = measured["fit_error"]
    assert fit["cells"] == len(measured["held_out"])
    ratios = sorted(abs(row["ratio"] - 1) for row in measured["held_out"])
    assert fit["max"] == pytest.approx(ratios[-1], abs=1e-4)


@pytest.mark.parametrize("path", sorted(PATH.parent.glob("h200-*.json")), ids=lambda p: p.stem)
def test_the_tables_foretell_rounds_that_they_were_not_made_from(path):
    document = json.loads(path.read_text())
    rounds = document["measured"]["held_out"]
    again = held_out.fit_error(document, rounds)
    assert again == document["measured"]["fit_error"]
    assert again["cells"] == 64 and again["median"] < 0.03 and again["p95"] < 0.08


def test_attention_grows_with_requests_and_context(profile):
    for table in profile["attention"]["seconds"]:
        for row in table:
            assert all(0.98 * a < b for a, b in itertools.pairwise(row))
            assert all(a < b for a, b in itertools.pairwise(row[2:]))
        for shorter, longer in itertools.pairwise(table):
            assert all(a < b for a, b in zip(shorter[1:], longer[1:], strict=True))
