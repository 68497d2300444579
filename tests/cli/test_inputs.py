"""What a result says of the files it was made of."""

from __future__ import annotations

import hashlib
import json

import numpy as np

from tests.support import random_requests, workbench, write_profile, write_trace


def config(*args) -> dict:
    code, out, err = workbench("simulate", *args, "--requests", 5, "--json", "-")
    assert code == 0, err
    return json.loads(out)["config"]


def sha256(path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_every_file_that_is_read_has_its_fingerprint(tmp_path):
    rng = np.random.default_rng(0)
    trace = write_trace(tmp_path / "t.jsonl", random_requests(rng, 5, 3), temperature=0.5)
    measured = {"date": "2026-01-02", "fit_error": {"median": 0.01, "max": 0.05, "note": "x"}}
    profile = write_profile(
        tmp_path / "p.json",
        hardware={"gpu": "toy", "gpus": 2},
        engine={"name": "probe", "version": "7"},
        measured=measured,
    )
    rules = tmp_path / "mine.py"
    rules.write_text(
        "from workbench.schedulers import Scheduler\n"
        "class Mine(Scheduler):\n"
        "    def verify_lengths(self, view, survival):\n"
        "        return view.context * 0\n"
    )
    calibration = tmp_path / "c.json"
    calibration.write_text('{"temperatures": [1, 2, 3]}')
    made = config(
        "--trace", trace, "--profile", profile, "--scheduler", f"{rules}:Mine",
        "--calibration", calibration, "--concurrency", 1,
    )  # fmt: skip
    (described,) = made["traces"]
    assert described["sha256"] == sha256(trace)
    assert (described["temperature"], described["requests"]) == (0.5, 5)
    assert made["profile_file"] == {
        "name": str(profile),
        "sha256": sha256(profile),
        "gpu": "toy",
        "gpus": 2,
        "engine": "probe 7",
        "target": None,
        "drafter": None,
        "measured": "2026-01-02",
        "fit_error": {"median": 0.01, "max": 0.05},
    }
    assert made["files"] == [
        {"option": "calibration", "name": str(calibration), "sha256": sha256(calibration)},
        {"option": "scheduler", "name": str(rules), "sha256": sha256(rules)},
    ]


def test_arrivals_are_such_a_file(tmp_path):
    arrivals = tmp_path / "come.csv"
    arrivals.write_text(
        "arrival_s,prompt_tokens,output_tokens\n0,5,5\n1,5,5\n2,5,5\n3,5,5\n4,5,5\n"
    )
    made = config("--arrivals", arrivals, "--profile", write_profile(tmp_path / "p.json"))
    assert made["files"] == [
        {"option": "arrivals", "name": str(arrivals), "sha256": sha256(arrivals)}
    ]
