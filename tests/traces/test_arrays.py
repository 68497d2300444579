"""The fast and the exact decoder must agree on what is valid and on every value."""

from __future__ import annotations

import json
from unittest import mock

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.traces.samples import header, rounds_request, same, write
from workbench.errors import InputError
from workbench.traces import read_trace
from workbench.traces.arrays import NumberArray

simdjson = pytest.importorskip("simdjson")
MATRIX = NumberArray(np.float32, 0.0, 1.0, width=3)
COLUMN = NumberArray(np.float32, 0.0, 1.0, width=1)
COUNTS = NumberArray(np.uint8, 0, 7)

numbers = st.one_of(
    st.floats(0, 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-2, 9),
    st.sampled_from([0.0, -0.0, 1, 1e-320, 2**63, 2**64, 1e308]),
)
values = st.recursive(
    st.one_of(numbers, st.booleans(), st.none(), st.text(max_size=3)),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=8,
)
texts = st.one_of(
    st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), max_size=4).map(json.dumps),
    st.lists(st.integers(0, 7), max_size=6).map(json.dumps),
    st.lists(values, max_size=4).map(json.dumps),
    st.text(alphabet="[],01.5e-+E \t7", max_size=14),
)


@st.composite
def mutated(draw):
    """A JSON text with a few of its characters replaced, removed or doubled."""
    text = list(draw(texts))
    for _ in range(draw(st.integers(0, 3))):
        if not text:
            break
        i = draw(st.integers(0, len(text) - 1))
        text[i] = draw(st.sampled_from(["", text[i] * 2, *'[],0159.e-+ nN"t']))
    return "".join(text).encode()


def agree(array: NumberArray, text: bytes) -> None:
    fast = array._fast(text)
    if fast is None:  # not accepted: the exact decoder alone decides
        return
    exact = array.exact(text)
    assert fast.dtype == exact.dtype and fast.shape == exact.shape
    assert np.array_equal(fast, exact)


@settings(max_examples=1500, deadline=None)
@given(mutated())
@example(b"[[]]")
@example(b"[[1],[]]")
@example(b"[[1,2],[3,4,5,6]]")
@example(b"[[0,1,1],[1 0,1,]]")
@example(b"[1-]")
@example(b"[01]")
@example(b"[[1,1,1]][")
@example(b"][1,1")
def test_what_the_fast_decoder_accepts_the_exact_one_accepts_alike(text):
    for array in (MATRIX, COLUMN, COUNTS):
        agree(array, text)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=1))
def test_valid_matrices_take_the_fast_path_and_keep_their_values(rows):
    fast = MATRIX._fast(json.dumps(rows).encode())
    assert fast is not None
    assert np.array_equal(fast, np.array(rows, np.float32))


@given(st.lists(st.integers(0, 7), min_size=1))
def test_valid_counts_take_the_fast_path(counts):
    assert COUNTS._fast(json.dumps(counts).encode()).tolist() == counts


def test_empty_arrays_keep_their_shape():
    assert MATRIX.decode(b"[]").shape == (0, 3)
    assert COUNTS.decode(b" [ ] ").shape == (0,)


def test_the_parser_survives_a_refused_text():
    for text in (b"[[1,1,2]]", b"[[1,1", b"[[1,1,1e999]]"):
        with pytest.raises(msgspec.DecodeError):
            MATRIX.decode(text)
    assert MATRIX.decode(b"[[1,0,1]]").tolist() == [[1, 0, 1]]


def test_without_simdjson_the_exact_decoder_does_everything(monkeypatch):
    monkeypatch.setattr("workbench.traces.arrays.simdjson", None)
    array = NumberArray(np.float32, 0.0, 1.0, width=2)
    assert array.decode(b"[[0.5,1]]").tolist() == [[0.5, 1.0]]


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_files_read_alike_with_and_without_simdjson(tmp_path_factory, data):
    text = list(json.dumps(rounds_request(note={"a": [1]})))
    for _ in range(data.draw(st.integers(0, 3))):
        i = data.draw(st.integers(0, len(text) - 1))
        text[i] = data.draw(st.sampled_from(["", text[i] * 2, *'[],0159.e-+ "{}:']))
    line = "".join(text).encode()
    path = write(tmp_path_factory.getbasetemp() / "mutated", header(coverage="rounds"), line)
    results = []
    for library in (simdjson, None):
        with mock.patch("workbench.traces.arrays.simdjson", library):
            try:
                results.append(read_trace(path))
            except InputError as error:
                results.append(str(error))
    fast, exact = results
    assert fast == exact if isinstance(fast, str) else same(fast, exact)
