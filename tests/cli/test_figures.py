"""The command that draws the paper's figures, on small traces of the user's own."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.support import random_requests, simulate, workbench, write_profile, write_trace
from workbench.cli.figures import NAMES
from workbench.report.figures.made import markdown
from workbench.traces import read_trace
from workbench.traces.statistics import trace_statistics


@pytest.fixture
def toy(tmp_path):
    args = ["--profile", write_profile(tmp_path / "p.json", [1, 8, 64], [0.01, 0.012, 0.03])]
    args += ["--cache", tmp_path / "cache", "--jobs", 1]
    for seed, (name, drafter) in enumerate([("a", "dflash"), ("b", "dspark-markov")]):
        requests = random_requests(np.random.default_rng(seed), 30, 3)
        path = tmp_path / f"{name}.jsonl"
        args += ["--trace", write_trace(path, requests, drafter=drafter, domain="chat")]
    (tmp_path / "out").mkdir()
    return [tmp_path / "out", *args]


def test_five_pictures_and_their_numbers(toy, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("".join(f"<!-- numbers: {name} -->\n<!-- end -->\n" for name in NAMES))
    code, out, err = workbench("figures", *toy, "--page", page)
    assert code == 0, err
    for name in NAMES:
        picture = tmp_path / "out" / f"{name}.png"
        assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size <= 150_000
        assert str(picture) in out
    numbers = json.loads((tmp_path / "out" / "numbers.json").read_text())
    assert list(numbers["figures"]) == list(NAMES)
    assert numbers["inputs"]["scheduled"] == [str(tmp_path / "b.jsonl")]  # DSpark's, though second
    assert "sweep --trace" in numbers["inputs"]["commands"][0]
    for figure in numbers["figures"].values():
        assert markdown(figure["table"]) in page.read_text()


def test_numbers_are_those_of_trace_info_and_simulate(toy, tmp_path):
    assert workbench("figures", *toy)[0] == 0
    figures = json.loads((tmp_path / "out" / "numbers.json").read_text())["figures"]
    trace = read_trace(str(tmp_path / "b.jsonl"))
    length = trace_statistics(trace).accepted_length
    whole = figures["figure-5-thresholds"]["numbers"]["chat"]["thresholds"][0]
    assert whole["kept"] == pytest.approx(length.replayed_rounds, rel=1e-5)
    assert whole["rounds"] == length.replayed_rounds_counted
    (run,) = simulate(
        "--trace", trace.path, "--profile", tmp_path / "p.json", "--scheduler", "topk",
        "--concurrency", 8, "--stagger",
    )  # fmt: skip
    points = figures["figure-8-load"]["numbers"]["topk"]
    (point,) = (point for point in points if point["concurrency"] == 8)
    assert point["throughput_tok_s_gpu"] == pytest.approx(run["throughput_tok_s_gpu"], rel=1e-5)
    assert point["verification_budget"] == pytest.approx(run["verification_budget"], rel=1e-5)


def test_the_second_time_gives_the_same_bytes_without_simulating(toy, tmp_path):
    assert workbench("figures", *toy)[0] == 0
    first = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert len(first) == 6
    code, _, err = workbench("figures", *toy)
    assert code == 0 and err.count("0 simulated") == 2
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == first


def refused(*args) -> str:
    code, out, err = workbench("figures", *args)
    assert (code, out) == (2, ""), (code, out, err)
    assert err.count("\n") == 1 and "Traceback" not in err
    return err


def test_refusals(toy, tmp_path):
    assert "is no folder" in refused(tmp_path / "missing", *toy[1:])
    assert "one trace per domain and drafter" in refused(
        *toy,
        "--trace",
        write_trace(tmp_path / "c.jsonl", [{"accepted": [1]}], drafter="dflash", domain="chat"),
    )
    (tmp_path / "page.md").write_text("no room")
    assert "has no block for" in refused(*toy, "--page", tmp_path / "page.md")
    assert "is read too" in refused(*toy, "--page", tmp_path / "a.jsonl")
    assert list((tmp_path / "out").iterdir()) == []
