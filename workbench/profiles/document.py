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

T = TypeVar("T")
_MOST = 10**9  # tokens or requests: more is a slip of the pen


def read_object(path: str | os.PathLike) -> dict[str, Any]:
    """The JSON object in a file."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", file=path) from error
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
        raise InputError("not JSON that can be read", file=path, mend=str(error)) from error
    if not isinstance(document, dict):
        raise InputError("is no JSON object", file=path, mend="it must start with {")
    _refuse_nonfinite(document, "", path)
    return document


def _refuse_nonfinite(node: Any, place: str, path: str | os.PathLike) -> None:
    if isinstance(node, float) and not math.isfinite(node):
        raise InputError(f"is {node}", file=path, place=place, mend="give a finite number")
    if isinstance(node, dict):
        for key, value in node.items():
            _refuse_nonfinite(value, f"{place}.{key}" if place else key, path)
    elif isinstance(node, list):
        for i, value in enumerate(node):
            _refuse_nonfinite(value, f"{place}[{i}]", path)


def convert(document: dict[str, Any], struct: type[T], path: str | os.PathLike) -> T:
    """The document as ``struct``; unknown fields are ignored."""
    try:
        return msgspec.convert(document, struct)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `$")
        place = place.rstrip("`").lstrip(".") or None
        problem = problem[0].lower() + problem[1:]
        raise InputError(problem, file=path, place=place, mend="mend that field") from error
    except OverflowError as error:
        raise InputError("holds a number too large", file=path) from error


class Checks:
    """The rules of tables, for one file."""

    def __init__(self, path: str | os.PathLike):
        self.path = path

    def require(self, holds: bool, field: str, problem: str, mend: str) -> None:
        """Raise unless ``holds``."""
        if not holds:
            raise InputError(problem, file=self.path, place=field, mend=mend)

    def axis(self, field: str, points: Sequence[int], least: int = 1) -> None:
        """An axis: not empty, strictly increasing integers of at least ``least``."""
        self.require(len(points) > 0, field, "is empty", "give at least one point")
        previous = None
        for i, point in enumerate(points):
            place = f"{field}[{i}]"
            bounds = f"is {point}, not in {least}..{_MOST}"
            self.require(least <= point <= _MOST, place, bounds, f"points start at {least}")
            if previous is not None:
                order = f"{point} does not come after {previous}"
                self.require(point > previous, place, order, "sort the points, each once")
            previous = point

    def number(self, field: str, value: float, least: float = 0.0, positive: bool = False) -> None:
        """A finite number of at least ``least``, or more than zero."""
        self.require(math.isfinite(value), field, f"is {value}", "give a finite number")
        if positive:
            self.require(value > 0, field, f"is {value:g}", "it must be more than 0")
        else:
            self.require(value >= least, field, f"is {value:g}", f"it must be at least {least:g}")

    def vector(
        self,
        field: str,
        values: Sequence[float],
        axis: str,
        points: Sequence[int],
        *,
        positive: bool = False,
        least: float = 0.0,
    ) -> None:
        """One value for every point of ``axis``."""
        problem = f"has {len(values)} values for the {len(points)} points of {axis}"
        self.require(len(values) == len(points), field, problem, "give one value per point")
        for i, value in enumerate(values):
            self.number(f"{field}[{i}]", value, least, positive)

    def matrix(
        self,
        field: str,
        values: Sequence[Sequence[float]],
        rows: tuple[str, Sequence[int]],
        columns: tuple[str, Sequence[int]],
        *,
        positive: bool = False,
    ) -> None:
        """One row for every point of ``rows``, in it one value for every point of ``columns``."""
        problem = f"has {len(values)} rows for the {len(rows[1])} points of {rows[0]}"
        self.require(len(values) == len(rows[1]), field, problem, "give one row per point")
        for i, row in enumerate(values):
            self.vector(f"{field}[{i}]", row, columns[0], columns[1], positive=positive)
