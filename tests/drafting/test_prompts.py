"""Prompt files."""

import pytest

from workbench.drafting.prompts import read_prompts
from workbench.errors import InputError


def test_prompts_and_turns(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text(
        '{"id":"a","domain":"math","prompt":"one"}\n\n'
        '{"id":"b","domain":"chat","benchmark":"mt-bench","turns":["two","three"],"licence":"x"}\n'
    )
    assert [(p.id, p.text) for p in read_prompts(path)] == [("a", "one"), ("b", "two")]
    assert [p.id for p in read_prompts(path, "chat")] == ["b"]
    assert [p.id for p in read_prompts(path, limit=1)] == ["a"]
    with pytest.raises(InputError, match="no prompts of domain 'code'; there are chat, math"):
        read_prompts(path, "code")


@pytest.mark.parametrize(
    "line, message",
    [
        ('{"domain":"math"}', "line 1: object missing required field `id`"),
        ('{"id":"a"}', "line 1: no prompt and no turns"),
        ('{"id":"a","turns":[1]}', r"line 1: turns\[0\]: expected `str`, got `int`"),
        ("rubbish", r"line 1: is not JSON \(JSON is malformed"),
        ('{"id":"a","prompt":"x"}\n{"id":"a","prompt":"y"}', "line 2: id 'a' twice"),
        ("", "holds no prompts"),
    ],
)
def test_bad_lines_are_named(tmp_path, line, message):
    path = tmp_path / "p.jsonl"
    path.write_text(line)
    with pytest.raises(InputError, match=message) as error:
        read_prompts(path)
    assert str(path) in str(error.value)
