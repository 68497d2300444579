"""``workbench trace info`` as a user sees it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.traces.samples import header, request, rounds_request, write
from workbench.traces import read_trace, trace_statistics


def workbench(*args: str, cwd=None) -> subprocess.CompletedProcess:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(
        [sys.executable, "-m", "workbench.cli.main", "trace", "info", *args],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment,
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("traces")
    write(folder / "dense.jsonl", header(), request(output_tokens=9, **_rows(8)))
    write(folder / "live.jsonl.gz", header(coverage="rounds"), rounds_request())
    write(folder / "bare.jsonl", header(), request(confidence=None))
    return folder


def _rows(n: int) -> dict:
    return {"accepted": [1] * n, "confidence": [[0.5, 0.25, 0.125]] * n}


def test_one_file_shows_both_accepted_lengths_under_their_own_names(files):
    done = workbench("dense.jsonl", cwd=files)
    assert done.returncode == 0 and done.stderr == ""
    assert "accepted length, replayed rounds   2.00 (3 rounds)" in done.stdout
    assert "mean accepted + 1, all anchors     2.00" in done.stdout
    assert "0.500" in done.stdout


def test_several_files_fit_in_80_columns(files):
    done = workbench("dense.jsonl", "live.jsonl.gz", "bare.jsonl", cwd=files)
    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
    for text in ("replayed", "recorded", "anchors,", "dense", "rounds", "≈"):
        assert text in done.stdout
    for name in ("dense.jsonl", "live.jsonl.gz", "bare.jsonl"):
        assert f"{name}: by draft position" in done.stdout


def test_json_has_the_same_numbers(files, tmp_path):
    done = workbench("dense.jsonl", "live.jsonl.gz", "--json", "-", cwd=files)
    found = json.loads(done.stdout)
    assert found["format"] == "workbench.trace-info/1"
    dense, live = found["traces"]
    assert dense["accepted_length"]["replayed_rounds"] == 2.0
    assert dense["positions"][0]["acceptance"] == 1.0
    assert live["accepted_length"]["replay"] == "approximate"
    assert live["positions"][2]["judged"] == 1

    out = tmp_path / "out.json"
    assert workbench("dense.jsonl", "live.jsonl.gz", "--json", str(out), cwd=files).stdout
    assert json.loads(out.read_text()) == found


def test_a_file_without_confidence_says_so(files):
    done = workbench("bare.jsonl", cwd=files)
    assert "none recorded" in done.stdout and "ECE" not in done.stdout


def test_bad_input_is_one_line_and_exit_code_2(files, tmp_path):
    bad = write(tmp_path / "bad.jsonl", header(), request(accepted=[3, 9, 1]))
    for name, text in ((str(bad), "bad.jsonl: line 2, accepted[1]"), ("none", "shipped traces:")):
        done = workbench(name)
        assert done.returncode == 2 and done.stdout == ""
        assert text in done.stderr and done.stderr.count("\n") == 1
    assert workbench().returncode == 2


def test_shipped_traces_are_found_by_name_from_anywhere(tmp_path):
    done = workbench("chat", cwd=tmp_path)
    stated = trace_statistics(read_trace("chat")).accepted_length.replayed_rounds
    assert done.returncode == 0 and f"{stated:.2f}" in done.stdout
