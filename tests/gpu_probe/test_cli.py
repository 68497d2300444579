import json
import subprocess
import sys

import pytest
import torch

from gpu_probe import cli
from gpu_probe.profile import Run
from workbench.profiles.reader import read_profile

TINY = ["--device", "cpu", "--model", "tiny", "--repeats", "3"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("probe") / "tiny.json"
    command = [sys.executable, "-m", "gpu_probe", *TINY, "--out", str(out)]
    return out, subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_a_cpu_run_ends_with_a_profile_and_a_short_table(run):
    out, done = run
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("tiny: cpu, 3 repeats")
    assert len(done.stdout.splitlines()) < 25
    assert "verify done" in done.stderr
    document = json.loads(out.read_text())
    assert document["format"] == "workbench.profile/1"
    assert document["measured"]["complete"] is True
    assert len(document["measured"]["spread"]) == len(document["verify"]["seconds"])
    assert str(out.parent) not in out.read_text()


def test_tables_are_full_matrices_of_sane_seconds(run):
    document = json.loads(run[0].read_text())
    for name, rows, columns in (
        ("attention", "requests", "context_tokens"),
        ("prefill", "chunk_tokens", "context_tokens"),
        ("draft", "requests", "tokens"),
    ):
        part = document[name]
        assert len(part["seconds"]) == len(part[rows])
        for row in part["seconds"]:
            assert len(row) == len(part[columns]) and min(row) >= 0
    assert min(document["verify"]["seconds"]) > 0
    assert [row[0] for row in document["attention"]["seconds"]] == [0.0, 0.0]
    assert set(document["graphs"]["batch_tokens"]) <= set(document["verify"]["batch_tokens"])


def test_the_workbench_reads_it(run):
    assert read_profile(run[0]).name == "tiny"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--model", "gpt-9"], "no model 'gpt-9'; there are qwen3-8b, tiny"),
        (["--drafter", "eagle"], "no drafter 'eagle'"),
        (["--repeats", "1"], "--repeats: 1 is too few"),
        (["--block-size", "0"], "--block-size: 0"),
        (["--out", "nowhere/x.json"], "is no file in an existing folder"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, said, capsys, tmp_path):
    assert cli.main([*TINY, "--out", str(tmp_path / "x.json"), *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1 and error.startswith("gpu-probe: ")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu_is_said_in_one_line(capsys, tmp_path):
    assert cli.main(["--out", str(tmp_path / "x.json")]) == 2
    assert "no NVIDIA GPU is visible" in capsys.readouterr().err
    assert not (tmp_path / "x.json").exists()


def test_an_interrupt_keeps_the_parts_that_were_done(monkeypatch, capsys, tmp_path):
    def interrupt(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(Run, "draft", interrupt)
    out = tmp_path / "x.json"
    assert cli.main([*TINY, "--out", str(out)]) == 130
    document = json.loads(out.read_text())
    assert "attention" in document and "draft" not in document
    assert document["measured"]["complete"] is False
    assert "x.json holds the parts that were done" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["x.json"]
