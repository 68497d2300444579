"""``workbench calibrate`` as a user sees it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from tests.support import random_requests, workbench, write_trace
from workbench.calibration import Calibration, read_calibration
from workbench.traces import write_trace as write_trace_file
from workbench.traces.synthetic import Lengths, synthetic_trace


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """Confidences that claim too much: calibrated ones at temperature 0.5."""
    rng = np.random.default_rng(0)
    honest = synthetic_trace((0.9, 0.8, 0.7), rng, requests=300, output_tokens=Lengths(100))
    proud = replace(honest, confidence=Calibration((0.5,) * 3).apply(honest.confidence))
    path = tmp_path_factory.mktemp("traces") / "proud.jsonl"
    write_trace_file(path, replace(proud, header=structs.replace(proud.header, confidence="raw")))
    return path


def test_every_output_holds_the_same_temperatures(trace, tmp_path):
    paths = [tmp_path / name for name in ("cal.json", "sts.json", "report.json")]
    out, sts, report = paths
    plot = tmp_path / "plot.png"
    code, said, err = workbench(
        "calibrate", "--trace", trace, "--out", out, "--sglang", sts, "--json", report,
        "--plot", plot,
    )  # fmt: skip
    assert (code, err) == (0, "")
    assert max(map(len, said.splitlines())) <= 80 or str(trace) in said
    document, table, full = (json.loads(path.read_text()) for path in paths)
    assert document["format"] == "workbench.calibration/1"
    assert document["requests"] == {"fit": 150, "held_out": 150}
    assert document["at_edge"] == [False] * 3
    assert full["calibration"] == document
    assert set(table) == {"temperatures", "dataset", "num_samples", "ece_before", "ece_after"}
    assert table["num_samples"] == sum(len(_rows(trace)[i]) for i in range(300)) // 2
    for path in (out, sts):
        assert read_calibration(path).temperatures == tuple(document["temperatures"])
    assert document["temperatures"] == pytest.approx([2, 2, 2], rel=0.15)
    assert full["mean_ece_before"] > 0.05 > 0.015 > full["mean_ece_after"]
    assert full["mean_ece_after"] == pytest.approx(np.mean(document["ece_after"]))
    for p in full["positions"]:
        assert p["after"]["auc"] == pytest.approx(p["before"]["auc"], abs=1e-4)
        assert p["after"]["brier"] < p["before"]["brier"]
    assert plot.read_bytes().startswith(b"\x89PNG")
    last = said.strip().splitlines()[-1]
    assert last.startswith("mean ECE of survival: ") and f"{full['mean_ece_after']:.2%}" in last


def _rows(path):
    return [json.loads(line)["accepted"] for line in path.read_text().splitlines()[1:]]


def test_same_seed_same_bytes_and_another_seed_another_split(trace, tmp_path):
    def run(seed):
        out, plot = tmp_path / "o.json", tmp_path / "p.png"
        args = ("--seed", seed, "--out", out, "--plot", plot)
        code, said, _ = workbench("calibrate", "--trace", trace, *args)
        assert code == 0
        return said, out.read_bytes(), plot.read_bytes()

    first = run(0)
    assert run(0) == first
    assert run(1)[1] != first[1]


def test_json_to_stdout_is_json_alone(trace):
    code, said, err = workbench("calibrate", "--trace", trace, "--json", "-", "--split", "0.25")
    assert (code, err) == (0, "")
    assert json.loads(said)["calibration"]["requests"] == {"fit": 75, "held_out": 225}


def test_notes_say_what_was_mixed_and_what_ended_at_the_edge(trace, tmp_path, monkeypatch):
    # confidences of 0.99 where half of the tokens pass
    requests = [{"accepted": [0, 2] * 20, "confidence": [[0.99, 0.6]] * 40} for _ in range(4)]
    one = write_trace(tmp_path / "one.jsonl", requests, block_size=2, confidence="raw")
    labels = {"block_size": 2, "drafter": "other", "confidence": "softened"}
    two = write_trace(tmp_path / "two.jsonl", requests, **labels)
    monkeypatch.chdir(tmp_path)  # short names: a long path is broken over lines
    code, said, _ = workbench("calibrate", "--trace", one.name, "--trace", two.name)
    said = " ".join(said.split())
    assert code == 0
    assert "differ in drafter (toy, other)" in said
    assert "two.jsonl: its confidences are not raw but 'softened'" in said
    assert "position 1" in said and "edge of the grid" in said
    assert "10.000!" in said


def test_a_note_names_positions_whose_confidences_got_worse(trace, tmp_path):
    """A prefix that claims too much: T_2 mends its product by spoiling c_2."""
    rng = np.random.default_rng(1)
    requests = []
    for _ in range(40):
        second = rng.choice([0.2, 0.9], 60)
        first = rng.random(60) < 0.5
        passed = rng.random(60) < second
        rows = [[0.999, round(float(c), 3)] for c in second]
        requests.append({"accepted": [int(a) + int(a and b) for a, b in zip(first, passed,
                         strict=True)], "confidence": rows})  # fmt: skip
    path = write_trace(tmp_path / "t.jsonl", requests, block_size=2, confidence="raw")
    code, said, _ = workbench("calibrate", "--trace", path, "--json", "-")
    full = json.loads(said)
    second = full["positions"][1]
    assert code == 0 and second["after"]["brier"] > second["before"]["brier"] + 0.002
    assert any(
        note.startswith("position 2: the Brier score of c_k got worse") for note in full["notes"]
    )
    _, said, _ = workbench("calibrate", "--trace", trace, "--json", "-")
    assert not any("Brier" in note for note in json.loads(said)["notes"])


def test_positions_without_rows_are_dashes_and_null(tmp_path):
    requests = random_requests(np.random.default_rng(0), 10, 3, longest=2)
    path = write_trace(tmp_path / "short.jsonl", requests)
    out, sts = tmp_path / "o.json", tmp_path / "s.json"
    code, said, _ = workbench("calibrate", "--trace", path, "--out", out, "--sglang", sts)
    assert code == 0 and "no block tells of position 2 and later" in said and "–" in said
    assert json.loads(out.read_text())["ece_after"][1:] == [None, None]
    assert "ece_after" not in json.loads(sts.read_text())
    assert read_calibration(out).temperatures[1:] == (1.0, 1.0)


def test_the_documents_example_is_what_comes_out(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "calibration.md").read_text(encoding="utf-8")
    shown = json.loads(page.split("```json\n")[1].split("```")[0])
    out = tmp_path / "c.json"
    assert workbench("calibrate", "--trace", "chat", "--trace", "code", "--out", out)[0] == 0
    found = json.loads(out.read_text())
    assert found.keys() == shown.keys()
    for name, value in found.items():
        numbers = name in ("temperatures", "ece_before", "ece_after")
        assert shown[name] == (pytest.approx(value, abs=6e-4) if numbers else value), name


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--trace", "none"], "none: no such file here"),
        ([], "Missing option '--trace'"),
        (["--trace", "{t}", "--split", "0"], "--split"),
        (["--trace", "{t}", "--split", "nan"], "--split"),
        (["--trace", "{t}", "--out", "{t}"], "--out: is read too"),
        (["--trace", "{t}", "--out", "{d}/a.json", "--sglang", "{d}/a.json"], "is written by"),
        (["--trace", "{t}", "--plot", "{d}/a.txt"], "--plot: is none of .png"),
        (["--trace", "{t}", "--out", "{d}/no/a.json"], "folder does not exist"),
        (["--trace", "{t}", "--trace", "chat"], "block_size: is 7"),
    ],
    ids=str,
)
def test_bad_input_is_one_line_and_exit_code_2(trace, tmp_path, args, said):
    code, out, err = workbench("calibrate", *(a.format(t=trace, d=tmp_path) for a in args))
    assert code == 2 and out == ""
    assert err.count("\n") == 1 and said in err
    assert list(tmp_path.iterdir()) == []
