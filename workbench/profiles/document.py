"""JSON documents into typed structs, and the checks that every table needs.

Every failure is an InputError that names the file, the field (``verify.seconds[3]``), the problem
and the mend.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from workbench.errors import InputError
from workbench.validation import explain

T = TypeVar("T")
MOST_TOKENS = 2**24  # of a step, and requests in it: tables as long as these are built
MOST_CONTEXT = 10**9  # tokens
MOST_SECONDS = 1e6  # of anything a profile times
_MOST = 1e12  # of any other number: sums and products stay finite
_LEAST = 1e-12  # of what must be positive: its reciprocal stays finite
_DEEPEST = 100  # objects and lists inside each other


def read_object(path: str | os.PathLike) -> dict[str, Any]:
    """The JSON object in a file."""
    try:
        # utf-8-sig: some editors begin the file with a byte order mark
        document = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(
            f"cannot be read ({error.strerror})", file=path, mend="name a file that can be"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(
            "is not UTF-8 text", file=path, place=f"byte {error.start}", mend="save it as UTF-8"
        ) from error
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise InputError(
            f"not JSON: {error.msg}", file=path, place=place, mend="mend the file there"
        ) from error
    except (RecursionError, ValueError) as error:  # a number of thousands of digits
        raise InputError(
            f"not JSON that can be read ({error})", file=path, mend="make it flatter or shorter"
        ) from error
    if not isinstance(document, dict):
        raise InputError("is no JSON object", file=path, mend="it must start with {")
    _refuse_odd(document, "", path)
    return document


def _refuse_odd(node: Any, place: str, path: str | os.PathLike, depth: int = 0) -> None:
    """Refuse what Python's JSON reader takes and nothing that writes JSON or text can give back."""

    def refuse(problem: str, mend: str):
        raise InputError(
            problem, file=path, place=place.encode("utf-8", "replace").decode(), mend=mend
        )

    if depth > _DEEPEST:
        raise InputError(f"is nested more than {_DEEPEST} deep", file=path, mend="make it flatter")
    if isinstance(node, float) and not math.isfinite(node):
        refuse(f"is {node}", "give a finite number")
    elif isinstance(node, int) and abs(node) >= 2**63:
        refuse("is an integer of more than 64 bits", "give a smaller number")
    elif isinstance(node, str) and not _encodable(node):
        refuse("holds half of a surrogate pair", "write the character itself, or leave it out")
    elif isinstance(node, dict):
        for key, value in node.items():
            inner = f"{place}.{key}" if place else key
            _refuse_odd(key, inner, path, depth)
            _refuse_odd(value, inner, path, depth + 1)
    elif isinstance(node, list):
        for i, value in enumerate(node):
            _refuse_odd(value, f"{place}[{i}]", path, depth + 1)


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def convert(document: dict[str, Any], struct: type[T], path: str | os.PathLike) -> T:
    """The document as ``struct``; unknown fields are ignored."""
    try:
        return msgspec.convert(document, struct)
    except msgspec.ValidationError as error:
        problem, place, mend = explain(error)
        raise InputError(problem, file=path, place=place or None, mend=mend) from error
    except OverflowError as error:
        raise InputError(
            "holds a number too large", file=path, mend="give numbers of 64 bits"
        ) from error


class Checks:
    """The rules of tables, for one file."""

    def __init__(self, path: str | os.PathLike):
        self.path = path

    def require(self, holds: bool, field: str, problem: str, mend: str) -> None:
        """Raise unless ``holds``."""
        if not holds:
            raise InputError(problem, file=self.path, place=field, mend=mend)

    def axis(
        self, field: str, points: Sequence[int], least: int = 1, most: int = MOST_TOKENS
    ) -> None:
        """An axis: not empty, strictly increasing integers ``least``..``most``."""
        self.require(len(points) > 0, field, "is empty", "give at least one point")
        previous = None
        for i, point in enumerate(points):
            place = f"{field}[{i}]"
            bounds = f"is {point}, not in {least}..{most}"
            mend = f"points start at {least}" if point < least else f"points end at {most}"
            self.require(least <= point <= most, place, bounds, mend)
            if previous is not None:
                order = f"{point} does not come after {previous}"
                self.require(point > previous, place, order, "sort the points, each once")
            previous = point

    def number(
        self,
        field: str,
        value: float,
        least: float = 0.0,
        positive: bool = False,
        most: float = _MOST,
    ) -> None:
        """A number of at least ``least``, or more than zero, and at most ``most``."""
        self.require(math.isfinite(value), field, f"is {value}", "give a finite number")
        if positive:
            self.require(value > 0, field, f"is {value:g}", "it must be more than 0")
            self.require(value >= _LEAST, field, f"is {value:g}", f"give at least {_LEAST:g}")
        else:
            self.require(value >= least, field, f"is {value:g}", f"it must be at least {least:g}")
        self.require(value <= most, field, f"is {value:g}", f"it may be at most {most:g}")

    def vector(
        self,
        field: str,
        values: Sequence[float],
        axis: str,
        points: Sequence[int],
        *,
        positive: bool = False,
        least: float = 0.0,
        most: float = _MOST,
    ) -> None:
        """One value for every point of ``axis``."""
        problem = f"has {len(values)} values for the {len(points)} points of {axis}"
        self.require(len(values) == len(points), field, problem, "give one value per point")
        for i, value in enumerate(values):
            self.number(f"{field}[{i}]", value, least, positive, most)

    def matrix(
        self,
        field: str,
        values: Sequence[Sequence[float]],
        rows: tuple[str, Sequence[int]],
        columns: tuple[str, Sequence[int]],
        *,
        positive: bool = False,
        most: float = _MOST,
    ) -> None:
        """One row for every point of ``rows``, in it one value for every point of ``columns``."""
        problem = f"has {len(values)} rows for the {len(rows[1])} points of {rows[0]}"
        self.require(len(values) == len(rows[1]), field, problem, "give one row per point")
        for i, row in enumerate(values):
            place = f"{field}[{i}]"
            self.vector(place, row, columns[0], columns[1], positive=positive, most=most)
