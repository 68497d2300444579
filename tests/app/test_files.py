"""Uploads: held to the same rules as files on the command line."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest

from app import files
from app.files import Library
from tests.support import random_requests, workbench, write_profile, write_trace
from workbench.errors import InputError
from workbench.traces import read_trace


@pytest.fixture
def good_trace(tmp_path):
    path = tmp_path / "mine.jsonl"
    return write_trace(path, random_requests(np.random.default_rng(1), 4, 3))


def test_an_upload_is_read_as_the_file(good_trace):
    library = Library("traces")
    choice = library.add("mine.jsonl", good_trace.read_bytes())
    assert library.choices()[choice.label] == choice
    np.testing.assert_array_equal(read_trace(choice.path).accepted, read_trace(good_trace).accepted)


def test_the_same_content_is_held_once(good_trace):
    library = Library("traces")
    data = good_trace.read_bytes()
    assert library.add("mine.jsonl", data) is library.add("mine.jsonl", data)


def test_a_bad_upload_says_what_the_command_says(good_trace, tmp_path):
    lines = good_trace.read_text().splitlines()
    lines[2] = lines[2].replace('"output_tokens"', '"tokens_out"')
    bad = tmp_path / "bad.jsonl"
    bad.write_text("\n".join(lines))
    with pytest.raises(InputError) as caught:
        Library("traces").add("bad.jsonl", bad.read_bytes())
    _, _, stderr = workbench("trace", "info", bad)
    assert stderr.strip().endswith(str(caught.value).removeprefix("bad.jsonl: "))
    assert caught.value.file == "bad.jsonl"  # not where the server keeps it


def test_bad_profiles_are_refused(tmp_path):
    path = write_profile(tmp_path / "p.json", batch_tokens=[4, 2], seconds=[0.1, 0.2])
    with pytest.raises(InputError, match="does not come after"):
        Library("profiles").add("p.json", path.read_bytes())
    with pytest.raises(InputError, match="not JSON"):
        Library("profiles").add("p.json", b"import os")


@pytest.mark.parametrize("name", ["../../etc/passwd", "/abs/x.jsonl", "..", "", "a\x00b", "é<x>"])
def test_names_cannot_lead_out_of_the_folder(good_trace, name):
    library = Library("traces")
    choice = library.add(name, good_trace.read_bytes())
    assert choice.path.resolve().is_relative_to(files.Path(library._folder.name).resolve())


def test_size_limits(monkeypatch, good_trace):
    monkeypatch.setattr(files, "MOST_MB", 1)
    with pytest.raises(InputError, match="larger than 1 MB"):
        Library("traces").add("big.jsonl", b" " * ((1 << 20) + 1))
    monkeypatch.setattr(files, "MOST_TEXT_MB", 1)
    bomb = gzip.compress(good_trace.read_bytes() + b"\n" * (2 << 20))
    with pytest.raises(InputError, match="once decompressed"):
        Library("traces").add("bomb.jsonl.gz", bomb)


def test_the_oldest_upload_leaves(monkeypatch, tmp_path):
    monkeypatch.setattr(files, "_KEPT", 2)
    library = Library("profiles")
    made = [
        library.add(f"p{n}.json", write_profile(tmp_path / f"p{n}.json").read_bytes())
        for n in range(3)
    ]
    there = library.choices()
    assert made[0].label not in there and not made[0].path.exists()
    assert made[1].label in there and made[2].label in there


def test_the_usual_files_come_first():
    assert next(iter(Library("traces").choices())) == "chat"
    assert next(iter(Library("profiles").choices())).startswith("h200-qwen3-8b")


def test_unknown_fields_do_no_harm(tmp_path):
    path = write_profile(tmp_path / "p.json", measured={"whole_steps": "surprise"})
    assert json.loads(path.read_text())
    assert Library("profiles").add("p.json", path.read_bytes())
