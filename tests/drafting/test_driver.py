"""The driver of the drafters' run, at toy size: every stage, then resumption, then its parts."""

import json
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.drafters.latency import _parts, measure
from benchmarks.drafters.live import accepted
from benchmarks.drafters.replay import RecordedPasses
from benchmarks.drafters.settings import read_settings
from benchmarks.drafters.summary import worst
from benchmarks.drafters.work import Work
from tests.drafting.samples import tiny_drafter, tiny_target
from tests.drafting.test_record import recorded
from workbench.drafting.decode import Decoder, Request
from workbench.drafting.sampling import RandomChoices
from workbench.schedulers import create
from workbench.traces import read_trace

ROOT = Path(__file__).parents[2]


def drive(work, out, *more):
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.drafters.run", "--toy", "--work", work, "--out", out,
         *map(str, more)],
        cwd=ROOT, capture_output=True, text=True, timeout=600,
    )  # fmt: skip


@pytest.mark.slow
def test_the_whole_run_at_toy_size(tmp_path):
    work, out = tmp_path / "work", tmp_path / "out"
    first = drive(work, out, "--until", "train")
    assert first.returncode == 0, first.stderr
    weights = (work / "dspark" / "model.safetensors").read_bytes()
    second = drive(work, out)
    assert second.returncode == 0, second.stderr
    assert (work / "dspark" / "model.safetensors").read_bytes() == weights
    assert "greedy: 36 of 36 equal, 0 faults" in second.stdout
    with tarfile.open(out / "drafters.tar") as tar:
        tar.extractall(tmp_path / "back", filter="data")
    traces = sorted((tmp_path / "back" / "traces").iterdir())
    assert len(traces) == 12
    math, dflash = (tmp_path / "back" / "traces" / f"math{x}.jsonl.gz" for x in ("", "-dflash"))
    assert read_trace(math).ids == read_trace(dflash).ids
    assert (read_trace(math).output_tokens == read_trace(dflash).output_tokens).all()
    summary = json.loads((tmp_path / "back" / "summary.json").read_text())
    assert len(summary["live"]) == 15 and all(0.5 < x["ratio"] < 2 for x in summary["live"])
    assert all(worst(positions) < 4 for positions in summary["unbiased"].values())
    kept = {p.name: p.read_bytes() for p in traces}
    third = drive(work, out)
    assert third.returncode == 0, third.stderr
    assert {p.name: p.read_bytes() for p in (work / "traces").iterdir()} == kept


@pytest.mark.slow
def test_a_deadline_stops_and_the_next_command_goes_on(tmp_path):
    cut = drive(tmp_path / "w", tmp_path / "o", "--deadline", 2)
    assert cut.returncode == 3 and "run again to go on" in cut.stderr
    assert (tmp_path / "o" / "drafters.tar").is_file()
    assert drive(tmp_path / "w", tmp_path / "o", "--until", "target").returncode == 0


@pytest.mark.parametrize("spec", ["static:3", "static:1"])
def test_recorded_blocks_in_the_live_loop_are_the_replay(spec):
    """Round by round what the trace format says a replay is."""
    target, drafter, prompts, outputs, blocks = recorded("markov", 20)
    passes = RecordedPasses(outputs, blocks, 3)
    choices = RandomChoices(np.random.default_rng(0))
    found = Decoder(
        target, drafter, create(spec, 3), choices, max_new_tokens=30, max_running=4, passes=passes
    ).decode(prompts)
    excess = 0.0
    for request, output, block in zip(found, outputs, blocks, strict=True):
        assert request.tokens == output
        at, counts = 0, []
        while at < len(output) - 1:
            kept = min(int(block.accepted[at]), int(spec[-1]))
            counts.append(kept)
            judged = block.judged[at, : int(spec[-1])]
            excess += kept - block.overlap[at, : int(spec[-1])][judged].sum()
            at += kept + 1
        assert request.accepted == counts
    assert passes.excess.sum() == pytest.approx(excess)


@pytest.mark.parametrize("spec", ["threshold:0.5", "greedy", "topk"])
def test_the_replay_is_live_decoding_at_64_requests_that_cut_drafts(spec):
    """At a step cost at which every scheduler verifies some drafts and not all."""
    target, drafter, prompts, outputs, blocks = recorded("markov", 320)
    options = {
        "max_new_tokens": 30,
        "max_running": 64,
        "step_seconds": lambda requests, drafts: 1.0 + 0.01 * (requests + np.arange(drafts + 1)),
    }
    choices = RandomChoices(np.random.default_rng(9))
    live = Decoder(target, drafter, create(spec, 3), choices, **options).decode(prompts)
    passes = RecordedPasses(outputs, blocks, 3)
    replayed = Decoder(
        target, drafter, create(spec, 3), choices, passes=passes, **options
    ).decode(prompts)  # fmt: skip
    tau, _, pull = accepted(live, 64)
    other, _, other_pull = accepted(replayed, 64)
    ratio_error = np.sqrt(((pull / tau - other_pull / other) ** 2).sum())
    assert abs(tau / other - 1) < 3 * ratio_error < 0.15
    verified = np.mean([n for request in live for n in request.verified])
    assert 0.2 < verified < 2.8


def test_only_steps_at_full_load_count():
    requests = [
        Request([1], accepted=[2, 0, 1], running=[2, 2, 1], inner=3),
        Request([1], accepted=[3, 3], running=[2, 2], inner=1),
    ]
    tau, error, pull = accepted(requests, 2)
    assert tau == pytest.approx(1 + 5 / 3)
    # (2 − 2·5/3) and (3 − 5/3), over three rounds
    assert pull.tolist() == pytest.approx([-4 / 9, 4 / 9])
    assert error == pytest.approx(np.hypot(4 / 9, 4 / 9))


def test_latency_measures_every_part():
    target = tiny_target(2).float()
    drafter, recurrent = (tiny_drafter(target, head).float() for head in ("markov", "rnn"))
    with torch.no_grad():
        parts = _parts(target, drafter, recurrent, 3, 20)
        shapes = {name: run() for name, run in parts.items()}
    assert shapes["backbone"].shape == (3, 3, 16)
    assert shapes["markov loop"].shape == shapes["rnn loop"].shape == (3,)
    assert shapes["verify"].shape == (3, 4, 11)


@pytest.mark.slow
def test_latency_leaves_the_models_of_its_process_alone(tmp_path):
    """In bfloat16, as on a GPU; what follows in the process decodes in float32."""
    done = drive(tmp_path / "w", tmp_path / "o", "--until", "train")
    assert done.returncode == 0, done.stderr
    work = Work(read_settings(tmp_path / "w" / "settings.json"))
    before = {name: part.clone() for name, part in work.target.state_dict().items()}
    assert measure(work, dtype=torch.bfloat16).dtype == "bfloat16"
    for name, part in work.target.state_dict().items():
        assert part.dtype == torch.float32 and torch.equal(part, before[name])
    assert work.drafter("dspark").head.dtype == torch.float32
