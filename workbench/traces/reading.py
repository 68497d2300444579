"""Trace files to ``Trace``: streamed, validated, every error with its line and field."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any, NoReturn

import msgspec
import numpy as np

from workbench.errors import InputError
from workbench.files import resolve
from workbench.traces.arrays import NumberArray
from workbench.traces.lines import read_lines
from workbench.traces.model import FORMAT, Header, HeaderFields, Trace
from workbench.traces.objects import Members, decode_line, repeated
from workbench.validation import explain

MOST_SECONDS = 1e12  # of an arrival: 30,000 years; beyond, clocks lose their microseconds
SUFFIXES = ("", ".gz", ".zst", ".jsonl", ".jsonl.gz", ".jsonl.zst")

_INT32 = 2**31 - 1
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=MOST_SECONDS)]
_FIELDS: dict[str, Any] = {  # one value per request; None where the file has none
    "id": str,
    "prompt_tokens": Annotated[int, msgspec.Meta(ge=1, le=_INT32)],
    "output_tokens": Annotated[int, msgspec.Meta(ge=1, le=_INT32)],
    "domain": str | None,
    "arrival_s": _Seconds | None,
    "session": str | None,
    "cached_prompt_tokens": Annotated[int, msgspec.Meta(ge=0, le=_INT32)] | None,
}
_CHOICES = {"coverage": "write dense or rounds", "confidence_sees": "write prefix or token"}
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
        self.members = msgspec.json.Decoder(Members)
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
            raise InputError(
                "has a header but no requests", file=self.path, mend="add a line for each request"
            )
        return self._trace()

    def _fail(self, problem: str, field: str | None = None, mend: str | None = None) -> NoReturn:
        place = f"line {self.line}" + (f", {field}" if field else "")
        raise InputError(problem, file=self.path, place=place, mend=mend)

    def _request(self, line: bytes) -> None:
        members = decode_line(self.path, self.line, line, self.members)
        if (twice := repeated(line, members)) is not None:
            self._fail("appears twice in the line", twice, "keep one of them")
        for field in _REQUIRED + (("verified",) if "verified" in self.arrays else ()):
            if field not in members:
                self._fail("required field is missing", field, "add it to the line")
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
            self._fail(*explain(error, field))

    def _array(self, field: str, raw: msgspec.Raw | None) -> np.ndarray | None:
        if raw is None or (field == "confidence" and bytes(raw) == b"null"):
            return None
        try:
            return self.arrays[field].decode(bytes(raw))
        except msgspec.DecodeError as error:
            problem, place, mend = explain(error, field)
            if "length" in problem or "`int` <=" in problem:
                mend = f"block_size in the header is {self.header.block_size}"
            self._fail(problem, place, mend)

    def _check_values(self, values: dict) -> None:
        earlier = self.lines_of.setdefault(values["id"], self.line)
        if earlier != self.line:
            problem = f"'{values['id']}' is the id of line {earlier} already"
            self._fail(problem, "id", "give each request its own")
        if (values["cached_prompt_tokens"] or 0) > values["prompt_tokens"]:
            self._fail(
                "is more than prompt_tokens", "cached_prompt_tokens", "count cached ones only"
            )

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
                problem = f"has {len(array)} rows, accepted has {rows}"
                self._fail(problem, field, "give each draft block a row in both")
        if verified is not None:
            self._check_rounds(accepted, verified, anchors)
        if rows:
            has = confidence is not None
            first, line = self.confident = self.confident or (has, self.line)
            if has != first:
                there, here = ("present", "missing") if first else ("missing", "present")
                problem = f"is {here}, but in line {line} it is {there}"
                self._fail(problem, "confidence", "give it in all requests or in none")

    def _check_rounds(self, accepted: np.ndarray, verified: np.ndarray, anchors: int) -> None:
        too_many = accepted > verified
        if too_many.any():
            i = int(too_many.argmax())
            problem = f"{accepted[i]} is more than verified {verified[i]}"
            self._fail(problem, f"accepted[{i}]", "count drafts that were verified only")
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
            self._fail("more than 32767 different domains", "domain", "use fewer labels")
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
    fields = decode_line(path, 1, line, msgspec.json.Decoder(dict[str, Any]))
    if fields.get("format") != FORMAT:
        found = f"is {json.dumps(fields['format'])}" if "format" in fields else "is missing"
        raise InputError(
            f"{found}, so this is no trace",
            file=path,
            place="line 1, format",
            mend=f"need {FORMAT}",
        )
    members = msgspec.json.decode(line, type=Members)
    if (twice := repeated(line, members)) is not None:
        raise InputError(
            "appears twice in the line",
            file=path,
            place=f"line 1, {twice}",
            mend="keep one of them",
        )
    try:
        known = msgspec.json.decode(line, type=HeaderFields)
    except msgspec.ValidationError as error:
        problem, place, mend = explain(error)
        mend = _CHOICES.get(place, mend)
        place = f"line 1, {place}" if place else "line 1"
        raise InputError(problem, file=path, place=place, mend=mend) from error
    names = HeaderFields.__struct_fields__
    unknown = {key: value for key, value in fields.items() if key not in names}
    return Header(**{field: getattr(known, field) for field in names}, unknown=unknown)
