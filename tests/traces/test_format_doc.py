"""docs/trace-format.md: its examples are valid traces, its tables name the fields there are."""

import json
import re
from pathlib import Path

import msgspec
import numpy as np
import pytest

from workbench.errors import InputError
from workbench.traces import fill_gaps, read_trace, trace_statistics
from workbench.traces.model import HeaderFields

DOC = (Path(__file__).parents[2] / "docs" / "trace-format.md").read_text(encoding="utf-8")


def example(folder: Path, coverage: str) -> Path:
    (text,) = re.findall(rf"<!-- example {coverage} -->\n```json\n(.*?)```", DOC, re.DOTALL)
    path = folder / f"{coverage}.jsonl"
    path.write_text(text, encoding="utf-8")
    return path


def table(section: str) -> dict[str, list[str]]:
    """Cells after the first of each row of the table under a heading, by field."""
    text = DOC.split(f"## {section}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| `")]
    return {cells[0].strip(" `"): [cell.strip() for cell in cells[1:]] for cells in rows}


def test_the_dense_example(tmp_path):
    path = example(tmp_path, "dense")
    assert len(path.read_text(encoding="utf-8").splitlines()) == 3
    trace = read_trace(path)
    assert (trace.header.coverage, trace.ids) == ("dense", ["chat-1", "code-1"])
    assert trace.row_start.tolist() == [0, 4, 6]
    assert trace.accepted.tolist() == [3, 0, 1, 0, 1, 0]
    assert [trace.domain_names[code] for code in trace.domain] == ["chat", "code"]
    assert trace.session == [None, "user-7"]
    assert trace.confidence.shape == (6, 3)


def test_the_rounds_example(tmp_path):
    path = example(tmp_path, "rounds")
    assert len(path.read_text(encoding="utf-8").splitlines()) == 3
    trace = read_trace(path)
    assert trace.header.coverage == "rounds"
    assert trace.row_anchor().tolist() == [0, 2, 3, 0]
    dense = fill_gaps(trace, np.random.default_rng(0))
    assert np.diff(dense.trace.row_start).tolist() == [6, 2]
    # only the round that verified one draft and kept it hides what would have come next
    assert dense.outcome_drawn.tolist() == [True, True, False, False, False, False, False, False]
    assert dense.confidence_borrowed.tolist() == [
        False,
        True,
        False,
        False,
        True,
        True,
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("coverage", "field"),
    [("dense", name) for name in ("id", "prompt_tokens", "output_tokens", "accepted")]
    + [("rounds", "verified")],
)
def test_required_fields_are_required(tmp_path, coverage, field):
    path = example(tmp_path, coverage)
    assert table("Request")[field][1] == ("for `rounds`" if field == "verified" else "yes")
    header, first, second = path.read_text(encoding="utf-8").splitlines()
    request = json.loads(second)
    del request[field]
    path.write_text("\n".join([header, first, json.dumps(request)]), encoding="utf-8")
    with pytest.raises(InputError, match=f"line 3, {field}: required field is missing"):
        read_trace(path)


@pytest.mark.parametrize(
    "field", [name for name, cells in table("Request").items() if not cells[1]]
)
def test_other_fields_are_optional(tmp_path, field):
    path = example(tmp_path, "dense")
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for line in lines[1:]:
        line[field] = None
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    assert read_trace(path).requests == 2


def test_the_header_table_has_the_fields_and_defaults_of_the_reader():
    rows = table("Header")
    assert list(rows) == list(HeaderFields.__struct_fields__)
    for field in msgspec.structs.fields(HeaderFields):
        _, required, default, _ = rows[field.name]
        assert (required == "yes") == field.required
        if not field.required:
            assert json.loads(default.strip("`")) == field.default


def test_the_shipped_chat_trace_has_the_two_accepted_lengths():
    length = trace_statistics(read_trace("chat")).accepted_length
    for kind, value in (
        ("accepted length, replayed rounds", length.replayed_rounds),
        ("mean accepted + 1, all anchors", length.all_anchors),
    ):
        (row,) = re.findall(rf"^\| {re.escape(kind)} \|.*\| (\S+) \|$", DOC, re.MULTILINE)
        assert row == f"{value:.2f}"
