"""What a run leaves: the request table, the timeline of steps, and results of a broken-off run."""

from __future__ import annotations

import csv
import itertools
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.serving.samples import arrivals, cost, recorded, serve, steps
from tests.support import random_requests, simulate, workbench, write_profile, write_trace
from workbench.serving import Arm, Demand, Load
from workbench.serving.requests_table import request_columns, write_requests
from workbench.serving.timeline import chrome_trace

COLUMNS = (
    "scheduler", "load", "request", "id", "domain", "replica", "prompt_tokens", "output_tokens",
    "issued_s", "first_token_s", "last_token_s", "ttft_s", "tpot_s", "in_window",
)  # fmt: skip


@pytest.fixture
def toy(tmp_path):
    trace = write_trace(tmp_path / "toy.jsonl", random_requests(np.random.default_rng(0), 30, 3))
    profile = write_profile(
        tmp_path / "p.json", [1, 8, 64], [0.01, 0.012, 0.03], graphs={"batch_tokens": [1, 8, 32]}
    )
    return ["--trace", trace, "--profile", profile]


# The request table --------------------------------------------------------------------------------


def test_every_request_with_its_times():
    run, _ = serve(arrivals([(7, 3), (2, 1)], at=[0, 0.5]), max_running=1)
    columns = request_columns(run)
    assert tuple(columns) == COLUMNS
    rows = list(zip(*(list(columns[name]) for name in COLUMNS[2:13]), strict=True))
    assert rows[0] == (0, "", "", 0, 7, 3, 0, 1, 3, 1, 1)
    assert rows[1][:10] == (1, "", "", 0, 2, 1, 0.5, 4, 4, 3.5)
    assert np.isnan(rows[1][10])  # a request of one token has no pace
    assert (
        columns["scheduler"] == ["none"] * 2 and columns["load"] == ["arrivals made by a test"] * 2
    )


@pytest.mark.parametrize("load", [["--concurrency", "1,4"], ["--rate", "3,30"]])
def test_the_reported_figures_are_those_of_the_table(tmp_path, toy, load):
    out, result = tmp_path / "r.csv", tmp_path / "r.json"
    code, _, err = workbench(
        "simulate", *toy, *load, "--scheduler", "none", "--scheduler", "topk", "--requests", 60,
        "--replicas", 2, "--requests-out", out, "--json", result,
    )  # fmt: skip
    assert code == 0, err
    runs = json.loads(result.read_text())["runs"]
    rows = list(csv.DictReader(out.open()))
    assert tuple(rows[0]) == COLUMNS and len(rows) == 60 * 4 == 60 * len(runs)
    for index, run in enumerate(runs):
        mine = rows[60 * index : 60 * (index + 1)]
        assert {row["scheduler"] for row in mine} == {run["scheduler"]}
        assert [int(row["request"]) for row in mine] == list(range(60))
        assert sum(int(row["output_tokens"]) for row in mine) == run["output_tokens"]
        inside = [row for row in mine if row["in_window"] == "True"]
        assert len(inside) == run["window"]["requests"]
        ttft = np.array([float(row["ttft_s"]) for row in inside])
        assert run["ttft_s"]["mean"] == pytest.approx(ttft.mean())
        assert run["ttft_s"]["p99"] == pytest.approx(np.quantile(ttft, 0.99))
        pace = np.array([float(row["tpot_s"]) for row in inside if row["output_tokens"] != "1"])
        assert run["tpot_s"]["p50"] == pytest.approx(np.median(pace))
        assert run["speed_tok_s_user"]["mean"] == pytest.approx((1 / pace).mean())
        assert run["speed_tok_s_user"]["p10"] == pytest.approx(np.quantile(1 / pace, 0.1))
        served = np.bincount([int(row["replica"]) for row in mine], minlength=2).tolist()
        assert served == [part["requests_completed"] for part in run["replicas"]]


def test_parquet_holds_what_csv_holds(tmp_path, toy):
    args = [*toy, "--concurrency", "2,5", "--scheduler", "greedy", "--requests", 20]
    for name in ("r.csv", "r.parquet"):
        code, _, err = workbench("simulate", *args, "--requests-out", tmp_path / name)
        assert code == 0, err
    table = pyarrow.parquet.read_table(tmp_path / "r.parquet").to_pydict()
    rows = list(csv.DictReader((tmp_path / "r.csv").open()))
    assert tuple(table) == COLUMNS and len(rows) == 40
    for name, column in table.items():
        for row, value in zip(rows, column, strict=True):
            if value is None:  # not that far, or of one token
                assert row[name] == ""
            elif isinstance(value, float):
                assert float(row[name]) == pytest.approx(value)
            else:
                assert row[name] == str(value)
    assert isinstance(table["request"][0], int) and isinstance(table["in_window"][0], bool)


def test_a_table_of_another_kind_is_refused_before_the_run(tmp_path, toy):
    for name, word in (("r.xlsx", ".parquet"), ("no/r.csv", "folder")):
        code, out, err = workbench("simulate", *toy, "--requests-out", tmp_path / name)
        assert code == 2 and out == "" and word in err and err.count("\n") == 1
    with pytest.raises(Exception, match=r"\.csv nor \.parquet"):
        write_requests(str(tmp_path / "r.txt"), [{}])
    assert not list(tmp_path.glob("r.*"))


# The timeline -------------------------------------------------------------------------------------


def test_a_timeline_by_hand():
    # batch 1; then 1 decoding with 2 drafts and a prompt of 4 (3 + 4 → 8); then the last round (3)
    population = recorded([{"accepted": [1] * 4}], block_size=2)
    run, _ = serve(
        arrivals([(1, 4), (4, 1)], at=[0, 0.5]), "static:2", population=population,
        price=cost(graphs={"batch_tokens": [1, 3, 8]}), record_steps=True,
    )  # fmt: skip
    events = json.loads(chrome_trace(run))["traceEvents"]
    names = [(e["name"], e["args"]["name"]) for e in events if e["ph"] == "M"]
    assert names == [("process_name", "replica 0"), ("thread_name", "steps")]
    slices = [(e["name"], e["ts"], e["dur"], e["args"]) for e in events if e["ph"] == "X"]

    def args(decoding, prefill, each, verified, batch, padded):
        return {
            "decoding": decoding, "prefill_tokens": prefill, "drafts_per_request": each,
            "verified_drafts": verified, "batch_tokens": batch, "padded_tokens": padded,
        }  # fmt: skip

    assert slices == [
        ("prefill", 0, 1e6, args(0, 1, 0, 0, 1, 1)),
        ("mixed", 1e6, 1e6, args(1, 4, 2, 2, 7, 8)),
        ("decode", 2e6, 1e6, args(1, 0, 2, 2, 3, 3)),
    ]
    counters = {
        name: [(e["ts"], e["args"]) for e in events if e["ph"] == "C" and e["name"] == name]
        for name in ("requests", "batch tokens", "verify budget")
    }
    assert counters["requests"] == [
        (0, {"decoding": 0, "waiting": 0}),
        (1e6, {"decoding": 1, "waiting": 0}),
        (2e6, {"decoding": 1, "waiting": 0}),
    ]
    assert [use for _, use in counters["batch tokens"]] == [
        {"used": 1, "padding": 0},
        {"used": 7, "padding": 1},
        {"used": 3, "padding": 0},
    ]
    # the budget of a step without a round is not zero but unknown
    assert counters["verify budget"] == [(1e6, {"1+l": 3}), (2e6, {"1+l": 3})]


def test_who_waits_is_counted():
    run, _ = serve(arrivals([(1, 2)] * 3), max_running=1, record_steps=True)
    events = json.loads(chrome_trace(run))["traceEvents"]
    waiting = [e["args"]["waiting"] for e in events if e["name"] == "requests"]
    assert waiting == [2, 2, 1, 1, 0, 0]


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    replicas=st.integers(1, 3),
    scheduler=st.sampled_from(["none", "static:2", "topk", "greedy"]),
    kv_tokens=st.none() | st.just(160),
    first=st.booleans(),
)
def test_the_steps_of_a_timeline_add_up_to_the_result(seed, replicas, scheduler, kv_tokens, first):
    rng = np.random.default_rng(seed)
    population = recorded(random_requests(rng, 6, 3))
    come = arrivals(
        list(zip(rng.integers(1, 40, 15).tolist(), rng.integers(1, 30, 15).tolist(), strict=True)),
        at=np.cumsum(rng.exponential(3.0, 15)),
    )
    price = cost([1, 16], [0.5, 1.5], graphs={"batch_tokens": [1, 4, 16]})
    run, result = serve(
        come, scheduler, price=price, population=population, replicas=replicas, max_running=4,
        token_budget=20, kv_tokens=kv_tokens, prefill_first=first, record_steps=True,
    )  # fmt: skip
    taken = [steps(run, index) for index in range(replicas)]
    everything = [step for line in taken for step in line]
    assert len(everything) == result["steps"]
    assert sum(step["decoding"] for step in everything) == result["rounds"]
    assert sum(step["prefill_tokens"] for step in everything) == result["prefill_tokens"]
    for index, line in enumerate(taken):
        assert len(line) == result["replicas"][index]["steps"] if replicas > 1 else True
        for step in line:
            assert step["batch_tokens"] == (
                step["decoding"] + step["verified_drafts"] + step["prefill_tokens"]
            )
            assert step["verified_drafts"] <= step["drafts_per_request"] * step["decoding"]
            assert step["seconds"] == pytest.approx(price.verify_seconds(step["batch_tokens"]))
            assert (step["kind"] == "mixed") == bool(step["decoding"] and step["prefill_tokens"])
        for step, following in itertools.pairwise(line):  # one at a time
            assert step["start"] + step["seconds"] <= following["start"] + 1e-9
    end = max(step["start"] + step["seconds"] for step in everything)
    assert end == pytest.approx(result["simulated_s"])


def test_a_timeline_through_the_command_line_is_of_one_run(tmp_path, toy):
    out = tmp_path / "steps.json"
    code, _, err = workbench("simulate", *toy, "--timeline", out)
    assert code == 2 and "--timeline" in err and "one --scheduler" in err and not out.exists()
    (run,) = simulate(
        *toy, "--timeline", out, "--scheduler", "topk", "--concurrency", 4, "--replicas", 2
    )
    events = json.loads(out.read_text())["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    assert len(slices) == run["steps"]
    assert {event["pid"] for event in slices} == {0, 1}


# Broken off ---------------------------------------------------------------------------------------


def broken_off(after: int) -> tuple:
    """A run that is interrupted when ``after`` requests have ended."""
    done = []

    def progress(count):
        done.append(count)
        if sum(done) == after:
            raise KeyboardInterrupt

    come = arrivals([(2, 5)] * 10)
    run = Arm("none", cost()).run(
        Demand(None, arrivals=come), Load(concurrency=1), on_progress=progress
    )
    with pytest.raises(KeyboardInterrupt):
        run.run()
    return run, run.result()


@pytest.mark.parametrize("after", [1, 4, 9])
def test_what_was_simulated_so_far_is_a_partial_result(after):
    run, result = broken_off(after)
    assert result["partial"] is True
    assert result["requests"] == 10 and result["requests_completed"] == after
    assert result["output_tokens"] == result["simulated_s"] == 5 * after
    assert result["tpot_s"]["mean"] == 1 and result["ttft_s"]["mean"] == 1
    columns = request_columns(run)
    assert (~np.isnan(columns["last_token_s"])).sum() == after


def test_a_whole_run_is_not_called_partial():
    assert "partial" not in serve(arrivals([(1, 2)]))[1]


SLOW = '''
import pathlib
from workbench.schedulers import Scheduler

class Slow(Scheduler):
    """Verifies everything; says when it has been asked for the five hundredth time."""
    name = "slow"
    reads = "nothing"
    asked = 0

    def verify_lengths(self, view, survival):
        Slow.asked += 1
        if Slow.asked == 500:
            pathlib.Path(__file__).with_suffix(".sign").touch()
        return (survival[:, 0] * 0).astype(int) + view.draft_length
'''


def test_ctrl_c_leaves_the_results_so_far(tmp_path, toy):
    (tmp_path / "slow.py").write_text(SLOW)
    result, requests, sign = (tmp_path / name for name in ("r.json", "r.csv", "slow.sign"))
    command = [
        sys.executable, "-m", "workbench.cli.main", "simulate", *toy, "--concurrency", "3",
        # far more than can be simulated while the signal is under way
        "--requests", "300000", "--scheduler", f"{tmp_path / 'slow.py'}:Slow", "--scheduler",
        "none", "--json", result, "--requests-out", requests,
    ]  # fmt: skip
    # a shell without job control starts its children deaf to Ctrl-C
    child = subprocess.Popen(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    try:
        until = time.monotonic() + 60
        while not sign.exists() and child.poll() is None and time.monotonic() < until:
            time.sleep(0.02)
        assert sign.exists(), child.communicate(timeout=5)
        os.kill(child.pid, signal.SIGINT)
        out, err = child.communicate(timeout=60)
    finally:
        child.kill()
        child.wait()
    assert child.returncode == 130, (out, err)
    assert "Traceback" not in err
    assert "interrupted: what follows is partial" in out
    report = json.loads(result.read_text())
    assert report["partial"] is True
    (run,) = report["runs"]  # the second was not begun
    assert run["scheduler"] == "slow" and run["partial"] is True
    assert 0 < run["requests_completed"] < 300_000
    assert run["throughput_tok_s_gpu"] > 0
    rows = list(csv.DictReader(requests.open()))
    assert sum(row["last_token_s"] != "" for row in rows) == run["requests_completed"]
    assert sorted(path.name for path in tmp_path.glob(".*")) == []


def test_ctrl_c_keeps_the_runs_that_were_done(tmp_path, toy):
    """The signal comes from inside, at the same step each time, in the second of two runs."""
    (tmp_path / "stop.py").write_text(
        SLOW.replace("Slow", "Stop").replace(
            'pathlib.Path(__file__).with_suffix(".sign").touch()',
            "import signal; signal.raise_signal(signal.SIGINT)",
        )
    )
    done = subprocess.run(
        [
            sys.executable, "-m", "workbench.cli.main", "simulate", *map(str, toy), "--concurrency",
            "3", "--requests", "500", "--scheduler", "none", "--scheduler",
            f"{tmp_path / 'stop.py'}:Stop", "--json", str(tmp_path / "r.json"),
        ],
        capture_output=True, text=True, timeout=60,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    assert done.returncode == 130, done.stderr
    report = json.loads((tmp_path / "r.json").read_text())
    whole, part = report["runs"]
    assert whole["scheduler"] == "none" and whole["requests_completed"] == 500
    assert "partial" not in whole and part["partial"] is True and report["partial"] is True
    assert 0 < part["requests_completed"] < 500
    assert "none" in done.stdout and "slow" in done.stdout
