"""What tune refuses before it begins, and what it says of inputs that have no plain answer."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.support import random_requests, workbench, write_profile, write_trace


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    write_profile(tmp_path / "p.json", [1, 8, 64], [0.01, 0.012, 0.03])
    write_trace(tmp_path / "toy.jsonl", random_requests(np.random.default_rng(0), 30, 3))
    return tmp_path


def tuned(trace: str, *more) -> tuple[int, str, str]:
    return workbench(
        "tune", "--trace", trace, "--profile", "p.json", "--no-cache", "--jobs", 1,
        "--concurrency", 4, "--requests", 20, "--storage", "tune.db", "--trials", 6, *more,
    )  # fmt: skip


def refused(trace: str, *more) -> str:
    code, out, err = tuned(trace, *more)
    assert (code, out) == (2, ""), (code, out, err)
    assert err.count("\n") == 1 and "Traceback" not in err
    return err


@pytest.mark.parametrize("storage", ["tune.db", "./tune.db", "sqlite:///tune.db?timeout=5"])
def test_a_result_does_not_replace_the_study(folder, storage):
    assert "is written by --storage too" in refused(
        "toy.jsonl", "--storage", storage, "--json", "tune.db"
    )
    assert "is read too" in refused("toy.jsonl", "--storage", "p.json")
    assert not (folder / "tune.db").exists()


def test_settings_and_a_result_of_one_name_are_refused_before_anything_runs(folder):
    for name in ("deploy", "deploy/deeper"):
        err = refused("toy.jsonl", "--json", "deploy", "--export", name)
        assert "--export: is written by --json too" in err
    assert not (folder / "deploy").exists() and not (folder / "tune.db").exists()


@pytest.mark.parametrize(
    ("option", "value"), [("--export", ""), ("--study", ""), ("--study", "x" * 513)]
)
def test_a_name_is_not_empty_nor_longer_than_a_study_may_have(folder, option, value):
    assert f"{option}: " in refused("toy.jsonl", option, value)


def test_missing_confidences_are_said_before_a_study_is_made(folder):
    write_trace(folder / "bare.jsonl", [{"accepted": [1, 2, 0], "confidence": None}] * 9)
    assert "topk needs confidences" in refused("bare.jsonl", "--scheduler", "topk")
    assert not (folder / "tune.db").exists()


def test_outputs_of_one_token_have_no_speed(folder):
    write_trace(folder / "one.jsonl", [{"accepted": []}] * 9)
    code, out, err = tuned("one.jsonl")
    assert code == 0 and "6 failed" in err
    assert out.endswith(
        "no trial has a figure for throughput, speed: are all outputs one token long?\n"
    )


def test_what_biases_the_output_is_chosen_only_when_asked_for_and_then_said(folder):
    requests = random_requests(np.random.default_rng(0), 30, 3)
    write_trace(folder / "seen.jsonl", requests, confidence_sees="token")
    for traces in (["seen.jsonl"], ["toy.jsonl", "--trace", "seen.jsonl"]):
        code, out, err = tuned(*traces, "--json", "-")
        assert code == 0, err
        found = {one["scheduler"].partition(":")[0] for one in json.loads(out)["finished"]}
        assert found == {"none", "static"}
    code, out, err = tuned("seen.jsonl", "--scheduler", "greedy", "--max-running", 8)
    assert code == 0 and "with greedy (biased)" in out.splitlines()[-2]
    # at temperature 0 nothing biases it
    write_trace(folder / "cold.jsonl", requests, confidence_sees="token", temperature=0.0)
    code, out, err = tuned("cold.jsonl", "--json", "-")
    assert "greedy" in {one["scheduler"] for one in json.loads(out)["finished"]}
