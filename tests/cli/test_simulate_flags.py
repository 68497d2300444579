"""No flag of ``simulate`` is ignored: it changes the figures, writes a file, or is refused.

dynamo#13517: a simulator's flags were accepted and ignored, and all arms came out alike.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.support import random_requests, simulate, workbench, write_profile, write_trace
from workbench.cli.simulate import command


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A trace with domains, sessions and arrivals, a profile with all parts, and tables."""
    folder = tmp_path_factory.mktemp("flags")
    rng = np.random.default_rng(11)
    requests = random_requests(rng, 40, 3)
    for number, request in enumerate(requests):
        request |= {
            "domain": ("chat", "code")[number % 2],
            "session": f"s{number % 5}",
            "arrival_s": round(0.05 * number, 3),
            # long prompts, so that a kept prefix is worth something
            "prompt_tokens": int(rng.integers(20, 90)),
        }
    write_trace(folder / "trace.jsonl", requests)
    write_trace(folder / "other.jsonl", random_requests(rng, 40, 3))
    parts = {
        "host": {"sync_seconds": 0.002, "async_seconds": 0.001},
        "draft": {"requests": [1, 16], "tokens": [3], "seconds": [[0.001], [0.002]]},
        "power": {"batch_tokens": [1, 64], "watts": [300, 700]},
        "kv_cache": {"capacity_tokens": 4096, "block_tokens": 16},
    }
    stairs = ([1, 4, 8, 16, 64], [0.01, 0.011, 0.014, 0.022, 0.07])
    write_profile(folder / "profile.json", *stairs, graphs={"batch_tokens": [1, 4, 16]}, **parts)
    write_profile(folder / "dearer.json", *([1, 64], [0.02, 0.2]), **parts)
    table = {
        "sample_batch_tokens": [1, 6, 12, 24],
        "sample_steps_per_sec": [100.0, 90.0, 40.0, 12.0],
        "max_batch_tokens": 64,
    }
    (folder / "table.json").write_text(json.dumps(table))
    (folder / "sts.json").write_text(json.dumps({"temperatures": [0.3, 3.0, 1.0]}))
    for name, gap in (("come.csv", 0.1), ("late.csv", 0.3)):
        rows = [f"{gap * n},{10 + n % 7},{5 + n % 11}" for n in range(30)]
        text = "\n".join(["arrival_s,prompt_tokens,output_tokens", *rows])
        (folder / name).write_text(text + "\n")
    return folder


USERS = "--concurrency 6"
# flag: what is run without it (or with another value), and with it
CHANGES = {
    "--trace": (f"--scheduler static:2 {USERS}", "--trace other.jsonl"),
    "--profile": (f"--scheduler none {USERS}", "--profile dearer.json"),
    "--scheduler": (f"--scheduler static:1 {USERS}", "--scheduler greedy"),
    "--concurrency": (f"--scheduler none {USERS}", "--concurrency 7"),
    "--rate": ("--scheduler none --rate 5", "--rate 6"),
    "--burstiness": ("--scheduler none --rate 10", "--burstiness 2"),
    "--on-off": ("--scheduler none --rate 10", "--on-off 0.5,1.5"),
    "--arrivals": ("--scheduler none --arrivals come.csv", "--arrivals late.csv"),
    "--speedup": ("--scheduler none --arrivals come.csv", "--speedup 3"),
    "--from": ("--scheduler none --arrivals come.csv", "--from 1"),
    "--to": ("--scheduler none --arrivals come.csv", "--to 2"),
    "--requests": (f"--scheduler none {USERS}", "--requests 50"),
    "--stagger": (f"--scheduler none {USERS}", "--stagger"),
    "--max-running": (f"--scheduler none {USERS}", "--max-running 3"),
    "--token-budget": (f"--scheduler none --max-running 6 {USERS}", "--token-budget 30"),
    "--kv-tokens": (f"--scheduler none {USERS}", "--kv-tokens 256"),
    "--prefill": (f"--scheduler none --max-running 6 --token-budget 30 {USERS}", "--prefill first"),
    "--queue": (f"--scheduler none --max-running 2 {USERS}", "--queue shortest"),
    "--priority": (
        f"--scheduler none --max-running 2 {USERS} --queue priority --priority chat=1",
        "--priority code=1",
    ),
    "--prefix-caching": (f"--scheduler none {USERS}", "--prefix-caching"),
    "--undrafted-loss": (f"--scheduler static:3 {USERS} --prefix-caching", "--undrafted-loss 0.9"),
    "--pipeline": (f"--scheduler none {USERS}", "--pipeline sync"),
    "--lag": (f"--scheduler topk {USERS}", "--lag 5"),
    "--new-survival": (f"--scheduler topk {USERS}", "--new-survival 0.1"),
    "--host-sync": (f"--scheduler greedy {USERS}", "--host-sync 0.01"),
    "--host-async": (f"--scheduler none {USERS}", "--host-async 0.01"),
    "--graph-sizes": (f"--scheduler none {USERS}", "--graph-sizes 1,12"),
    "--uniform-width": (f"--scheduler threshold:0.6 {USERS}", "--uniform-width"),
    "--align-tier": (f"--scheduler threshold:0.6 {USERS}", "--align-tier"),
    "--replicas": (f"--scheduler none {USERS}", "--replicas 2"),
    "--router": ("--scheduler none --rate 40 --replicas 2", "--router least-loaded"),
    "--planner-table": (f"--scheduler greedy {USERS}", "--planner-table table.json"),
    "--planner-lookup": (
        f"--scheduler global {USERS} --planner-table table.json",
        "--planner-lookup linear",
    ),
    "--calibration": (f"--scheduler threshold:0.6 {USERS}", "--calibration sts.json"),
    "--block-size": (f"--scheduler topk {USERS}", "--block-size 1"),
    "--slo": (f"--scheduler none {USERS}", "--slo tpot=0.02"),
    "--gpu-hour-usd": (f"--scheduler none {USERS}", "--gpu-hour-usd 2"),
    "--seed": (f"--scheduler none {USERS}", "--seed 1"),
}
WRITES = {"--json": "r.json", "--requests-out": "r.csv", "--timeline": "r.trace"}


def written(line: str, files) -> list[str]:
    """The words of a line, with paths to the files."""
    return [str(files / word) if "." in word and (files / word).is_file() else word
            for word in line.split()]  # fmt: skip


def merged(base: list[str], more: list[str]) -> list[str]:
    """The options of ``base`` with those of ``more`` in their place."""
    flag = more[0]
    if flag in base:
        base = base[: base.index(flag)] + base[base.index(flag) + 2 :]
    return base + more


def whole(line: list[str], files) -> list[str]:
    """The line with the trace and the profile, where it names none."""
    for flag, name in (("--trace", "trace.jsonl"), ("--profile", "profile.json")):
        if flag not in line:
            line = [*line, flag, str(files / name)]
    return line


def figures(line: list[str], files) -> list[dict]:
    """The runs of the result without what differs between equal runs, and without their label."""
    runs = simulate(*whole(line, files))
    for run in runs:
        for name in ("wall_s", "scheduler", "arrivals", "concurrency", "rate"):
            run.pop(name, None)
    return runs


def test_no_flag_is_left_out_of_these_tests():
    flags = {flag for option in command.params for flag in option.opts if flag.startswith("--")}
    assert flags == CHANGES.keys() | WRITES.keys()


@pytest.mark.parametrize("flag", CHANGES)
def test_a_flag_changes_the_figures(files, flag):
    base, more = (written(line, files) for line in CHANGES[flag])
    assert more[0] == flag
    before, after = figures(base, files), figures(merged(base, more), files)
    assert before != after
    # and does so by itself: the same line twice is the same to the last digit
    assert figures(base, files) == before


@pytest.mark.parametrize("flag", WRITES)
def test_a_flag_writes_its_file_and_changes_nothing_else(files, flag, tmp_path):
    out = tmp_path / WRITES[flag]
    line = whole(["--scheduler", "topk", "--concurrency", "4"], files)
    code, before, _ = workbench("simulate", *line)
    assert code == 0
    code, after, _ = workbench("simulate", *line, flag, out)
    assert code == 0 and out.stat().st_size > 100
    assert after == before


@pytest.mark.parametrize(
    "words",
    [
        "--max-running 256", "--token-budget 8192", "--kv-tokens 4096", "--prefill mixed",
        "--queue fcfs", "--pipeline auto", "--pipeline async", "--lag 2", "--new-survival 1",
        "--host-async 0.001", "--graph-sizes 1,4,16", "--replicas 1", "--seed 0",
        "--requests 48",
    ],
)  # fmt: skip
def test_a_default_said_aloud_is_the_default(files, words):
    line = ["--scheduler", "topk", "--concurrency", "6"]
    assert figures(line + written(words, files), files) == figures(line, files)


def test_the_first_router_is_round_robin(files):
    line = ["--scheduler", "none", "--rate", "40", "--replicas", "2"]
    assert figures([*line, "--router", "round-robin"], files) == figures(line, files)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--scheduler none --rate 5 --concurrency 4", ["--concurrency", "--rate"]),
        ("--scheduler none --arrivals come.csv --rate 5", ["--rate", "--arrivals"]),
        ("--scheduler none --arrivals come.csv --concurrency 5", ["--concurrency", "--arrivals"]),
        ("--scheduler none --concurrency 4 --burstiness 2", ["--burstiness", "--rate"]),
        ("--scheduler none --concurrency 4 --on-off 1,1", ["--on-off", "--rate"]),
        ("--scheduler none --rate 4 --on-off 1,1 --burstiness 2", ["on"]),
        ("--scheduler none --rate 4 --on-off 1", ["--on-off"]),
        ("--scheduler none --concurrency 4 --speedup 2", ["--speedup", "--arrivals"]),
        ("--scheduler none --concurrency 4 --from 0", ["--from", "--arrivals"]),
        ("--scheduler none --arrivals trace --to 9", ["--to", "--arrivals"]),
        ("--scheduler none --rate 4 --stagger", ["--stagger", "--concurrency"]),
        ("--scheduler none --arrivals come.csv --stagger", ["--stagger"]),
        ("--scheduler none --queue priority", ["--queue priority", "--priority"]),
        ("--scheduler none --priority chat=1", ["--priority", "--queue priority"]),
        ("--scheduler none --queue priority --priority maths=1", ["maths", "chat, code"]),
        ("--scheduler none --undrafted-loss 0.5", ["--undrafted-loss", "--prefix-caching"]),
        ("--scheduler none --trace other.jsonl --prefix-caching", ["--prefix-caching", "session"]),
        ("--scheduler none --scheduler greedy --lag 3", ["--lag", "topk"]),
        ("--scheduler static:2 --new-survival 0.5", ["--new-survival", "topk"]),
        ("--scheduler none --scheduler static:1 --align-tier", ["--align-tier", "topk"]),
        ("--scheduler topk --graph-sizes none --align-tier", ["--align-tier", "--graph-sizes"]),
        ("--scheduler topk --profile dearer.json --align-tier", ["--align-tier", "graphs"]),
        ("--scheduler none --planner-table table.json", ["--planner-table", "topk"]),
        ("--scheduler static:2 --calibration sts.json", ["--calibration", "topk"]),
        ("--scheduler topk --calibration table.json", ["table.json", "temperatures"]),
        ("--scheduler topk --planner-lookup floor", ["--planner-lookup", "--planner-table"]),
        ("--scheduler none --router session", ["--router", "--replicas"]),
        ("--scheduler none --kv-tokens 64", ["--kv-tokens", "larger"]),
        ("--scheduler none --graph-sizes 8-4", ["--graph-sizes", "8-4"]),
        ("--scheduler none --timeline x.json", ["--timeline", "one"]),
        ("--scheduler none --max-running 0", ["--max-running"]),
        ("--scheduler none --prefill last", ["--prefill", "mixed"]),
        ("--scheduler none --new-survival 1.5", ["--new-survival"]),
    ],
)
def test_what_would_change_nothing_or_mean_nothing_is_refused(files, line, words):
    code, out, err = workbench("simulate", *whole(written(line, files), files))
    assert (code, out) == (2, "")
    assert err.count("\n") == 1 and "Traceback" not in err
    for word in words:
        assert word in err


def test_arrivals_alone_refuse_what_needs_a_trace(files):
    for more in ("--scheduler greedy", "--queue priority --priority chat=1", "--lag 2"):
        code, out, err = workbench(
            "simulate", "--arrivals", files / "come.csv", "--profile", files / "profile.json",
            *more.split(),
        )  # fmt: skip
        assert (code, out) == (2, "") and err.count("\n") == 1


def test_the_settings_are_in_the_result(files):
    words = (
        "--scheduler topk --concurrency 6 --max-running 5 --kv-tokens 512 --lag 3 --replicas 2 "
        "--router session --prefill first --pipeline sync --graph-sizes vllm"
    )
    line = whole(written(words, files), files)
    code, out, err = workbench("simulate", *line, "--json", "-")
    assert code == 0, err
    config = json.loads(out)["config"]
    expected = {
        "max_running": 5, "token_budget": 8192, "kv_tokens": 512, "lag": 3, "replicas": 2,
        "router": "session", "prefill": "first", "pipeline": "sync", "graph_sizes": "vllm",
        "seed": 0,
    }  # fmt: skip
    assert {name: config[name] for name in expected} == expected
