"""A line's JSON object, one level deep, and what a decoder would pass over in silence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from workbench.errors import InputError

Members = dict[str, msgspec.Raw]


def decode_line(path: Path, number: int, line: bytes, decoder: msgspec.json.Decoder):
    """A line's JSON object. Raises InputError if it is not UTF-8, not JSON or not an object."""
    place, mend, cause = f"line {number}", "correct or delete the line", None
    try:
        if not line.isascii():  # msgspec does not look inside strings that it skips
            line.decode()
        return decoder.decode(line)
    except UnicodeDecodeError as error:
        problem, mend, cause = f"is not UTF-8 (byte {error.start})", "save it as UTF-8", error
    except msgspec.ValidationError as error:
        problem, cause = "is not a JSON object", error
    except msgspec.DecodeError as error:
        problem, cause = f"is not JSON ({error})", error
        constant = _find_constant(line)
        if constant is not None:
            field, value = constant
            problem, mend = f"{value} is not a JSON number", "give a number"
            place = f"{place}, {field}" if field else place
    except RecursionError as error:
        problem, cause = "is nested too deeply", error
    raise InputError(problem, file=path, place=place, mend=mend) from cause


def repeated(line: bytes, members: Members) -> str | None:
    """A field that the line's object has more than once, of which a decoder keeps the last.

    What was kept, written without spaces or with those of Python's json, is as long as the line
    unless something was dropped; only a line of another length is looked at field by field.
    """
    line = line.strip()
    values = sum([memoryview(raw).nbytes for raw in members.values()])
    kept = 1 + len("".join(members).encode()) + 4 * len(members) + values
    spaced = line.startswith(b" ", len(next(iter(members), "").encode()) + 4)
    if len(line) - kept == (2 * len(members) - 1 if spaced else 0):
        return None
    try:
        pairs = json.loads(line, object_pairs_hook=list)
    except (ValueError, RecursionError):  # stricter than the decoder that has read it
        return None
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            return key
        seen.add(key)
    return None


def _find_constant(line: bytes) -> tuple[str, str] | None:
    """Place and name of the first NaN or Infinity, which Python's own JSON writer leaves."""

    class Constant(str):
        pass

    try:
        todo: list[tuple[str, Any]] = [("", json.loads(line, parse_constant=Constant))]
    except (ValueError, RecursionError):
        return None
    while todo:
        place, value = todo.pop()
        if isinstance(value, Constant):
            return place, str(value)
        if isinstance(value, dict):
            todo += [(f"{place}.{k}" if place else k, v) for k, v in reversed(value.items())]
        elif isinstance(value, list):
            todo += [(f"{place}[{i}]", v) for i, v in reversed(list(enumerate(value)))]
    return None
