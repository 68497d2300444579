"""Outputs that arrive whole or not at all, and inputs that are not what they should be."""

from __future__ import annotations

import errno
import os
import subprocess
import sys

import pytest

from workbench.errors import InputError
from workbench.files import atomic_write, check_outputs, not_a_file, resolve

LONG = "x" * 300


@pytest.fixture
def pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def refusal(call, *args, **options) -> str:
    with pytest.raises(InputError) as caught:
        call(*args, **options)
    assert "\n" not in str(caught.value)
    assert caught.value.mend
    return str(caught.value)


def write(path, data=b"new"):
    with atomic_write(path) as file:
        file.write(data)


def test_a_write_is_whole_or_nothing(tmp_path):
    path = tmp_path / "out"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError), atomic_write(path) as file:
        file.write(b"half")
        raise RuntimeError
    assert path.read_bytes() == b"old"
    write(path)
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG])
@pytest.mark.parametrize("moment", ["write", "replace"])
def test_whatever_the_system_refuses_names_the_file(tmp_path, monkeypatch, code, moment):
    path = tmp_path / "out"
    path.write_bytes(b"old")

    def refuse(*args):
        raise OSError(code, os.strerror(code))

    def body():
        with atomic_write(path) as file:
            file.write(b"half")
            if moment == "write":
                refuse()

    if moment == "replace":
        monkeypatch.setattr(os, "replace", refuse)
    text = refusal(body)
    assert text.startswith(f"{path}: cannot be written ({os.strerror(code)})")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("size", [1, 10_000_000])
def test_a_full_device(size):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full")
    text = refusal(write, "/dev/full", b"x" * size)
    assert text.startswith("/dev/full: cannot be written (No space left on device)")


def test_a_reader_that_has_gone_is_not_bad_input(tmp_path):
    read, wrote = os.pipe()
    os.close(read)
    with pytest.raises(BrokenPipeError):
        write(f"/dev/fd/{wrote}")
    os.close(wrote)


def test_an_open_descriptor_is_written_where_it_stands(tmp_path):
    """As with ``>> file``: neither cut off nor, where /dev/stdout leads to it, replaced."""
    log = tmp_path / "log"
    link = tmp_path / "stdout"
    with log.open("wb") as file:
        link.symlink_to(f"/proc/self/fd/{file.fileno()}")
        file.write(b"before ")
        file.flush()
        write(link)
        file.write(b" after")
    assert log.read_bytes() == b"before new after"
    assert link.is_symlink()


def test_a_link_to_a_file_stays_one(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "file").read_bytes() == b"new"


BAD_OUTPUTS = {
    "": "the file name is empty",
    "folder": "is a folder",
    "new/": "names a folder",
    "nowhere/out": "its folder does not exist",
    "file/out": "its folder does not exist",
    LONG: "cannot be written (File name too long)",
    "zero\0": "is no file name",
    "-": "cannot go to stdout",
    "pipe": "is no regular file",
}


@pytest.mark.parametrize("name", BAD_OUTPUTS)
def test_an_output_that_cannot_be_written_is_refused_beforehand(tmp_path, monkeypatch, pipe, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"old")
    before = sorted(os.listdir(tmp_path))
    text = refusal(check_outputs, {"--json": None, "--plot": name})
    assert BAD_OUTPUTS[name] in text and "--plot" in text
    if name not in ("-", "pipe"):
        assert BAD_OUTPUTS[name] in refusal(write, name)
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_output_without_permission(tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "file").chmod(0o444)
    assert "Permission denied" in refusal(check_outputs, {"--json": tmp_path / "file"})
    tmp_path.chmod(0o555)
    assert "Permission denied" in refusal(check_outputs, {"--json": tmp_path / "new"})


def test_good_outputs_and_streams_pass(tmp_path, monkeypatch, pipe):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old").write_bytes(b"old")
    check_outputs({"--json": "new", "--plot": "old", "--other": None}, ["input", None])
    for stream in ("-", str(pipe), "/dev/null", "/dev/fd/1"):
        check_outputs({"--json": stream}, streams=("--json",))
    check_outputs({"--json": "/dev/null", "--x": "/dev/null"}, streams=("--json", "--x"))


def test_stdout_that_is_closed(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(InputError, match="closed"):
        check_outputs({"--json": "-"}, streams=("--json",))


def test_an_output_that_is_an_input_under_any_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "in"
    source.write_bytes(b"input")
    (tmp_path / "soft").symlink_to("in")
    os.link(source, tmp_path / "hard")
    (tmp_path / "sub").mkdir()
    for name in ("in", "./in", "sub/../in", str(source), "soft", "hard"):
        assert "is read too" in refusal(check_outputs, {"--json": name}, ["other", "in"])


def test_one_file_for_two_outputs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = refusal(check_outputs, {"--json": "out", "--plot": "./out"})
    assert "--plot: is written by --json too" in text
    with pytest.raises(InputError, match="written by --json"):
        check_outputs({"--json": "-", "--table": "-"}, streams=("--json", "--table"))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("", "no file is named"),
        ("folder", "is a folder"),
        ("pipe", "is a pipe; it is read more than once: save it"),
        ("/dev/null", "is a device"),
        (LONG, "cannot be read (File name too long)"),
        ("absent", "no such file here and not among the shipped ones"),
        ("file/in", "no such file here"),
        ("zero\0", "is no file name"),
    ],
)
def test_inputs_that_are_no_files_are_called_what_they_are(tmp_path, monkeypatch, pipe, name, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"")
    assert says in refusal(resolve, name, "profiles", ("", ".json"))


def test_a_folder_does_not_hide_the_file_of_that_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine.json").write_bytes(b"{}")
    assert resolve("mine", "profiles", ("", ".json")).name == "mine.json"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_entered(tmp_path):
    (tmp_path / "shut").mkdir(mode=0)
    assert not_a_file(tmp_path / "shut" / "in") == "cannot be read (Permission denied)"


def test_a_closed_descriptor_is_no_output():
    script = (
        "from workbench.files import check_outputs\n"
        "check_outputs({'--json': '/dev/fd/97'}, streams=('--json',))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "InputError: /dev/fd/97" in done.stderr
