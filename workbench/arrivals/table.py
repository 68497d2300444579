"""A CSV file as text columns, each turned into an array with its faults named by line and field."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from workbench.errors import InputError
from workbench.traces.reading import MOST_SECONDS

INT32 = 2**31 - 1
_MEND = "correct or delete the line"
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:?\d\d)?")
_UTC = ("Z", "+00:00", "+0000")


class Table:
    """The rows of a CSV file; ``line`` [N] is each row's line in the file."""

    def __init__(self, path: Path, lines: Iterable[bytes]):
        self.path = path
        reader = csv.reader((line.decode() for line in lines), strict=True)
        rows, self.line = [], []
        try:
            for row in reader:
                if row:
                    rows.append(row)
                    self.line.append(reader.line_num)
        except (csv.Error, UnicodeDecodeError) as error:
            where = f"line {reader.line_num + isinstance(error, UnicodeDecodeError)}"
            raise InputError(
                f"is no CSV text ({error})",
                file=path,
                place=where,
                mend="give CSV or JSON lines in UTF-8, plain, gzip or zstd",
            ) from error
        header = [name.strip() for name in rows[0]] if rows else []
        for row, line in zip(rows, self.line, strict=True):
            if len(row) != len(header):
                raise InputError(
                    f"has {len(row)} fields where the header has {len(header)}",
                    file=path,
                    place=f"line {line}",
                    mend="correct or delete the line",
                )
        if len(set(header)) != len(header):
            raise InputError(
                "a column name appears twice", file=path, place="line 1", mend="rename one of them"
            )
        self.columns = dict(zip(header, map(list, zip(*rows[1:], strict=True)), strict=False))
        for name in header[len(self.columns) :]:
            self.columns[name] = []
        self.line = np.array(self.line[1:], np.int64)

    def __len__(self) -> int:
        return len(self.line)

    def keep(self, mask: np.ndarray) -> None:
        """Drop the rows outside ``mask`` [N]."""
        kept = np.flatnonzero(mask)
        self.line = self.line[kept]
        for name, column in self.columns.items():
            self.columns[name] = [column[i] for i in kept]

    def fail(self, row: int, field: str, problem: str, mend: str = _MEND):
        """Raise InputError about one field of one row."""
        place = f"line {self.line[row]}, {field}"
        raise InputError(problem, file=self.path, place=place, mend=mend)

    def whole(self, field: str, low: int = 1) -> np.ndarray:
        """Whole numbers low..2³¹−1, int32 [N]."""
        column = self.columns[field]
        text = "".join(column)
        if text.isascii() and text.isdigit() and all(column):
            values = list(map(int, column))
            if min(values) >= low and max(values) <= INT32:
                return np.array(values, np.int32)
        return np.array(self._each(field, lambda text: _whole(text, low)), np.int32)

    def number(self, field: str, high: float = MOST_SECONDS) -> np.ndarray:
        """Numbers 0..high, float64 [N]."""
        return np.array(self._each(field, lambda text: _number(text, high)), np.float64)

    def instants(self, field: str) -> np.ndarray:
        """Dates with times of day, as nanoseconds since 1970, int64 [N]; UTC or without a zone."""
        column = self._each(field, _instant)
        return np.array(column, dtype="datetime64[ns]").astype(np.int64)

    def labels(self, field: str) -> tuple[list[str], np.ndarray]:
        """Distinct texts in order of appearance and the code of each row, int32 [N]; "" is −1."""
        codes: dict[str, int] = {}
        code = [codes.setdefault(text, len(codes)) if text else -1 for text in self.columns[field]]
        return list(codes), np.array(code, np.int32)

    def _each(self, field: str, parse: Callable[[str], object]) -> list:
        values = []
        try:
            for text in self.columns[field]:
                values.append(parse(text))
        except _Fault as fault:
            self.fail(len(values), field, fault.problem, fault.mend)
        return values


class _Fault(Exception):
    def __init__(self, problem: str, mend: str = _MEND):
        self.problem, self.mend = problem, mend


def _whole(text: str, low: int) -> int:
    if not re.fullmatch(r"\s*[+-]?[0-9]+\s*", text):
        raise _Fault(f"'{text}' is not a whole number")
    value = int(text) if len(text) < 30 else INT32 + 1
    if not low <= value <= INT32:
        raise _Fault(f"{text.strip()} is not in {low}..{INT32}")
    return value


def _number(text: str, high: float) -> float:
    try:
        value = float(text) if "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise _Fault(f"'{text}' is not a number")
    if value < 0:
        raise _Fault(f"{text.strip()} is less than 0")
    if value > high:
        raise _Fault(f"{text.strip()} is more than {high:g}")
    return value


def _instant(text: str) -> str:
    match = _INSTANT.fullmatch(text)
    if not match or not "1700" < text[:4] < "2200":
        raise _Fault(f"'{text}' is not a date and time like 2023-11-16 18:17:03.9799600")
    zone = match[2] or ""
    if zone and zone not in _UTC:
        raise _Fault(f"'{text}' is not in UTC", "give times in UTC or without a zone")
    text = text.removesuffix(zone)
    try:
        np.datetime64(text)
    except ValueError as error:
        raise _Fault(f"'{text}' is no date ({error})") from error
    return text
