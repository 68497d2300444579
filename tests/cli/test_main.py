"""Whatever happens to the streams, the memory or the user's patience: one line, no traceback."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time

import click
import pytest

from tests.support import workbench
from workbench.cli.console import make_console, write_json
from workbench.cli.main import run
from workbench.errors import InputError

COMMANDS = [
    ["--help"],
    ["profile", "info"],
    ["profile", "info", "--json", "-"],
    ["trace", "info", "chat"],
    ["trace", "info", "chat", "--json", "-"],
    ["trace", "synth", "--preset", "list"],
    ["audit", "--scheduler", "none"],
]
NAMES = [" ".join(command) for command in COMMANDS]


def shell(command: list[str], redirection: str) -> subprocess.CompletedProcess:
    """The command under bash; the exit code is its own, whatever it is piped into."""
    words = " ".join([sys.executable, "-m", "workbench.cli.main", *command])
    return subprocess.run(
        ["bash", "-c", f"{words} {redirection}; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("command", COMMANDS, ids=NAMES)
def test_a_reader_that_has_gone_is_no_error(command):
    for reader in ("| true", "| head -1"):
        done = shell(command, reader)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.parametrize("command", COMMANDS, ids=NAMES)
def test_a_full_stdout_is_one_line(command):
    done = shell(command, "> /dev/full")
    assert done.returncode == 2
    assert done.stderr == "workbench: the output: No space left on device\n"


@pytest.mark.parametrize("command", COMMANDS, ids=NAMES)
def test_a_closed_stdout(command):
    done = shell(command, ">&-")
    if command[-1] == "-":  # what was asked for cannot be had
        assert done.returncode == 2
        assert done.stderr == (
            "workbench: -: --json: is stdout, which is closed; name a file in an existing folder\n"
        )
    else:
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full", ">&- 2>&-"])
def test_a_closed_or_full_stderr_keeps_the_exit_code(redirection):
    assert shell(["profile", "info", "nope"], redirection).returncode == 2
    assert shell(["profile", "info"], redirection).returncode == 0
    assert shell(["audit", "--scheduler", "none"], redirection).returncode == 0


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (InputError("is bad", file="f", mend="mend it"), 2, "f: is bad; mend it"),
        (MemoryError(), 2, "not enough memory; lower the sizes asked for"),
        (MemoryError("Unable to allocate 3 TiB"), 2, "(Unable to allocate 3 TiB); lower"),
        (RecursionError("maximum depth"), 2, "nested too deeply (maximum depth)"),
        (OSError(28, "No space left on device"), 2, "the output: No space left on device"),
        (OSError(13, "Permission denied", "f"), 2, "f: Permission denied"),
        (UnicodeEncodeError("ascii", "aγb", 1, 2, ""), 2, "'\\u03b3' cannot be written as ascii"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (click.Abort(), 130, "interrupted"),
        (click.UsageError("two\nlines"), 2, "two lines"),
        (click.exceptions.Exit(7), 7, ""),
    ],
)
def test_every_ending_is_at_most_one_line(capsys, error, code, says):
    @click.command()
    def command():
        raise error

    assert run(command, "workbench", []) == code
    out, err = capsys.readouterr()
    assert says in err and out == ""
    assert err.count("\n") == (1 if says else 0)
    assert not says or err.startswith("workbench")


def test_a_fault_of_the_program_itself_is_not_hidden():
    @click.command()
    def command():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(command, "workbench", [])


def test_names_that_no_encoding_has(tmp_path):
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-m", "workbench.cli.main", "trace", "info", "chat"],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "cannot be written as ascii" in done.stderr
    file = tmp_path / os.fsdecode(b"t\xff.jsonl")
    options = ["--conditional", "0.5", "--domain", os.fsdecode(b"\xff")]
    done = subprocess.run(
        [sys.executable, "-m", "workbench.cli.main", "trace", "synth", file, *options],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert os.listdir(tmp_path) == []


def test_ctrl_c_while_modules_are_loaded(tmp_path):
    """The module of a command is slow to load here: the interrupt arrives inside the import."""
    (tmp_path / "slow.py").write_text("print('loading', flush=True)\nimport time; time.sleep(30)")
    script = (
        "from workbench.cli.main import COMMANDS, main\nCOMMANDS['audit'] = ('slow', '')\nmain()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, "audit"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])},
    )
    assert process.stdout.readline() == "loading\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (130, "workbench: interrupted\n")


def test_ctrl_c_while_the_entry_point_itself_is_loaded(tmp_path):
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt")
    done = subprocess.run(
        [sys.executable, "-c", "import workbench.cli.main"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])},
    )
    assert (done.returncode, done.stderr) == (130, "workbench: interrupted\n")


def test_no_command_shows_the_help_and_an_unknown_one_the_commands():
    code, out, _ = workbench()
    assert code == 2 and "simulate" in out
    code, out, err = workbench("bogus")
    assert (code, out) == (2, "") and "no command 'bogus'; there are simulate" in err


def test_the_console_prints_names_as_they_are(monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    make_console().print("[/bold] :smile: " + "x" * 120)
    assert out.getvalue() == "[/bold] :smile: " + "x" * 120 + "\n"
    monkeypatch.setattr(sys, "stdout", None)
    make_console().print("nothing")


def test_json_goes_to_a_file_or_to_stdout(tmp_path, capsys):
    write_json("-", {"a": float("nan")})
    text = capsys.readouterr().out
    assert text == '{\n "a": null\n}\n'
    write_json(tmp_path / "out", {"a": float("nan")})
    assert (tmp_path / "out").read_text() == text


OUTPUTS = {
    "trace info": (["trace", "info", "chat"], "--json"),
    "profile info": (["profile", "info"], "--json"),
    "profile plot": (["profile", "info"], "--plot"),
    "audit": (["audit", "--scheduler", "no-such-scheduler"], "--json"),
    "synth": (["trace", "synth", "--conditional", "9"], None),
}


@pytest.mark.parametrize("case", OUTPUTS)
def test_outputs_are_refused_before_anything_is_done(tmp_path, case):
    """The output's fault is said even where the rest of the command is wrong too."""
    command, option = OUTPUTS[case]
    for path in (tmp_path / "nowhere" / "out.png", tmp_path, ""):
        code, out, err = workbench(*command, *([option] if option else []), path)
        assert (code, out) == (2, "") and err.count("\n") == 1
        assert (option or "OUT") in err, err


def test_an_input_is_never_overwritten(tmp_path):
    workbench("trace", "synth", tmp_path / "t.jsonl", "--conditional", "0.5", "--requests", "2")
    (tmp_path / "p.json").write_text(
        '{"format": "workbench.profile/1", "name": "p",'
        ' "verify": {"batch_tokens": [1], "seconds": [1]}}'
    )
    (tmp_path / "s.py").write_text("")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for command, output in (
        (["trace", "info", tmp_path / "t"], "t.jsonl"),
        (["profile", "info", tmp_path / "p"], "p.json"),
        (["audit", "--scheduler", f"{tmp_path}/s.py:Mine"], "s.py"),
    ):
        code, out, err = workbench(*command, "--json", tmp_path / output)
        assert (code, out) == (2, "") and "is read too" in err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_json_to_stdout_is_json_alone():
    for command in (
        ["audit", "--scheduler", "none"],
        ["profile", "info"],
        ["trace", "info", "chat"],
    ):
        code, out, err = workbench(*command, "--json", "-")
        assert (code, err) == (0, "") and json.loads(out)["format"].startswith("workbench.")


def test_a_synthetic_trace_to_stdout(tmp_path):
    file = tmp_path / "t.jsonl"
    options = ["--conditional", "0.5", "--requests", "2"]
    workbench("trace", "synth", file, *options)
    for name in ("-", "/dev/fd/1"):
        done = shell(["trace", "synth", name, *options], f"> {tmp_path}/out")
        assert done.returncode == 0 and "2 synthetic requests" in done.stderr
        assert (tmp_path / "out").read_bytes() == file.read_bytes()
