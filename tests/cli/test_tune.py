"""The tuner as a user meets it: the printed command does what was promised."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time

import click
import numpy as np
import pytest

from tests.support import random_requests, simulate, workbench, write_profile, write_trace
from workbench.cli.again import command_line
from workbench.cli.study_storage import shown


@pytest.fixture
def toy(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    trace = write_trace(tmp_path / "toy.jsonl", random_requests(np.random.default_rng(0), 30, 3))
    profile = write_profile(
        tmp_path / "p.json",
        [1, 8, 64],
        [0.01, 0.012, 0.03],
        graphs={"batch_tokens": [8, 64], "beyond": {"batch_tokens": [65], "seconds": [0.04]}},
        power={"batch_tokens": [1, 64], "watts": [300.0, 600.0]},
    )
    return [
        "--trace", trace, "--profile", profile, "--cache", tmp_path / "cache", "--jobs", 1,
        "--storage", tmp_path / "tune.db", "--concurrency", 8, "--requests", 60,
    ]  # fmt: skip


def tune(*args) -> dict:
    code, out, err = workbench("tune", *args, "--json", "-")
    assert code == 0, err
    return json.loads(out)


def refused(*args) -> str:
    code, out, err = workbench("tune", *args)
    assert (code, out) == (2, ""), (code, out, err)
    assert err.count("\n") == 1 and "Traceback" not in err
    return err


def test_every_printed_command_gives_what_was_promised(toy):
    made = tune(*toy, "--trials", 12, "--graph-sizes", "profile", "--graph-sizes", "4,16")
    assert made["format"] == "workbench.tune/1" and made["pareto"]
    for one in made["pareto"]:
        words = shlex.split(one["command"])
        assert words[:2] == ["workbench", "simulate"]
        (run,) = simulate(*words[2:])
        assert one["values"] == [run["throughput_tok_s_gpu"], run["speed_tok_s_user"]["mean"]]
        assert one["scheduler"].partition(":")[0] == run["scheduler"].partition(":")[0]


def test_the_winner_is_the_last_line(toy):
    code, out, err = workbench("tune", *toy, "--trials", 8, "--objective", "speed,throughput")
    assert code == 0, err
    *_, others, words, command = out.rstrip().splitlines()
    assert words.startswith("best speed: ") and others.startswith("best speed of other kinds: ")
    (run,) = simulate(*shlex.split(command)[2:])
    assert f"{run['speed_tok_s_user']['mean']:.4g} tok/s/user" in words
    assert "8 finished" in err or "pruned" in err


def test_limits_and_prices(toy):
    made = tune(
        *toy,
        "--trials",
        10,
        "--objective",
        "usd,energy,ttft_p99",
        "--gpu-hour-usd",
        2,
        "--slo",
        "speed=60",
    )
    assert made["pareto"]
    for one in made["pareto"]:
        assert one["figures"]["speed_tok_s_user"] >= 60
        usd, joules, ttft = one["values"]
        figures = one["figures"]
        assert usd == pytest.approx(2 / 3600 * 1e6 / figures["throughput_tok_s_gpu"])
        assert joules == figures["energy_j_token"] and ttft == figures["ttft_p99_s"]


def test_what_to_know_is_said(toy, tmp_path):
    other = write_profile(tmp_path / "other.json", [1, 64], [0.01, 0.03], target={"name": "Big"})
    args = [*toy[:2], "--profile", other, *toy[4:], "--scheduler", "topk:1", "--trials", 1]
    code, out, _ = workbench("tune", *args)
    assert code == 0
    assert "not a forecast of this deployment" in out
    assert "note: replay is approximate for topk:1" in out
    assert len(tune(*args)["notes"]) == out.count("note: ")


def test_no_answer_is_said(toy):
    code, out, _ = workbench("tune", *toy, "--trials", 6, "--slo", "speed=1000000")
    assert code == 0 and "no configuration was found that keeps all limits" in out


def test_a_study_goes_on(toy):
    one = tune(*toy, "--trials", 4)
    two = tune(*toy, "--trials", 3)
    assert one["study"] == two["study"]
    assert sum(one["trials"].values()) == 4 and sum(two["trials"].values()) == 7
    assert two["finished"][: len(one["finished"])] == one["finished"]


def test_an_open_loop_refuses_what_does_not_keep_up(toy):
    args = [arg for arg in toy if arg not in ("--concurrency", 8)]
    made = tune(*args, "--rate", "2", "--requests", 200, "--trials", 6, "--no-pruning")
    assert made["rate"] == 2.0
    assert all(len(one["violations"]) == 1 for one in made["finished"])
    (run,) = simulate(*shlex.split(made["pareto"][0]["command"])[2:])
    assert run["rate"] == 2.0 and not run["overloaded"]


def test_traces_without_confidence_have_fewer_choices(toy, tmp_path):
    requests = [{"accepted": [1, 2, 0], "confidence": None}] * 9
    bare = write_trace(tmp_path / "bare.jsonl", requests)
    made = tune("--trace", bare, *toy[2:], "--trials", 6)
    assert {one["scheduler"].partition(":")[0] for one in made["finished"]} <= {"none", "static"}


def test_options_that_need_a_planner_are_taken_and_handed_on(toy, tmp_path):
    table = write_profile(tmp_path / "table.json", [1, 64], [0.01, 0.05])
    made = tune(
        *toy, "--trials", 5, "--no-pruning", "--planner-table", table, "--host-sync", "0.001",
        "--new-survival", "0.5",
    )  # fmt: skip
    for one in made["pareto"]:
        (run,) = simulate(*shlex.split(one["command"])[2:])
        assert one["values"][0] == run["throughput_tok_s_gpu"]
        planned = one["scheduler"].partition(":")[0] in ("greedy", "topk")
        assert ("--planner-table" in one["command"]) == planned
    assert {"none", "static:3", "greedy", "topk:2"} <= {o["scheduler"] for o in made["finished"]}


def test_fixed_schedulers_and_limits_stay_as_given(toy):
    made = tune(
        *toy,
        "--trials",
        5,
        "--scheduler",
        "static:2",
        "--max-running",
        "4",
        "--token-budget",
        "64,256",
    )
    assert {one["scheduler"] for one in made["finished"]} == {"static:2"}
    assert {one["max_running"] for one in made["finished"]} == {4}
    assert {one["token_budget"] for one in made["finished"]} <= {64, 256}


def sequential(path):
    """A profile whose draft pass costs more the more it drafts."""
    return write_profile(
        path,
        [1, 64],
        [0.01, 0.03],
        draft={"requests": [1], "tokens": [1, 3], "seconds": [[0.001, 0.2]]},
    )


def test_the_drafts_of_a_block_are_chosen_and_handed_on(toy, tmp_path):
    dear = sequential(tmp_path / "dear.json")
    made = tune(
        *toy[:2], "--profile", dear, *toy[4:], "--scheduler", "greedy", "--max-running", "8",
        "--token-budget", "64", "--trials", 8, "--no-pruning",
    )  # fmt: skip
    assert {one["block_size"] for one in made["finished"]} == {None, 1, 2}
    best = made["pareto"][0]
    assert best["block_size"] == 1 and "--block-size 1" in best["command"]
    for one in made["pareto"]:
        (run,) = simulate(*shlex.split(one["command"])[2:])
        assert one["values"] == [run["throughput_tok_s_gpu"], run["speed_tok_s_user"]["mean"]]


def test_blocks_are_cut_only_for_those_who_draft_them(toy):
    made = tune(*toy, "--block-size", "2", "--trials", 6, "--no-pruning")
    for one in made["finished"]:
        plain = one["scheduler"].partition(":")[0] in ("none", "static")
        assert one["block_size"] == (None if plain else 2)
    assert "give 1 to 3" in refused(*toy, "--block-size", "4")
    assert "drafts a whole block" in refused(*toy, "--scheduler", "static", "--block-size", "2")


def test_the_winner_as_engines_settings(toy, tmp_path):
    out = tmp_path / "deploy"
    args = [*toy, "--scheduler", "topk:1", "--max-running", "8", "--token-budget", "64"]
    made = tune(*args, "--block-size", "2", "--trials", 1, "--export", out)
    engines = {one["engine"]: one for one in made["engines"]}
    assert list(engines) == ["vLLM", "SGLang", "TensorRT-LLM"]
    assert "--max-num-seqs 8" in engines["vLLM"]["command"]
    assert '"num_speculative_tokens": 2' in engines["vLLM"]["command"]
    assert "--speculative-dspark-block-size 2" in engines["SGLang"]["command"]
    assert sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()) == [
        "sglang/serve.sh",
        "sglang/sps_table.json",
        "tensorrt-llm/config.yaml",
        "tensorrt-llm/cost_table.json",
        "tensorrt-llm/serve.sh",
        "vllm/serve.sh",
    ]
    for one in engines.values():
        folder = out / one["engine"].lower()
        assert one["command"] in (folder / "serve.sh").read_text()
        subprocess.run(["sh", "-n", folder / "serve.sh"], check=True)
        for name, text in one["files"].items():
            assert (folder / name).read_text() == text
    # what an engine's planner would read from it is what the simulator charges
    code, _, err = workbench(
        "simulate", *toy[:4], "--scheduler", "topk", "--concurrency", "2",
        "--planner-table", out / "sglang" / "sps_table.json",
    )  # fmt: skip
    assert code == 0, err


def test_engines_are_printed_and_what_they_cannot_do_is_said(toy):
    args = [*toy, "--scheduler", "threshold:0.5", "--trials", 1]
    code, out, _ = workbench("tune", *args, "--engine", "sglang,vLLM")
    assert code == 0
    assert "SGLang: threshold:0.5: SGLang has no setting that does this" in out
    assert "vLLM: threshold:0.5" in out and "TensorRT" not in out
    code, out, _ = workbench("tune", *toy, "--scheduler", "none", "--trials", 1, "--replicas", 2)
    assert "# Settings of each of 2 replicas." in out
    assert "vllm serve TARGET_MODEL" in out and "speculative" not in out


def test_refusals(toy, tmp_path):
    (tmp_path / "file").write_text("")
    assert "--export" in refused(*toy, "--export", tmp_path / "file" / "deploy")
    assert "is not one of vLLM" in refused(*toy, "--engine", "llama")
    assert "cannot be deployed" in refused(*toy, "--scheduler", "oracle")
    assert "is not one of throughput" in refused(*toy, "--objective", "fun")
    assert "needs a price" in refused(*toy, "--objective", "usd")
    assert "neither a size" in refused(*toy, "--graph-sizes", "big")
    assert "exclude each other" in refused(*toy, "--rate", "1")
    flat = write_profile(tmp_path / "flat.json")
    assert "no power curve" in refused(*toy, "--profile", flat, "--objective", "energy")
    assert "--storage" in refused(*toy, "--storage", tmp_path / "none" / "t.db")
    (tmp_path / "text.db").write_text("this is no database, whatever its name says")
    assert "cannot hold a study" in refused(*toy, "--storage", tmp_path / "text.db")
    err = refused(*toy, "--storage", "nosuch://user:secret@host/db")
    assert "secret" not in err and "cannot hold a study" in err
    err = refused(*toy, "--storage", "sqlite+nosuch:///x.db")
    assert "cannot hold a study" in err


def test_passwords_are_not_shown():
    assert shown("postgresql://me:secret@host/db") == "postgresql://me:***@host/db"
    assert shown("sqlite:////tmp/a.db") == "/tmp/a.db"


def test_command_lines_leave_defaults_out():
    @click.command("go")
    @click.option("--text", default="a b")
    @click.option("--many", multiple=True)
    @click.option("--flag", is_flag=True)
    @click.option("--on/--off", default=True)
    @click.option("--pairs")
    @click.option("--number", type=float)
    def go(**given):
        pass

    def line(**given):
        return command_line(go, given)

    assert line(text="a b", many=(), flag=False, on=True) == "workbench go"
    assert line(text="c d", many=("x", "y"), flag=True, on=False) == (
        "workbench go --text 'c d' --many x --many y --flag --off"
    )
    assert line(pairs={"ttft": 0.5}, number=1e-7) == "workbench go --pairs ttft=0.5 --number 1e-07"


@pytest.mark.slow
def test_ctrl_c_prints_what_was_found(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "workbench.cli.main", "tune", "--trace", "chat",
         "--concurrency", "4", "--requests", "800", "--jobs", "2", "--trials", "10000",
         "--cache", str(tmp_path / "c"),
         "--storage", str(tmp_path / "tune.db")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    ends = time.monotonic() + 120
    while len(list(tmp_path.rglob("*.json"))) < 12:
        assert process.poll() is None and time.monotonic() < ends
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "interrupted: what was found is partial" in out and "workbench simulate" in out
    assert "Traceback" not in err and err.count("\n") == 1
