"""What is read, written and read again is the same, to the byte where it was written before."""

from __future__ import annotations

import dataclasses
import gzip
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.traces.samples import header, request, rounds_request, same, write
from workbench.errors import InputError
from workbench.traces import read_trace, write_trace


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz", "t.jsonl.zst"])
def test_round_trip_keeps_everything(tmp_path, name):
    first = read_trace(
        write(
            tmp_path / "first",
            header(gpu={"name": "H200", "big": 2**70}, temperature=0.7),
            request(domain="code", arrival_s=1 / 3, session="é", note=[1, {"a": 1.10}]),
            request(id="b", output_tokens=1, confidence=[], accepted=[], tokens=[7]),
            request(id="c", domain="", cached_prompt_tokens=3, drafts=[[1, 2, 3]] * 3),
        )
    )
    write_trace(tmp_path / name, first)
    second = read_trace(tmp_path / name)
    assert same(first, second)
    assert second.header.unknown["gpu"]["big"] == 2**70
    assert second.extra[0] == b'"note":[1, {"a": 1.1}]'
    write_trace(tmp_path / f"again.{name}", second)
    assert (tmp_path / f"again.{name}").read_bytes() == (tmp_path / name).read_bytes()


def test_rounds_without_confidence_round_trip(tmp_path):
    first = read_trace(
        write(tmp_path / "a", header(coverage="rounds"), rounds_request(confidence=None))
    )
    write_trace(tmp_path / "b", first)
    assert same(first, read_trace(tmp_path / "b"))
    assert "confidence" not in json.loads((tmp_path / "b").read_bytes().splitlines()[1])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(0, 1, width=32), min_size=3, max_size=3))
def test_every_float32_survives(tmp_path_factory, row):
    folder = tmp_path_factory.getbasetemp()
    line = request(output_tokens=2, confidence=[[0, 0, 0]], accepted=[0])
    trace = read_trace(write(folder / "a", header(), line))
    trace = dataclasses.replace(trace, confidence=np.array([row], np.float32))
    write_trace(folder / "b", trace)
    assert same(trace, read_trace(folder / "b"))


def test_four_decimals_are_written_as_four_decimals(tmp_path):
    every = (np.arange(10_001) / 10_000).astype(np.float32).reshape(-1, 73)
    rows = every.tolist()
    line = request(output_tokens=len(rows) + 1, confidence=rows, accepted=[0] * len(rows))
    write_trace(tmp_path / "b", read_trace(write(tmp_path / "a", header(block_size=73), line)))
    text = json.loads((tmp_path / "b").read_bytes().splitlines()[1], parse_float=str)
    assert max(len(c) for row in text["confidence"] for c in row) == len("0.1234")


def test_gzip_has_no_time_and_the_same_trace_gives_the_same_bytes(tmp_path):
    trace = read_trace(write(tmp_path / "a", header(), request()))
    write_trace(tmp_path / "b.gz", trace)
    write_trace(tmp_path / "c.gz", trace)
    data = (tmp_path / "b.gz").read_bytes()
    assert data == (tmp_path / "c.gz").read_bytes()
    assert data[4:8] == b"\0\0\0\0" and gzip.decompress(data).startswith(b'{"format"')


def test_writing_into_no_folder_is_an_input_error(tmp_path):
    trace = read_trace(write(tmp_path / "a", header(), request()))
    with pytest.raises(InputError, match="folder does not exist"):
        write_trace(tmp_path / "no" / "b", trace)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["math", "code", "chat", "math-dflash", "code-dflash"])
def test_shipped_traces_round_trip(tmp_path, name):
    first = read_trace(name)
    write_trace(tmp_path / "t.jsonl", first)
    assert same(first, read_trace(tmp_path / "t.jsonl"))
