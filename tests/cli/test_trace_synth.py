"""``workbench trace synth`` as a user sees it."""

from __future__ import annotations

import json

import pytest

from tests.support import simulate, workbench, write_profile
from workbench.traces import read_trace
from workbench.traces.presets import PRESETS

SMALL = ("--requests", 20, "--output-tokens", 64)


def info(path) -> dict:
    code, out, err = workbench("trace", "info", path, "--json", "-")
    assert code == 0, err
    return json.loads(out)["traces"][0]


@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz", "jsonl.zst"])
def test_a_preset_becomes_a_trace_with_its_accepted_length(tmp_path, suffix):
    path = tmp_path / f"chat.{suffix}"
    code, out, err = workbench("trace", "synth", path, "--preset", "qwen3-4b-eagle3-chat")
    assert (code, err) == (0, "")
    assert "400 synthetic requests" in out and "2.41 expected" in out
    facts = info(path)
    length = facts["accepted_length"]
    assert length["replayed_rounds"] == pytest.approx((2.39 + 2.26 + 2.55) / 3, rel=0.02)
    assert f"{length['replayed_rounds']:.2f} by replayed rounds" in out
    assert (facts["target"], facts["drafter"]) == ("Qwen3-4B", "eagle3")
    assert (facts["temperature"], facts["block_size"], facts["requests"]) == (1.0, 7, 400)
    assert facts["domains"][0]["domain"] == "chat"
    assert "synthetic" in read_trace(path).header.source


def test_every_option_is_in_the_file(tmp_path):
    path = tmp_path / "own.jsonl"
    options = ("--requests", 50, "--output-tokens", "100:40", "--prompt-tokens", "30:10")
    options += ("--domain", "law", "--temperature", 0.3, "--confidence-sees", "token")
    code, _, err = workbench(
        "trace", "synth", path, "--conditional", "0.9,0.8", "--auc", 0.7, *options
    )
    assert code == 0, err
    facts = info(path)
    assert (facts["requests"], facts["block_size"], facts["temperature"]) == (50, 2, 0.3)
    assert facts["confidence_sees"] == "token" and facts["domains"][0]["domain"] == "law"
    assert facts["output_tokens"] / 50 == pytest.approx(100, rel=0.2)
    assert facts["prompt_tokens"] / 50 == pytest.approx(30, rel=0.2)
    assert len(set(read_trace(path).output_tokens.tolist())) > 20
    assert facts["positions"][0]["survival_auc"] == pytest.approx(0.7, abs=0.04)


def test_the_seed_decides_the_bytes(tmp_path):
    files = []
    for number, seed in enumerate((0, 0, 1)):
        path = tmp_path / f"{number}.jsonl.gz"
        assert (
            workbench("trace", "synth", path, "--conditional", "0.9", "--seed", seed, *SMALL)[0]
            == 0
        )
        files.append(path.read_bytes())
    assert files[0] == files[1] != files[2]


def test_a_simulated_run_accepts_what_was_asked_for(tmp_path):
    path = tmp_path / "t.jsonl"
    assert workbench("trace", "synth", path, "--conditional", "0.8,0.5", "--seed", 3)[0] == 0
    profile = write_profile(tmp_path / "p.json")
    run = simulate(
        "--trace", path, "--profile", profile, "--scheduler", "static:2", "--concurrency", 16
    )[0]
    assert run["accepted_length"] == pytest.approx(1 + 0.8 + 0.4, rel=0.02)
    assert run["replay"] == "exact" and run["lossless"]


@pytest.mark.parametrize("arguments", [("--preset", "list"), ("unused.jsonl", "--preset", "list")])
def test_presets_are_listed(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = workbench("trace", "synth", *arguments)
    assert code == 0 and all(name in out for name in PRESETS)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("t.jsonl",), "--preset list"),
        (("t.jsonl", "--preset", "qwen3-4b-dspark-chat", "--conditional", "0.9"), "exclude"),
        (("t.jsonl", "--preset", "dspark"), "qwen3-4b-dspark-chat"),
        (("--conditional", "0.9"), "OUT"),
        (("t.json", "--conditional", "0.9"), ".jsonl.gz"),
        (("none/t.jsonl", "--conditional", "0.9"), "folder does not exist"),
        (("t.jsonl", "--conditional", "0.9,x"), "0.9,x"),
        (("t.jsonl", "--conditional", "0.9,1.5"), "position 2 is 1.5"),
        (("t.jsonl", "--conditional", "0.9", "--auc", "1"), "0.999"),
        (("t.jsonl", "--conditional", "0.9", "--auc", "nan"), "nan"),
        (("t.jsonl", "--conditional", "0.9", "--output-tokens", "0"), "--output-tokens"),
        (("t.jsonl", "--conditional", "0.9", "--output-tokens", "9:x"), "9:x"),
        (("t.jsonl", "--conditional", "0.9", "--prompt-tokens", "9:inf"), "--prompt-tokens"),
        (("t.jsonl", "--conditional", "0.9", "--output-tokens", "nan"), "--output-tokens"),
        (("t.jsonl", "--conditional", "0.9", "--temperature", "nan"), "--temperature"),
        (("t.jsonl", "--conditional", "0.9", "--requests", "0"), "--requests"),
        (
            ("t.jsonl", "--conditional", "0.9", "--requests", "1000000", "--output-tokens", "1e6"),
            "fewer or shorter",
        ),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = workbench("trace", "synth", *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert not list(tmp_path.iterdir())
