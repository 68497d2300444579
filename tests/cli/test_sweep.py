"""The sweep as a user meets it: tables, files, cache, interruption, refusals."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow.parquet
import pytest

from tests.support import random_requests, simulate, workbench, write_profile, write_trace


@pytest.fixture
def toy(tmp_path):
    trace = write_trace(tmp_path / "toy.jsonl", random_requests(np.random.default_rng(0), 30, 3))
    profile = write_profile(tmp_path / "p.json", [1, 8, 64], [0.01, 0.012, 0.03])
    return ["--trace", trace, "--profile", profile, "--cache", tmp_path / "cache", "--jobs", 1]


def sweep(*args) -> dict:
    code, out, err = workbench("sweep", *args, "--json", "-")
    assert code == 0, err
    return json.loads(out)


def refused(*args) -> str:
    code, out, err = workbench("sweep", *args)
    assert (code, out) == (2, ""), (code, out, err)
    assert err.count("\n") == 1 and "Traceback" not in err
    return err


def test_default_loads_and_schedulers(toy):
    (group,) = sweep(*toy, "--requests", 20)["groups"]
    names = [one["scheduler"] for one in group["schedulers"]]
    assert names == ["none", "static:1", "static:3", "greedy", "topk"]
    loads = [point["load"]["concurrency"] for point in group["schedulers"][0]["points"]]
    assert loads == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert group["baseline"] == "static:1"


def test_a_point_is_what_simulate_gives(toy):
    (group,) = sweep(*toy, "--scheduler", "greedy", "--concurrency", "4")["groups"]
    (alone,) = simulate(*toy[:4], "--scheduler", "greedy", "--concurrency", "4", "--stagger")
    mine = next(run for run in group["runs"] if run["scheduler"] == "greedy")
    for field, value in mine.items():
        if field != "seed":
            assert alone[field] == value, field


def test_users_start_spread_unless_told_otherwise(toy):
    (group,) = sweep(*toy, "--scheduler", "none", "--concurrency", "8", "--no-stagger")["groups"]
    (alone,) = simulate(*toy[:4], "--scheduler", "none", "--concurrency", "8")
    mine = next(run for run in group["runs"] if run["scheduler"] == "none")
    assert mine["throughput_tok_s_gpu"] == alone["throughput_tok_s_gpu"]


def test_the_baseline_is_simulated_though_not_named(toy):
    (group,) = sweep(
        *toy, "--scheduler", "greedy", "--concurrency", "1,2", "--baseline", "static:2"
    )["groups"]
    assert [one["scheduler"] for one in group["schedulers"]] == ["greedy", "static:2"]
    assert group["baseline"] == "static:2"


def test_frontier_and_sla_in_the_table(toy):
    code, out, err = workbench(
        "sweep", *toy, "--scheduler", "none", "--scheduler", "oracle", "--sla", "50,1000000"
    )
    assert code == 0, err
    assert "50 tok/s/user" in out and "1e+06 tok/s/user" in out
    assert "not reachable" in out and "over static:1" in out
    assert "oracle (biased, hindsight)" in out
    assert "static:1 does not reach 1e+06 tok/s/user" in out
    assert "tok/s/user oracle" not in out  # it cannot be deployed, so it is never best


def test_the_second_time_nothing_is_simulated_and_the_bytes_are_the_same(toy, tmp_path):
    args = [*toy, "--concurrency", "1,4", "--seeds", 2]
    one, two = tmp_path / "1.json", tmp_path / "2.json"
    _, first, err = workbench("sweep", *args, "--json", one, "--plot", tmp_path / "1.svg")
    assert "20 of 20 simulations: 0 from the cache" in err
    _, second, err = workbench("sweep", *args, "--json", two, "--plot", tmp_path / "2.svg")
    assert "20 of 20 simulations: 20 from the cache, 0 simulated" in err
    assert first == second and one.read_bytes() == two.read_bytes()
    assert (tmp_path / "1.svg").read_bytes() == (tmp_path / "2.svg").read_bytes()


def test_what_changes_is_simulated_again(toy, tmp_path):
    args = [*toy, "--concurrency", "4"]
    workbench("sweep", *args)
    for more in (["--seed", 1], ["--max-running", 2], ["--requests", 7], ["--slo", "ttft=1"]):
        _, _, err = workbench("sweep", *args, *more)
        assert "5 of 5 simulations: 0 from the cache" in err, more
    write_profile(tmp_path / "p.json", [1, 8, 64], [0.01, 0.012, 0.031])
    _, _, err = workbench("sweep", *args)
    assert "5 of 5 simulations: 0 from the cache" in err


def test_no_cache_leaves_nothing(toy, tmp_path):
    args = [*toy[:4], "--no-cache", "--jobs", 1, "--concurrency", "2"]
    code, _, err = workbench("sweep", *args)
    assert code == 0 and "0 from the cache, 5 simulated" in err
    assert not (tmp_path / "cache").exists()


def test_rows_as_csv_and_parquet(toy, tmp_path):
    made = sweep(
        *toy,
        "--concurrency",
        "1,4",
        "--seeds",
        2,
        "--csv",
        tmp_path / "r.csv",
        "--parquet",
        tmp_path / "r.parquet",
    )
    rows = list(csv.DictReader((tmp_path / "r.csv").open()))
    table = pyarrow.parquet.read_table(tmp_path / "r.parquet").to_pylist()
    runs = made["groups"][0]["runs"]
    assert len(rows) == len(table) == len(runs) == 20
    for row, record, run in zip(rows, table, runs, strict=True):
        assert row["scheduler"] == record["scheduler"] == run["scheduler"]
        assert float(row["throughput_tok_s_gpu"]) == record["throughput_tok_s_gpu"]
        assert record["throughput_tok_s_gpu"] == run["throughput_tok_s_gpu"]
        assert record["speed_tok_s_user_p10"] == run["speed_tok_s_user"]["p10"]
        assert record["seed"] == run["seed"] and record["rate"] is None
    marked = {(r["scheduler"], r["concurrency"]) for r in table if r["on_frontier"]}
    points = {
        (one["scheduler"], point["load"]["concurrency"])
        for one in made["groups"][0]["schedulers"]
        for point in one["points"]
        if point["on_frontier"]
    }
    assert marked == points


def test_rows_come_while_it_runs(toy, tmp_path):
    args = [*toy, "--concurrency", "1,4", "--csv", tmp_path / "r.csv"]
    code, out, err = workbench("sweep", *args, "--stream", "-")
    assert code == 0, err
    lines = [json.loads(line) for line in out.splitlines()]
    known = list(csv.DictReader((tmp_path / "r.csv").open()))
    assert len(lines) == len(known) == 10
    by_point = {(row["scheduler"], row["concurrency"]): row for row in known}
    for line in lines:
        whole = by_point[line["scheduler"], str(line["concurrency"])]
        assert line.keys() == whole.keys() - {"on_frontier", "best"}
        assert line["throughput_tok_s_gpu"] == float(whole["throughput_tok_s_gpu"])
    # the second time from the cache, into a file
    code, table, _ = workbench("sweep", *args, "--stream", tmp_path / "r.jsonl")
    assert code == 0 and "frontier" in table
    again = (tmp_path / "r.jsonl").read_text().splitlines()
    assert sorted(again) == sorted(out.splitlines())
    assert "written by --stream too" in refused(*args, "--stream", "-", "--json", "-")


def test_letters_that_a_plots_font_lacks_warn_nobody(toy, tmp_path):
    trace = tmp_path / "数学.jsonl"
    trace.write_bytes(toy[1].read_bytes())
    args = ["--trace", trace, *toy[2:], "--concurrency", "1,2", "--plot", tmp_path / "f.png"]
    code, _, err = workbench("sweep", *args)
    assert code == 0 and err.count("\n") == 1 and (tmp_path / "f.png").stat().st_size > 0


def test_seeds_give_bands(toy):
    (group,) = sweep(
        *toy, "--scheduler", "greedy", "--concurrency", "2", "--seeds", 3, "--seed", 5
    )["groups"]
    point = group["schedulers"][0]["points"][0]
    mine = [r for r in group["runs"] if r["scheduler"] == "greedy"]
    assert [run["seed"] for run in mine] == [5, 6, 7]
    values = [run["throughput_tok_s_gpu"] for run in mine]
    assert point["throughput"]["min"] == min(values) < point["throughput"]["max"] == max(values)
    assert point["throughput"]["mean"] == pytest.approx(np.mean(values))


def test_several_profiles_and_traces_apart(toy, tmp_path):
    other = write_trace(tmp_path / "b.jsonl", random_requests(np.random.default_rng(1), 9, 3))
    fast = write_profile(tmp_path / "fast.json", [1], [0.001])
    made = sweep(
        *toy, "--trace", other, "--profile", fast, "--apart", "--concurrency", "2",
        "--scheduler", "none", "--plot", tmp_path / "p.png",
    )  # fmt: skip
    assert [group["name"] for group in made["groups"]] == [
        "toy on p", "toy on fast", "b on p", "b on fast",
    ]  # fmt: skip
    assert [len(group["runs"]) for group in made["groups"]] == [2] * 4
    mixed = sweep(*toy, "--trace", other, "--concurrency", "2", "--scheduler", "none")
    assert [group["name"] for group in mixed["groups"]] == ["toy + b on p"]
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_rates_and_lengths_without_traces(toy, tmp_path):
    (group,) = sweep(*toy, "--rate", "1,20", "--scheduler", "none")["groups"]
    assert group["schedulers"][0]["points"][0]["load"] == {"rate": 1.0}
    lengths = tmp_path / "lengths.csv"
    lengths.write_text("num_prefill_tokens,num_decode_tokens\n" + "20,10\n" * 30)
    (group,) = sweep(*toy[2:], "--arrivals", lengths, "--concurrency", "1,2")["groups"]
    assert [one["scheduler"] for one in group["schedulers"]] == ["none"]


def test_refusals(toy, tmp_path):
    assert "--apart" in refused(*toy, "--apart")
    assert "--cache and --no-cache" in refused(*toy, "--no-cache")
    assert "--baseline statik: no scheduler 'statik'" in refused(*toy, "--baseline", "statik")
    assert "--baseline static:9: " in refused(*toy, "--baseline", "static:9")
    assert "no scheduler ''" in refused(*toy, "--baseline", "")
    assert "--cache: no folder is named" in refused(*toy, "--cache", "")
    assert ".png" in refused(*toy, "--plot", tmp_path / "p.gif")
    assert "--csv" in refused(*toy, "--csv", tmp_path / "none" / "r.csv")
    assert "is read too" in refused(*toy, "--json", toy[1])
    assert "name each trace" in refused(
        *toy, "--profile", toy[3], "--profile", f"{toy[3]}", "--trace", toy[1], "--apart"
    )
    timed = tmp_path / "timed.csv"
    timed.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.97,9,9\n")
    assert "is one load" in refused(*toy, "--arrivals", timed)
    assert "give one kind of load" in refused(*toy, "--rate", "1", "--concurrency", "1")
    assert not (tmp_path / "cache").exists() or not list((tmp_path / "cache").rglob("*.json"))


def start(args) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "workbench.cli.main", "sweep", *map(str, args)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def wait_for(folder, count: int, process) -> None:
    ends = time.monotonic() + 120
    while len(list(folder.rglob("*.json"))) < count:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < ends
        time.sleep(0.02)


def test_a_scheduler_that_ends_its_process_does_not_end_the_sweep_unsaid(toy, tmp_path):
    file = tmp_path / "fatal.py"
    file.write_text(
        "import os, signal\n"
        "from workbench.schedulers import Scheduler\n"
        "class Fatal(Scheduler):\n"
        "    def verify_lengths(self, view, survival):\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    # in a process of its own, which has no other threads: its workers are forked
    process = start([*toy[:-1], 2, "--scheduler", f"{file}:Fatal", "--concurrency", "1,2"])
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (2, "")
    assert "give fewer --jobs" in err and err.count("\n") == 1


def test_forked_processes_give_the_same_bytes_as_one(toy, tmp_path):
    one, two = tmp_path / "1.json", tmp_path / "2.json"
    args = [*toy[:-4], "--concurrency", "1,4", "--scheduler", "greedy", "--scheduler", "topk"]
    process = start([*args, "--no-cache", "--jobs", 2, "--json", two])  # has no other threads
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert workbench("sweep", *args, "--no-cache", "--jobs", 1, "--json", one)[0] == 0
    assert one.read_bytes() == two.read_bytes()


SLOW = ("--trace", "chat", "--requests", 400, "--concurrency", "1,2,3,4,5,6,7,8", "--jobs", 2)
POINTS = 6 * 8


@pytest.mark.slow
def test_a_killed_sweep_goes_on_where_it_was(tmp_path):
    lines = tmp_path / "lines"
    process = start([*SLOW, "--cache", tmp_path, "--stream", lines])
    wait_for(tmp_path, 3, process)
    process.kill()
    process.communicate()
    time.sleep(2)  # its workers notice that it is gone
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")}
    assert 3 <= len(kept) < POINTS
    assert 1 <= len(lines.read_text().splitlines()) <= len(kept)  # what was there was handed out
    time.sleep(1)
    assert len(list(tmp_path.rglob("*.json"))) == len(kept)
    code, _, err = workbench("sweep", *SLOW, "--cache", tmp_path)
    assert code == 0
    assert f"{len(kept)} from the cache, {POINTS - len(kept)} simulated" in err
    assert all(path.stat().st_mtime_ns == time_ for path, time_ in kept.items())


@pytest.mark.slow
def test_ctrl_c_prints_what_is_there(tmp_path):
    out = tmp_path / "out.json"
    process = start([*SLOW, "--cache", tmp_path / "cache", "--json", out])
    wait_for(tmp_path / "cache", 3, process)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: the workers get it too
    printed, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "interrupted: what follows is partial" in printed
    assert "Traceback" not in err and err.count("\n") == 1
    made = json.loads(out.read_text())
    assert made["partial"] is True
    assert 1 <= len(made["groups"][0]["runs"]) < POINTS
