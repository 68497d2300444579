"""What a JSON decoder complains about, in the words of an InputError: problem, place and mend."""

from __future__ import annotations

import re

import msgspec

_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text in quotes",
    "bool": "true or false",
    "array": "a list",
    "object": "an object, { … }",
    "null": "null",
}
_BOUND = re.compile(r"expected `(int|float)` (>=|<=|>|<) (\S+)")
_LENGTH = re.compile(r"expected `array` of (?:at (?:least|most) )?length (>=|<=) (\d+)")
_KIND = re.compile(r"expected `([a-z| ]+)`, got `\w+`")
_WORDS = {">=": "of at least", "<=": "of at most", ">": "more than", "<": "less than"}


def explain(error: msgspec.DecodeError, field: str = "") -> tuple[str, str, str]:
    """Problem, place and mend of a msgspec error about ``field`` ("" for the whole document).

    The place is a path such as ``confidence[12][3]``; "" where the document itself is meant.
    """
    match = re.fullmatch(r"(.*?)(?: - at `\$(.*)`)?", str(error), re.DOTALL)
    problem, path = match[1], match[2] or ""
    problem = problem[0].lower() + problem[1:]
    return problem, (field + path).lstrip("."), _mend(problem)


def _mend(problem: str) -> str:
    if bound := _BOUND.search(problem):
        kind, sign, limit = bound.groups()
        return f"give {_KINDS[kind]} {_WORDS[sign]} {limit}"
    if length := _LENGTH.search(problem):
        least = "at least" if length[1] == ">=" else "at most"
        return f"give {least} {length[2]} values"
    if kind := _KIND.search(problem):
        kinds = [_KINDS.get(part.strip(), part.strip()) for part in kind[1].split("|")]
        return f"give {' or '.join(kinds)}"
    if "missing required field" in problem:
        return "add the field"
    if "out of range" in problem:
        return "give a smaller number"
    return "correct it there"
