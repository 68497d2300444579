import json
import subprocess
import sys

import numpy as np
import pytest

from tests.profiles.samples import FULL, V4_FLASH, cost, worked_example
from workbench.cli.main import cli, run
from workbench.errors import InputError
from workbench.profiles import StepCost, read_profile
from workbench.profiles.figure import draw_staircase, staircase


def workbench(*args):
    done = subprocess.run(
        [sys.executable, "-m", "workbench.cli.main", *map(str, args)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def full(tmp_path):
    path = tmp_path / "full.json"
    path.write_text(json.dumps(FULL))
    return path


def test_info_is_legible_when_piped(full):
    code, out, err = workbench("profile", "info", full)
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    for words in (
        "worked-example",
        "2 × G, driver 1, 1980 MHz, 700 W",
        "dspark, 5 layers, block of 7",
        "20 repeats, fit error median 1.0%, max 5.0%",
        "absent    nothing",
        "KV cache  600000 tokens",
        "Eager steps past the last graph",
        "Prefill: attention of a chunk",
        "Forward pass of steps with prefill",
    ):
        assert words in out
    row = next(line.split() for line in out.splitlines() if line.split()[:1] == ["1"])
    assert row == ["1", "10.000", "8", "11.000", "90.9", "1.0%"]


def test_info_names_what_is_absent():
    code, out, _ = workbench("profile", "info", V4_FLASH)
    assert code == 0 and "absent    attention, prefill, host: cost nothing" in out
    row = next(
        line.split() for line in out.splitlines() if line.split()[:3] == ["256", "7", "2048"]
    )
    assert row[-2:] == ["109.870", "9.55"]  # 104.49 + 5.38 ms against 11.51


def test_json_on_stdout_and_in_a_file(full, tmp_path, capsys):
    assert run(cli, "workbench", ["profile", "info", str(full), "--json", "-"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["profile"] == FULL
    assert summary["verify"][0] == {
        "batch_tokens": 1,
        "seconds": 0.01,
        "padded": 8,
        "charged_seconds": 0.011,
        "steps_per_second": 1 / 0.011,
        "spread": 0.01,
    }
    example = next(e for e in summary["examples"] if (e["requests"], e["drafts"]) == (1, 7))
    assert example["seconds"] == pytest.approx(sum(example["parts"].values()))
    out = tmp_path / "out.json"
    assert run(cli, "workbench", ["profile", "info", str(full), "--json", str(out)]) == 0
    assert json.loads(out.read_text()) == summary


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "line 1, column 2: not JSON"),
        (json.dumps(FULL | {"verify": {"batch_tokens": [1], "seconds": [0]}}), "verify.seconds[0]"),
    ],
)
def test_bad_input_is_one_line_and_two(tmp_path, content, words):
    path = tmp_path / "bad.json"
    path.write_text(content)
    code, out, err = workbench("profile", "info", path)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err and str(path) in err and "Traceback" not in err


def test_staircase_data_is_what_is_charged():
    steps = cost(worked_example())
    data = staircase(steps)
    assert data.batch_tokens.tolist() == list(range(1, 65))
    assert data.steps_per_second.tolist() == [1 / steps.verify_seconds(b) for b in range(1, 65)]
    assert data.captured.sum() == data.last_captured == 32
    assert data.probe_tokens.tolist() == [1, 8, 16, 32, 48, 64]
    assert data.probe_steps_per_second == pytest.approx(
        1 / np.array([0.010, 0.011, 0.012, 0.016, 0.040, 0.044])
    )
    short = staircase(steps, 10)
    assert len(short.batch_tokens) == 10 and short.probe_tokens.tolist() == [1, 8]
    assert not staircase(cost({**worked_example(), "graphs": None})).captured.any()


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_plot_is_drawn_and_the_same_each_time(tmp_path, suffix):
    data = staircase(StepCost(read_profile(V4_FLASH)))
    first, second = tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}"
    draw_staircase(data, first)
    draw_staircase(data, second)
    assert first.read_bytes() == second.read_bytes()
    assert len(first.read_bytes()) > 5000


def test_plot_needs_a_known_suffix(tmp_path):
    with pytest.raises(InputError, match=r"\.png, \.svg, \.pdf"):
        draw_staircase(staircase(cost(worked_example())), tmp_path / "plot.gif")


def test_plot_from_the_command_line(full, tmp_path, capsys):
    out = tmp_path / "sps.png"
    assert run(cli, "workbench", ["profile", "info", str(full), "--plot", str(out)]) == 0
    assert out.read_bytes().startswith(b"\x89PNG")
    assert "plot written to" in capsys.readouterr().err
    assert run(cli, "workbench", ["profile", "info", str(full), "--plot", str(tmp_path / "x")]) == 2


def test_tables_of_optional_axes_are_shown_one_by_one(tmp_path):
    document = worked_example()
    attention, draft = document["attention"], document["draft"]
    attention |= {"query_tokens": [1, 8], "seconds": [attention["seconds"], [[0, 0.002]] * 2]}
    draft |= {"context_tokens": [16, 512], "seconds": [draft["seconds"], [[0.0123], [0.0456]]]}
    path = tmp_path / "axes.json"
    path.write_text(json.dumps(document))
    code, out, err = workbench("profile", "info", path)
    assert (code, err) == (0, "")
    assert "1 query tokens per request" in out and "8 query tokens per request" in out
    assert "Draft pass at context 16" in out and "45.600" in out
