"""The command as a user meets it: defaults, errors, determinism, the table."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from tests.support import random_requests, simulate, workbench, write_profile, write_trace


@pytest.fixture
def toy(tmp_path):
    trace = write_trace(tmp_path / "toy.jsonl", random_requests(np.random.default_rng(0), 30, 3))
    profile = write_profile(tmp_path / "p.json", [1, 8, 64], [0.01, 0.012, 0.03])
    return trace, profile


def refused(code, out, err):
    assert code == 2, (code, out, err)
    assert out == ""
    assert "Traceback" not in err
    assert err.endswith("\n") and err.count("\n") == 1
    return err


def test_bare_simulate_compares_the_default_six_on_the_shipped_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = workbench(
        "simulate", "--trace", "chat.jsonl", "--requests", "60", "--concurrency", "1,4"
    )
    assert code == 0, err
    for name in ("none", "static:1", "static:3", "static:7", "greedy", "topk"):
        assert out.count(f"  {name} ") == 2
    *_, one, four = out.rstrip().splitlines()
    assert one.startswith("concurrency 1: ") and four.startswith("concurrency 4: ")
    assert "not a forecast" in out  # acceptance of a small model, costs of a large one


def test_default_loads(toy):
    trace, profile = toy
    runs = simulate("--trace", trace, "--profile", profile, "--scheduler", "none", "--requests", 20)
    assert [run["concurrency"] for run in runs] == [1, 16, 64, 256]


def test_requests_default_to_the_trace_or_eight_per_user(toy):
    trace, profile = toy
    runs = simulate(
        "--trace", trace, "--profile", profile, "--scheduler", "none", "--concurrency", "2,8"
    )
    assert [run["requests_completed"] for run in runs] == [30, 64]


def test_the_trace_is_found_here_first_and_without_its_suffix(toy, monkeypatch):
    trace, profile = toy
    monkeypatch.chdir(trace.parent)
    (trace.parent / "chat.jsonl").write_bytes(trace.read_bytes())
    (run,) = simulate(
        "--trace", "chat", "--profile", profile, "--scheduler", "none", "--concurrency", 1
    )
    assert run["requests_completed"] == 30
    (trace.parent / "zipped.jsonl.gz").write_bytes(gzip.compress(trace.read_bytes()))
    (again,) = simulate(
        "--trace", "zipped.jsonl", "--profile", profile, "--scheduler", "none", "--concurrency", 1
    )
    assert again["simulated_s"] == run["simulated_s"]


def test_the_best_of_each_column_is_marked(toy):
    trace, profile = toy
    code, out, _ = workbench(
        "simulate", "--trace", trace, "--profile", profile, "--concurrency", "4"
    )
    assert code == 0
    section = out.splitlines()[3:]  # below the heads and the name of the load
    rows = [line.split() for line in section if line.startswith("   ")]
    names = [row[0] for row in rows]
    assert names == ["none", "static:1", "static:3", "greedy", "topk"]
    for column in range(1, len(rows[0])):
        assert any(row[column].endswith("*") for row in rows)
    best = max(rows, key=lambda row: float(row[1].strip("*").replace(",", "")))
    assert best[1].endswith("*")
    assert out.splitlines()[-1].startswith(f"concurrency 4: {best[0]} wins")


def test_traces_are_mixed_by_weight(tmp_path):
    profile = write_profile(tmp_path / "p.json")
    long = write_trace(tmp_path / "long.jsonl", [{"accepted": [0] * 99}] * 3)
    short = write_trace(tmp_path / "short.jsonl", [{"accepted": [0] * 9}] * 3)
    (run,) = simulate(
        "--trace",
        f"{long}:0.3",
        "--trace",
        short,
        "--profile",
        profile,
        "--scheduler",
        "none",
        "--concurrency",
        1,
        "--requests",
        4000,
    )
    share = (run["output_tokens"] / 4000 - 10) / 90
    assert share == pytest.approx(0.3, abs=4 * np.sqrt(0.3 * 0.7 / 4000))


def test_same_seed_same_json_across_processes(toy):
    trace, profile = toy

    def once(seed, hash_seed):
        command = [
            sys.executable,
            "-m",
            "workbench.cli.main",
            "simulate",
            "--trace",
            str(trace),
            "--profile",
            str(profile),
            "--rate",
            "20",
            "--seed",
            str(seed),
            "--json",
            "-",
        ]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        )
        result = json.loads(done.stdout)
        for run in result["runs"]:
            del run["wall_s"]
        return json.dumps(result)

    assert once(0, "1") == once(0, "2")
    assert once(0, "1") != once(1, "1")


def edited(path, line, **changes):
    lines = path.read_text().splitlines()
    entry = json.loads(lines[line - 1])
    for key, value in changes.items():
        entry[key] = value
    lines[line - 1] = json.dumps(entry)
    path.write_text("\n".join(lines) + "\n")


BLOCK = [[0.5, 0.5, 0.5]]


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"confidence": [[0.5, 0.5]] * 3}, "confidence[0]"),
        ({"confidence": BLOCK * 2 + [[0.5, 1.5, 0.5]]}, "confidence[2][1]"),
        ({"confidence": BLOCK * 2 + [[0.5, -0.1, 0.5]]}, "confidence[2][1]"),
        ({"confidence": BLOCK * 2 + [[0.5, float("nan"), 0.5]]}, "confidence"),
        ({"accepted": [0, 4, 0]}, "accepted[1]"),
        ({"accepted": [0, -1, 0]}, "accepted[1]"),
        ({"accepted": [0, 0]}, "accepted"),
        ({"output_tokens": 9}, "output_tokens"),
        ({"output_tokens": "4"}, "output_tokens"),
        ({"prompt_tokens": None}, "prompt_tokens"),
    ],
)
def test_a_bad_trace_line_is_named(tmp_path, change, place):
    trace = write_trace(tmp_path / "bad.jsonl", [{"accepted": [0, 1, 3]}] * 3)
    edited(trace, 3, **change)
    profile = write_profile(tmp_path / "p.json")
    err = refused(*workbench("simulate", "--trace", trace, "--profile", profile))
    assert "bad.jsonl" in err and "line 3" in err and place in err


def test_truncated_gzip(tmp_path):
    trace = write_trace(tmp_path / "t.jsonl", random_requests(np.random.default_rng(1), 60, 3))
    whole = gzip.compress(trace.read_bytes())
    (tmp_path / "cut.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    err = refused(*workbench("simulate", "--trace", tmp_path / "cut.jsonl.gz"))
    assert "cut.jsonl.gz" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--trace", "nowhere.jsonl"], ["nowhere.jsonl", "chat.jsonl.gz"]),
        (
            ["--trace", "chat.jsonl", "--profile", "nowhere"],
            ["nowhere", "h200-qwen3-8b-bf16-dspark7.json"],
        ),
        (["--trace", "chat.jsonl", "--scheduler", "best"], ["best", "greedy", "topk", "static:k"]),
        (["--trace", "chat.jsonl", "--scheduler", "static:9"], ["static:9", "7"]),
        (["--trace", "chat.jsonl", "--scheduler", "static"], ["static"]),
        (["--trace", "chat.jsonl", "--concurrency", "0"], ["0", "--concurrency"]),
        (["--trace", "chat.jsonl", "--concurrency", "4,x"], ["x", "--concurrency"]),
        (["--trace", "chat.jsonl", "--rate", "nan"], ["nan", "--rate"]),
        (
            ["--trace", "chat.jsonl", "--rate", "1", "--concurrency", "4"],
            ["--rate", "--concurrency"],
        ),
        (["--trace", "chat.jsonl:-1"], ["chat.jsonl:-1", "weight"]),
        (["--trace", "chat.jsonl:1", "--trace", "code.jsonl"], ["--trace", "weight"]),
        (["--trace", "chat.jsonl", "--stagger", "--rate", "1"], ["--stagger"]),
        (["--trace", "chat.jsonl", "--planner-table", "nowhere.json"], ["nowhere.json"]),
        (["--trace", "chat.jsonl", "--planner-lookup", "floor"], ["--planner-lookup"]),
        (
            [
                "--trace",
                "chat.jsonl",
                "--json",
                "no/such/folder/r.json",
                "--requests",
                "1",
                "--concurrency",
                "1",
            ],
            ["no/such/folder"],
        ),
        (["--trace", "chat.jsonl", "--frobnicate"], ["--frobnicate"]),
        ([], ["--trace"]),
    ],
)
def test_bad_arguments_are_one_line(arguments, words):
    err = refused(*workbench("simulate", *arguments))
    for word in words:
        assert word in err


def test_unknown_command():
    assert "simulate" in refused(*workbench("simulat"))


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (
            {"verify": {"batch_tokens": [1, 8, 4], "seconds": [0.1, 0.2, 0.3]}},
            "verify.batch_tokens[2]",
        ),
        ({"verify": {"batch_tokens": [1, 8], "seconds": [0.1]}}, "verify.seconds"),
        ({"verify": {"batch_tokens": [1, 8], "seconds": [0.1, 0.0]}}, "verify.seconds[1]"),
        ({"format": "workbench.profile/9"}, "format"),
        ({"verify": None}, "verify"),
    ],
)
def test_a_bad_profile_field_is_named(tmp_path, toy, change, place):
    trace, profile = toy
    profile.write_text(json.dumps({**json.loads(profile.read_text()), **change}))
    err = refused(*workbench("simulate", "--trace", trace, "--profile", profile))
    assert "p.json" in err and place in err


def test_schedulers_that_need_confidences_refuse_a_trace_without(tmp_path):
    trace = write_trace(tmp_path / "log.jsonl", [{"accepted": [1, 2, 0], "confidence": None}] * 3)
    profile = write_profile(tmp_path / "p.json")
    err = refused(
        *workbench("simulate", "--trace", trace, "--profile", profile, "--scheduler", "greedy")
    )
    assert "log.jsonl" in err and "greedy" in err and "confidence" in err
    runs = simulate("--trace", trace, "--profile", profile, "--concurrency", 1)
    assert [run["scheduler"] for run in runs] == ["none", "static:1", "static:3"]


def test_a_failed_run_leaves_the_old_result(tmp_path, toy):
    trace, profile = toy
    out = tmp_path / "r.json"
    out.write_text("old")
    broken = tmp_path / "broken.py"
    broken.write_text(
        "from workbench.schedulers import Scheduler\n"
        "class Greedy(Scheduler):\n"
        "    def verify_lengths(self, view, survival):\n"
        "        return survival.argmax(axis=1) + 99\n"
    )
    err = refused(
        *workbench(
            "simulate",
            "--trace",
            trace,
            "--profile",
            profile,
            "--json",
            out,
            "--scheduler",
            f"{broken}:Greedy",
        )
    )
    assert "Greedy" in err
    assert out.read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith(".")) == []


def test_lossless_verdicts_are_in_the_result(tmp_path, toy):
    _, profile = toy
    requests = random_requests(np.random.default_rng(2), 5, 3)
    names = ["none", "static:1", "threshold:0.4", "greedy", "topk", "global", "oracle"]
    flags = [a for name in names for a in ("--scheduler", name)]
    expected = {
        ("prefix", 1.0): [True, True, True, True, True, False, False],
        ("token", 1.0): [True, True, False, False, False, False, False],
        ("token", 0.0): [True] * 7,
    }
    for (sees, temperature), verdicts in expected.items():
        trace = write_trace(
            tmp_path / "t.jsonl", requests, temperature=temperature, confidence_sees=sees
        )
        runs = simulate("--trace", trace, "--profile", profile, "--concurrency", 2, *flags)
        assert [run["lossless"] for run in runs] == verdicts
        exact = [*verdicts[:4], False, False, False]
        assert [run["replay"] == "exact" for run in runs] == exact
