"""What a valid trace becomes, and what every kind of invalid one is told."""

from __future__ import annotations

import json
import tracemalloc

import numpy as np
import pytest

from tests.traces.samples import header, request, rounds_request, write
from workbench.errors import InputError
from workbench.traces import read_trace


def test_dense_trace_becomes_flat_arrays(tmp_path):
    path = write(
        tmp_path / "t.jsonl",
        header(drafter="D", gpu={"name": "H200"}),
        request(domain="code", arrival_s=1.5, session="s", cached_prompt_tokens=2, note=[1]),
        request(id="b", output_tokens=1, confidence=[], accepted=[]),
        request(id="c", tokens=[1, 2, 3, 4], verified="not of a dense trace"),
    )
    trace = read_trace(path)
    assert (trace.header.block_size, trace.header.confidence_sees) == (3, "prefix")
    assert trace.header.unknown == {"gpu": {"name": "H200"}}
    assert trace.ids == ["a", "b", "c"]
    assert [trace.domain_names[d] for d in trace.domain] == ["code", "chat", "chat"]
    assert trace.output_tokens.tolist() == [4, 1, 4]
    assert trace.arrival_s[0] == 1.5 and np.isnan(trace.arrival_s[1:]).all()
    assert trace.session == ["s", None, None]
    assert trace.cached_prompt_tokens.tolist() == [2, 0, 0]
    assert trace.row_start.tolist() == [0, 3, 3, 6]
    assert trace.accepted.tolist() == [3, 0, 1, 3, 0, 1]
    assert trace.confidence.tolist()[1] == [np.float32(0.8), 0, 1]
    assert trace.verified is None
    assert trace.extra[0] == b'"note":[1]' and trace.extra[1] == b""
    dtypes = [trace.domain.dtype, trace.prompt_tokens.dtype, trace.accepted.dtype]
    assert dtypes == [np.int16, np.int32, np.uint8]
    with pytest.raises(ValueError, match="read-only"):
        trace.accepted[0] = 1


def test_rounds_trace_without_confidence(tmp_path):
    path = write(tmp_path / "t", header(coverage="rounds"), rounds_request(confidence=None))
    trace = read_trace(path)
    assert trace.confidence is None
    assert trace.verified.tolist() == [1, 2, 3]
    assert trace.row_anchor().tolist() == [0, 2, 3]


def test_wide_blocks_are_counted_in_16_bits(tmp_path):
    row = [1.0] * 300
    path = write(
        tmp_path / "t",
        header(block_size=300),
        request(output_tokens=2, confidence=[row], accepted=[299]),
    )
    trace = read_trace(path)
    assert trace.accepted.dtype == np.uint16 and trace.accepted.tolist() == [299]


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".jsonl.zst"])
def test_compression_is_recognised_by_content_and_suffix_may_be_left_out(
    tmp_path, monkeypatch, suffix
):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / f"t{suffix}", header(), request())
    assert read_trace("t").ids == ["a"]
    (tmp_path / f"t{suffix}").rename("u.log")
    assert read_trace("u.log").ids == ["a"]


def test_blank_lines_crlf_and_spaces_are_harmless(tmp_path):
    lines = [json.dumps(o, indent=None, separators=(" , ", " : ")) for o in (header(), request())]
    (tmp_path / "t").write_bytes("\r\n".join([*lines, "", "  ", ""]).encode())
    assert read_trace(tmp_path / "t").accepted.tolist() == [3, 0, 1]


def test_null_means_absent_in_optional_fields(tmp_path):
    line = request() | {"confidence": None, "arrival_s": None, "session": None, "domain": None}
    trace = read_trace(write(tmp_path / "t", header(), line))
    assert trace.confidence is None and trace.session is None and np.isnan(trace.arrival_s[0])


C = request()["confidence"]
BAD_REQUESTS = [  # fields, place, a word of the problem
    ({"id": None}, "line 2, id", "missing"),
    ({"id": 7}, "line 2, id", "expected `str`"),
    ({"prompt_tokens": None}, "line 2, prompt_tokens", "missing"),
    ({"prompt_tokens": 0}, "line 2, prompt_tokens", ">= 1"),
    ({"prompt_tokens": True}, "line 2, prompt_tokens", "got `bool`"),
    ({"prompt_tokens": 5.0}, "line 2, prompt_tokens", "got `float`"),
    ({"prompt_tokens": 2**31}, "line 2, prompt_tokens", "<= 2147483647"),
    ({"output_tokens": 0}, "line 2, output_tokens", ">= 1"),
    ({"output_tokens": None}, "line 2, output_tokens", "missing"),
    ({"output_tokens": 9}, "line 2, accepted", "needs 8"),
    ({"domain": 3}, "line 2, domain", "`str"),
    ({"arrival_s": -0.5}, "line 2, arrival_s", ">= 0"),
    ({"arrival_s": "0"}, "line 2, arrival_s", "got `str`"),
    ({"session": 1}, "line 2, session", "`str"),
    ({"cached_prompt_tokens": -1}, "line 2, cached_prompt_tokens", ">= 0"),
    ({"cached_prompt_tokens": 6}, "line 2, cached_prompt_tokens", "more than prompt_tokens"),
    ({"accepted": None}, "line 2, accepted", "missing"),
    ({"accepted": 3}, "line 2, accepted", "expected `array`"),
    ({"accepted": [3, 4, 1]}, "line 2, accepted[1]", "<= 3"),
    ({"accepted": [3, -1, 1]}, "line 2, accepted[1]", ">= 0"),
    ({"accepted": [3, 1.0, 1]}, "line 2, accepted[1]", "got `float`"),
    ({"accepted": [3, False, 1]}, "line 2, accepted[1]", "got `bool`"),
    ({"accepted": [3, [1], 1]}, "line 2, accepted[1]", "got `array`"),
    ({"confidence": C[:2]}, "line 2, confidence", "has 2 rows"),
    ({"confidence": []}, "line 2, confidence", "has 0 rows"),
    ({"confidence": [C[0], C[1][:2], C[2]]}, "line 2, confidence[1]", "length >= 3; block_size"),
    (
        {"confidence": [C[0], [*C[1], 0.5], C[2][:2]]},
        "line 2, confidence[1]",
        "length <= 3; block_size",
    ),
    ({"confidence": [C[0], [0.1, 0.2, 1.0001], C[2]]}, "line 2, confidence[1][2]", "<= 1.0"),
    ({"confidence": [C[0], [0.1, -1e-9, 1], C[2]]}, "line 2, confidence[1][1]", ">= 0.0"),
    ({"confidence": [C[0], [0.1, "0.2", 1], C[2]]}, "line 2, confidence[1][1]", "got `str`"),
    ({"confidence": [C[0], [0.1, None, 1], C[2]]}, "line 2, confidence[1][1]", "got `null`"),
    ({"confidence": [C[0], [0.1, True, 1], C[2]]}, "line 2, confidence[1][1]", "got `bool`"),
    ({"confidence": [C[0], float("nan"), C[2]]}, "line 2, confidence[1]", "NaN"),
    ({"confidence": [C[0], [0, 1, float("inf")], C[2]]}, "line 2, confidence[1][2]", "Infinity"),
    ({"arrival_s": float("nan")}, "line 2, arrival_s", "NaN"),
    ({"arrival_s": 1.1e12}, "line 2, arrival_s", "give a number of at most 1000000000000.0"),
    ({"prompt_tokens": 2**64}, "line 2, prompt_tokens", "expected `int` <="),
    ({"accepted": [3, 2**63, 1]}, "line 2, accepted[1]", "<= 3; block_size"),
    ({"accepted": [3, 2**64, 1]}, "line 2, accepted[1]", "<= 3; block_size"),
    ({"accepted": [3, -(2**64), 1]}, "line 2, accepted[1]", ">= 0"),
    ({"accepted": [3, 10**400, 1]}, "line 2, accepted[1]", "<= 3; block_size"),
    ({"confidence": [C[0], [0, 2**64, 1], C[2]]}, "line 2, confidence[1][1]", "<= 1.0; give a"),
    ({"confidence": [C[0], [0, 10**400, 1], C[2]]}, "line 2, confidence[1][1]", "out of range"),
    ({"domain": 3}, "line 2, domain", "give text in quotes or null"),
    ({"prompt_tokens": 5.0}, "line 2, prompt_tokens", "give a whole number"),
]
BAD_ROUNDS = [
    ({"verified": None}, "line 2, verified", "missing"),
    ({"verified": [1, 2]}, "line 2, verified", "has 2 rows"),
    ({"verified": [1, 2, 2**64]}, "line 2, verified[2]", "<= 3; block_size"),
    ({"verified": [1, 2, 4]}, "line 2, verified[2]", "<= 3"),
    ({"verified": [1, 2, 1]}, "line 2, accepted[2]", "2 is more than verified 1"),
    ({"output_tokens": 8}, "line 2, accepted", "reach 7 tokens"),
    ({"output_tokens": 4}, "line 2, accepted[2]", "starts after 3 + 1 tokens"),
    ({"output_tokens": 1}, "line 2, accepted[0]", "starts after 0 + 1 tokens"),
    ({"accepted": [], "verified": [], "confidence": []}, "line 2, accepted", "reach 1 tokens"),
]


def _refused(path, place, problem):
    with pytest.raises(InputError) as error:
        read_trace(path)
    text = str(error.value)
    assert error.value.file == str(path) and error.value.place == place
    assert problem in text and "\n" not in text
    assert error.value.mend


@pytest.mark.parametrize(("fields", "place", "problem"), BAD_REQUESTS)
def test_bad_request_names_line_and_field(tmp_path, fields, place, problem):
    _refused(write(tmp_path / "t", header(), request(**fields)), place, problem)


@pytest.mark.parametrize(("fields", "place", "problem"), BAD_ROUNDS)
def test_bad_rounds_name_line_and_field(tmp_path, fields, place, problem):
    path = write(tmp_path / "t", header(coverage="rounds"), rounds_request(**fields))
    _refused(path, place, problem)


def test_the_last_round_may_reach_past_the_end(tmp_path):
    for output in (5, 6, 7):
        line = rounds_request(output_tokens=output)
        assert read_trace(write(tmp_path / "t", header(coverage="rounds"), line)).rows == 3


@pytest.mark.parametrize(
    ("fields", "place", "problem"),
    [
        ({"format": "workbench.trace/2"}, "line 1, format", "workbench.trace/2"),
        ({"coverage": "sparse"}, "line 1, coverage", "sparse'; write dense or rounds"),
        ({"block_size": 10**30}, "line 1, block_size", "<= 65535"),
        ({"block_size": 0}, "line 1, block_size", ">= 1"),
        ({"block_size": True}, "line 1, block_size", "bool"),
        ({"block_size": "7"}, "line 1, block_size", "str"),
        ({"temperature": -1}, "line 1, temperature", ">= 0"),
        ({"confidence_sees": "all"}, "line 1, confidence_sees", "all"),
        ({"target": 1}, "line 1, target", "str"),
        ({"temperature": float("nan")}, "line 1, temperature", "NaN"),
    ],
)
def test_bad_header(tmp_path, fields, place, problem):
    _refused(write(tmp_path / "t", header(**fields), request()), place, problem)


@pytest.mark.parametrize("field", ["format", "coverage", "block_size"])
def test_header_field_missing(tmp_path, field):
    fields = header()
    del fields[field]
    with pytest.raises(InputError, match=rf"line 1.*{field}|line 1.*missing"):
        read_trace(write(tmp_path / "t", fields, request()))


@pytest.mark.parametrize(
    ("lines", "place", "problem"),
    [
        ([], None, "empty"),
        ([b""], "line 1", "not JSON"),
        ([header()], None, "no requests"),
        ([header(), b"{"], "line 2", "not JSON"),
        ([header(), request(), b"[1]"], "line 3", "not a JSON object"),
        ([header(), b'{"id":"\xff"}'], "line 2", "not UTF-8"),
        ([b"\x00\x01\xfe"], "line 1", "not UTF-8"),
        ([header(), b'{"id":"\\ud800"}'], "line 2", "not JSON"),
        ([header(), b'{"id":' + b"[" * 200_000], "line 2", "nested too deeply"),
        ([header(), request(), request(id="b"), request()], "line 4, id", "line 2"),
        ([header(), request(), b"", request(confidence=None, id="b")], "line 4, confidence", "is"),
        ([header(), request(confidence=None), request(id="b")], "line 3, confidence", "present"),
    ],
)
def test_bad_file(tmp_path, lines, place, problem):
    _refused(write(tmp_path / "t", *lines), place, problem)


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
@pytest.mark.parametrize("keep", [-1, -9, 0.5, 12])
def test_cut_compressed_file(tmp_path, suffix, keep):
    many = (request(id=str(i), arrival_s=i / 7) for i in range(500))
    path = write(tmp_path / f"t{suffix}", header(), *many)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep) if keep == 0.5 else keep])
    with pytest.raises(InputError, match="damaged or cut short"):
        read_trace(path)


def test_damaged_gzip(tmp_path):
    path = write(tmp_path / "t.gz", header(), *(request(id=str(i)) for i in range(500)))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(InputError):
        read_trace(path)


def test_compressed_members_may_follow_each_other(tmp_path):
    for suffix in (".gz", ".zst"):
        first = write(tmp_path / f"a{suffix}", header(), request()).read_bytes()
        second = write(tmp_path / f"b{suffix}", request(id="b")).read_bytes()
        (tmp_path / "both").write_bytes(first + second)
        assert read_trace(tmp_path / "both").ids == ["a", "b"]


def _line(**fields) -> bytes:
    return json.dumps(request(**fields)).encode()


REPEATED = [
    (b'{"id":"a",' + _line()[1:], "id"),
    (_line()[:-1] + b',"prompt_tokens":9}', "prompt_tokens"),
    (_line()[:-1] + b', "accepted": [0, 0, 0]}', "accepted"),
    (_line(note=1)[:-1] + b' , "note" :2 }', "note"),
    (json.dumps(request(), separators=(",", ":")).encode()[:-1] + b',"x":1,"x":1}', "x"),
    (json.dumps(request(), indent=3).replace("\n", " ").encode()[:-1] + b', "id": "b"}', "id"),
]


@pytest.mark.parametrize(("line", "field"), REPEATED)
def test_a_field_given_twice_is_refused(tmp_path, line, field):
    path = write(tmp_path / "t", header(), line)
    _refused(path, f"line 2, {field}", "appears twice in the line; keep one")


def test_a_header_field_given_twice_is_refused(tmp_path):
    line = json.dumps(header()).encode()[:-1] + b', "block_size": 3}'
    _refused(write(tmp_path / "t", line, request()), "line 1, block_size", "appears twice")


def test_no_way_of_writing_one_object_looks_like_a_repetition(tmp_path):
    """Spaces, escapes and inner objects with the same names; and what is not read."""
    odd = request(note={"id": 1, "note": {"id": 2}}, **{"ä\n": "id", "": {}})
    for options in ({"separators": (",", ":")}, {}, {"indent": 2}, {"ensure_ascii": False}):
        text = json.dumps(odd, **options).replace("\n ", " ").replace("\n}", "}")
        path = write(tmp_path / "t", header(), b"  " + text.encode() + b" ")
        assert read_trace(path).ids == ["a"]


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".jsonl.zst"])
def test_a_byte_order_mark_is_harmless(tmp_path, suffix):
    line = b"\xef\xbb\xbf" + json.dumps(header()).encode()
    path = write(tmp_path / f"t{suffix}", line, request())
    assert read_trace(path).ids == ["a"]
    marked = b"\xef\xbb\xbf" + json.dumps(request()).encode()
    _refused(write(tmp_path / "u", header(), marked), "line 2", "not JSON")


def test_missing_file_lists_the_shipped_ones():
    with pytest.raises(InputError, match=r"shipped traces: .*chat\.jsonl\.gz"):
        read_trace("no-such-trace")


def test_reading_holds_arrays_not_python_objects(tmp_path):
    rows = 2000
    line = request(
        output_tokens=rows + 1, confidence=[[0.5, 0.25, 0.125]] * rows, accepted=[1] * rows
    )
    path = write(tmp_path / "t", header(), *(line | {"id": str(i)} for i in range(50)))
    tracemalloc.start()
    trace = read_trace(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    arrays = trace.confidence.nbytes + trace.accepted.nbytes
    assert trace.rows == 100_000
    assert peak < 2 * arrays + 2_000_000  # the pieces and their concatenation, and one line
