"""Trace files to ``Trace``: streamed, validated, every error with its line and field."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Annotated, Any, NoReturn

import msgspec
import numpy as np

from workbench.errors import InputError
from workbench.files import resolve
from workbench.traces.arrays import NumberArray
from workbench.traces.lines import read_lines
from workbench.traces.model import FORMAT, Header, HeaderFields, Trace

SUFFIXES = ("", ".gz", ".zst", ".jsonl", ".jsonl.gz", ".jsonl.zst")

_Members = dict[str, msgspec.Raw]
_INT32 = 2**31 - 1
_Seconds = Annotated[float, msgspec.Meta(ge=0)]
_FIELDS: dict[str, Any] = {  # one value per request; None where the file has none
    "id": str,
    "prompt_tokens": Annotated[int, msgspec.Meta(ge=1, le=_INT32)],
    "output_tokens": Annotated[int, msgspec.Meta(ge=1, le=_INT32)],
    "domain": str | None,
    "arrival_s": _Seconds | None,
    "session": str | None,
    "cached_prompt_tokens": Annotated[int, msgspec.Meta(ge=0, le=_INT32)] | None,
}
_REQUIRED = ("id", "prompt_tokens", "output_tokens", "accepted")


def read_trace(name: str | os.PathLike) -> Trace:
    """Read a ``workbench.trace/1`` file, plain, gzip or zstd.

    ``name`` is a path or a name with its suffix left out; the working directory is searched
    first, then the shipped traces. Raises InputError naming file, line and field.
    """
    path = resolve(name, "traces", SUFFIXES)
    lines = read_lines(path)
    header = _header(path, next(lines, None))
    return _Reader(os.fspath(name), path, header).read(lines)


class _Reader:
    """Collects requests line by line; arrays of one request at a time, never the whole file."""

    def __init__(self, name: str, path: Path, header: Header):
        self.name, self.path, self.header = name, path, header
        self.line = 1
        gamma = header.block_size
        count = np.uint8 if gamma <= np.iinfo(np.uint8).max else np.uint16
        self.members = msgspec.json.Decoder(_Members)
        self.decoders = {field: msgspec.json.Decoder(kind) for field, kind in _FIELDS.items()}
        self.arrays = {
            "confidence": NumberArray(np.float32, 0.0, 1.0, width=gamma),
            "accepted": NumberArray(count, 0, gamma),
        }
        if header.coverage == "rounds":  # in a dense trace ``verified`` is one more unknown field
            self.arrays["verified"] = NumberArray(count, 0, gamma)
        self.columns: dict[str, list] = {field: [] for field in _FIELDS}
        self.rows: dict[str, list[np.ndarray]] = {field: [] for field in self.arrays}
        self.lengths: list[int] = []
        self.extra: list[bytes] = []
        self.lines_of: dict[str, int] = {}
        self.confident: tuple[bool, int] | None = None  # of the first request with rows; its line

    def read(self, lines) -> Trace:
        for number, line in enumerate(lines, start=2):
            if line.strip():
                self.line = number
                self._request(line)
        if not self.lengths:
            raise InputError("has a header but no requests", file=self.path)
        return self._trace()

    def _fail(self, problem: str, field: str | None = None, mend: str | None = None) -> NoReturn:
        place = f"line {self.line}" + (f", {field}" if field else "")
        raise InputError(problem, file=self.path, place=place, mend=mend)

    def _request(self, line: bytes) -> None:
        members = _decode_line(self.path, self.line, line, self.members)
        for field in _REQUIRED + (("verified",) if "verified" in self.arrays else ()):
            if field not in members:
                self._fail("required field is missing", field)
        values = {field: self._value(field, members.pop(field, None)) for field in _FIELDS}
        arrays = {field: self._array(field, members.pop(field, None)) for field in self.arrays}
        self._check_values(values)
        self._check_rows(values["output_tokens"], arrays)

        for field, value in values.items():
            self.columns[field].append(value)
        for field, array in arrays.items():
            if array is not None:
                self.rows[field].append(array)
        self.lengths.append(len(arrays["accepted"]))
        encode = msgspec.json.encode
        extra = b",".join(encode(key) + b":" + bytes(raw) for key, raw in members.items())
        self.extra.append(extra)

    def _value(self, field: str, raw: msgspec.Raw | None):
        if raw is None:
            return None
        try:
            return self.decoders[field].decode(raw)
        except msgspec.DecodeError as error:
            self._fail(*_place(field, error))

    def _array(self, field: str, raw: msgspec.Raw | None) -> np.ndarray | None:
        if raw is None or (field == "confidence" and bytes(raw) == b"null"):
            return None
        try:
            return self.arrays[field].decode(bytes(raw))
        except msgspec.DecodeError as error:
            problem, place = _place(field, error)
            about_gamma = "length" in problem or "`int` <=" in problem
            mend = f"block_size in the header is {self.header.block_size}" if about_gamma else None
            self._fail(problem, place, mend)

    def _check_values(self, values: dict) -> None:
        earlier = self.lines_of.setdefault(values["id"], self.line)
        if earlier != self.line:
            self._fail(f"'{values['id']}' is the id of line {earlier} already", "id")
        if (values["cached_prompt_tokens"] or 0) > values["prompt_tokens"]:
            self._fail("is more than prompt_tokens", "cached_prompt_tokens")

    def _check_rows(self, output_tokens: int, arrays: dict[str, np.ndarray | None]) -> None:
        accepted, confidence = arrays["accepted"], arrays["confidence"]
        verified = arrays.get("verified")
        rows, anchors = len(accepted), output_tokens - 1
        if verified is None and rows != anchors:
            self._fail(
                f"has {rows} rows where output_tokens {output_tokens} needs {anchors}",
                "accepted",
                "dense coverage records one row per output token but the last",
            )
        for field, array in arrays.items():
            if array is not None and len(array) != rows:
                self._fail(f"has {len(array)} rows, accepted has {rows}", field)
        if verified is not None:
            self._check_rounds(accepted, verified, anchors)
        if rows:
            has = confidence is not None
            first, line = self.confident = self.confident or (has, self.line)
            if has != first:
                there, here = ("present", "missing") if first else ("missing", "present")
                self._fail(f"is {here}, but in line {line} it is {there}", "confidence")

    def _check_rounds(self, accepted: np.ndarray, verified: np.ndarray, anchors: int) -> None:
        too_many = accepted > verified
        if too_many.any():
            i = int(too_many.argmax())
            self._fail(f"{accepted[i]} is more than verified {verified[i]}", f"accepted[{i}]")
        reached = np.cumsum(accepted.astype(np.int64) + 1)
        start = reached - accepted - 1
        if (start >= anchors).any():
            i = int((start >= anchors).argmax())
            self._fail(
                f"starts after {start[i]} + 1 tokens, output_tokens is {anchors + 1}",
                f"accepted[{i}]",
                "each row emits accepted + 1 tokens; the last one must start before the last token",
            )
        if (reached[-1] if len(reached) else 0) < anchors:
            emitted = 1 + (int(reached[-1]) if len(reached) else 0)
            self._fail(
                f"rows reach {emitted} tokens, output_tokens is {anchors + 1}",
                "accepted",
                "each row emits accepted + 1 tokens, after the first token, which prefill emits",
            )

    def _trace(self) -> Trace:
        columns, header = self.columns, self.header
        domains = [header.domain if d is None else d for d in columns["domain"]]
        codes: dict[str, int] = {}
        domain = np.array([codes.setdefault(d, len(codes)) for d in domains])
        if len(codes) > np.iinfo(np.int16).max:
            self._fail("more than 32767 different domains", "domain")
        confidence = self.rows["confidence"]
        if not confidence or (self.confident and not self.confident[0]):
            confidence = None
        arrays = {
            "domain": domain.astype(np.int16),
            "prompt_tokens": np.array(columns["prompt_tokens"], np.int32),
            "output_tokens": np.array(columns["output_tokens"], np.int32),
            "arrival_s": np.array(columns["arrival_s"], np.float64),  # None becomes NaN
            "cached_prompt_tokens": np.array(
                [c or 0 for c in columns["cached_prompt_tokens"]], np.int32
            ),
            "row_start": np.concatenate([[0], np.cumsum(self.lengths)]).astype(np.int64),
            "accepted": np.concatenate(self.rows["accepted"]),
            "confidence": None if confidence is None else np.concatenate(confidence),
            "verified": np.concatenate(self.rows["verified"]) if "verified" in self.rows else None,
        }
        for array in arrays.values():
            if array is not None:
                array.flags.writeable = False
        session = columns["session"]
        return Trace(
            name=self.name,
            path=self.path,
            header=header,
            ids=columns["id"],
            domain_names=tuple(codes),
            session=None if all(s is None for s in session) else session,
            extra=self.extra,
            **arrays,
        )


def _header(path: Path, line: bytes | None) -> Header:
    if line is None:
        raise InputError("is empty", file=path, mend="a trace begins with a header line")
    fields = _decode_line(path, 1, line, msgspec.json.Decoder(dict[str, Any]))
    if fields.get("format") != FORMAT:
        found = f"is {json.dumps(fields['format'])}" if "format" in fields else "is missing"
        raise InputError(
            f"{found}, so this is no trace",
            file=path,
            place="line 1, format",
            mend=f"need {FORMAT}",
        )
    try:
        known = msgspec.json.decode(line, type=HeaderFields)
    except msgspec.ValidationError as error:
        problem, place = _place("", error)
        raise InputError(
            problem, file=path, place=f"line 1, {place}" if place else "line 1"
        ) from error
    names = HeaderFields.__struct_fields__
    unknown = {key: value for key, value in fields.items() if key not in names}
    return Header(**{field: getattr(known, field) for field in names}, unknown=unknown)


def _decode_line(path: Path, number: int, line: bytes, decoder: msgspec.json.Decoder):
    """A line's JSON object. Raises InputError if it is not UTF-8, not JSON or not an object."""
    place = f"line {number}"
    try:
        if not line.isascii():  # msgspec does not look inside strings that it skips
            line.decode()
        return decoder.decode(line)
    except UnicodeDecodeError as error:
        raise InputError(f"is not UTF-8 (byte {error.start})", file=path, place=place) from error
    except msgspec.ValidationError as error:
        raise InputError("is not a JSON object", file=path, place=place) from error
    except msgspec.DecodeError as error:
        constant = _find_constant(line)
        if constant is None:
            raise InputError(f"is not JSON ({error})", file=path, place=place) from error
        field, value = constant
        place = f"{place}, {field}" if field else place
        raise InputError(f"{value} is not a JSON number", file=path, place=place) from error
    except RecursionError as error:
        raise InputError("is nested too deeply", file=path, place=place) from error


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


def _place(field: str, error: msgspec.DecodeError) -> tuple[str, str]:
    """Problem and place (``confidence[12][3]``) out of msgspec's message, which ends in a path."""
    match = re.fullmatch(r"(.*?)(?: - at `\$(.*)`)?", str(error), re.DOTALL)
    problem, path = match[1], match[2] or ""
    return problem[0].lower() + problem[1:], (field + path).lstrip(".")
