"""Numbers that are the same everywhere, tables that go where the page has room for them."""

from __future__ import annotations

import pytest

from workbench.errors import InputError
from workbench.report.figures.made import markdown
from workbench.report.figures.writing import read_page, rounded, with_tables

PAGE = "before\n<!-- numbers: a-1 -->\nold\n<!-- end -->\nbetween <!-- numbers: b -->\n<!-- end -->"


def test_six_digits_and_no_nan():
    assert rounded({"x": [1 / 3, float("nan")], "n": 7, "t": (True, None, "s")}) == {
        "x": [0.333333, None],
        "n": 7,
        "t": [True, None, "s"],
    }


def test_tables_replace_what_stood_there(tmp_path):
    path = tmp_path / "p.md"
    path.write_text(PAGE)
    text = with_tables(read_page(path, ["a-1"]), {"a-1": [("", "k|1"), ("x", "2")]})
    assert text == PAGE.replace("old\n", "|  | k\\|1 |\n| --- | ---: |\n| x | 2 |\n")
    assert with_tables(text, {"a-1": [("", "k|1"), ("x", "2")]}) == text


def test_a_page_without_room_is_refused(tmp_path):
    path = tmp_path / "p.md"
    path.write_text(PAGE)
    with pytest.raises(InputError, match="numbers: c"):
        read_page(path, ["a-1", "c"])
    path.write_bytes(b"\xff")
    with pytest.raises(InputError, match="no text"):
        read_page(path, ["a-1"])
    with pytest.raises(InputError, match="no such file"):
        read_page(tmp_path / "no.md", [])


def test_markdown_has_as_many_columns_everywhere():
    lines = markdown([("", "a"), ("b", "1"), ("c", "2")]).splitlines()
    assert {line.count("|") for line in lines} == {3}
