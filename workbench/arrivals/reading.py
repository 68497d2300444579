"""Any known file of arrivals to ``Arrivals``: recognised by content, sliced, sped up."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np

from workbench.arrivals import servegen
from workbench.arrivals.columns import FORMATS, MODEL_COLUMNS, CsvFormat
from workbench.arrivals.model import Arrivals, Recorded, Request
from workbench.arrivals.mooncake import read_mooncake
from workbench.arrivals.table import Table
from workbench.errors import InputError
from workbench.files import not_a_file
from workbench.traces import read_trace
from workbench.traces.lines import read_lines
from workbench.traces.reading import MOST_SECONDS

_MOONCAKE = ("timestamp", "input_length", "output_length")
_SERVEGEN = CsvFormat(
    "ServeGen windows", servegen.WINDOWS, servegen.OPTIONAL, servegen.read_windows
)
_CSV = (*FORMATS, _SERVEGEN)


def read_arrivals(
    name: str | os.PathLike,
    *,
    speedup: float = 1.0,
    start: float | None = None,
    stop: float | None = None,
    seed: int = 0,
    model: str | None = None,
) -> Arrivals:
    """Read arrivals, plain, gzip or zstd, of any format of docs/arrivals.md.

    ``start`` ≤ time < ``stop`` are seconds of the file's own clock, before ``speedup`` divides all
    times. Time 0 of the result is ``start``, or, without it, the first arrival (ServeGen windows:
    the start of the first window). ``model`` takes the rows of one model where a file has several.
    ``seed`` matters where something is drawn: ServeGen windows, agent sessions without a clock.
    Raises InputError naming file, line, field and mend.
    """
    _check_slice(speedup, start, stop)
    path = Path(name)
    problem = not_a_file(path)
    if problem is not None:
        raise InputError(
            problem,
            file=name,
            mend="name a file; docs/arrivals.md says which formats are read and where they are had",
        )
    recorded = _read(path, Request(start, stop, seed, model))
    return _arrivals(os.fspath(name), recorded, speedup, start, stop)


def _check_slice(speedup: float, start: float | None, stop: float | None) -> None:
    if not (math.isfinite(speedup) and speedup > 0):
        raise InputError(f"a speedup of {speedup:g}", mend="give more than 0; 2 halves every gap")
    if speedup < 1 / MOST_SECONDS:
        raise InputError(f"a speedup of {speedup:g}", mend=f"give at least {1 / MOST_SECONDS:g}")
    for what, value in (("from", start), ("to", stop)):
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise InputError(f"a slice {what} {value:g} s", mend="give seconds ≥ 0")
    if start is not None and stop is not None and start >= stop:
        raise InputError(
            f"a slice from {start:g} to {stop:g} s is empty", mend="end it later than it starts"
        )


def _read(path: Path, request: Request) -> Recorded:
    lines = read_lines(path)
    head: list[bytes] = []
    for line in lines:
        head.append(line)
        if line.strip():
            break
    else:
        raise InputError("is empty", file=path, mend=_formats())
    first = head[-1]
    lines = itertools.chain(head, lines)
    if first.lstrip(b" \t").startswith(b"{"):
        return _read_json(path, first, lines, request)
    table = Table(path, lines)
    format = next((known for known in _CSV if set(known.required) <= set(table.columns)), None)
    if format is None:
        header = ",".join(table.columns)
        raise InputError(
            f"unknown columns {header[:80]}{'…' * (len(header) > 80)}",
            file=path,
            place="line 1",
            mend=_formats(),
        )
    if not len(table):
        raise InputError("has a header but no rows", file=path, mend="add a row for each request")
    if request.model is not None and not any(name in table.columns for name in MODEL_COLUMNS):
        _no_models(path, request)
    recorded = format.read(table, request)
    extra = [c for c in table.columns if c not in format.required + format.optional]
    if extra:
        recorded.notes.append(f"columns ignored: {', '.join(extra)}")
    return recorded


def _read_json(path: Path, first: bytes, lines: Iterator[bytes], request: Request) -> Recorded:
    try:
        keys = msgspec.json.decode(first, type=dict[str, msgspec.Raw])
    except msgspec.DecodeError as error:
        raise InputError(
            f"is no JSON ({error})", file=path, place="line 1", mend="correct or delete the line"
        ) from error
    if request.model is not None:
        _no_models(path, request)
    if bytes(keys.get("format", b"")).startswith(b'"workbench.trace/'):
        return _read_trace(path)
    if set(_MOONCAKE) <= keys.keys():
        return read_mooncake(path, lines, request)
    if keys.keys() >= servegen.LENGTHS:
        raise InputError(
            "holds ServeGen's lengths, which have no arrivals",
            file=path,
            mend="name the windows file beside it",
        )
    raise InputError(
        f"unknown fields {', '.join(keys)[:80]}", file=path, place="line 1", mend=_formats()
    )


def _read_trace(path: Path) -> Recorded:
    trace = read_trace(path)
    missing = np.isnan(trace.arrival_s)
    if missing.any():
        raise InputError(
            f"{missing.sum()} of {trace.requests} requests have no arrival_s",
            file=path,
            place=f"request {trace.ids[int(missing.argmax())]}",
            mend="record arrivals, or give a rate or a concurrency instead",
        )
    session = None
    if trace.session is not None:
        codes: dict[str, int] = {}
        labels = [-1 if s is None else codes.setdefault(s, len(codes)) for s in trace.session]
        session = np.array(labels, np.int32)
    cached = np.minimum(trace.cached_prompt_tokens, trace.prompt_tokens - 1)
    return Recorded(
        time=trace.arrival_s,
        prompt=trace.prompt_tokens,
        output=trace.output_tokens,
        session=session,
        cached=cached if cached.any() else None,
    )


def _arrivals(
    name: str, recorded: Recorded, speedup: float, start: float | None, stop: float | None
) -> Arrivals:
    """Sort, slice, shift to 0 and divide by ``speedup``."""
    time, notes = recorded.time, list(recorded.notes)
    columns = (recorded.prompt, recorded.output, recorded.session, recorded.cached)
    if time is None:
        if start is not None or stop is not None or speedup != 1:
            raise InputError(
                "has lengths but no arrival times to slice or speed up",
                file=name,
                mend="leave the slice and the speedup out",
            )
        notes.append("the file has no arrival times: all requests arrive at 0")
        at = np.zeros(len(recorded.prompt))
        return Arrivals(name, at, *columns, notes=notes, timed=False)
    if (np.diff(time) < 0).any():
        if not recorded.grouped:
            notes.append("rows were not in order of arrival: sorted, ties in the file's order")
        order = np.argsort(time, kind="stable")
        time = time[order]
        columns = tuple(None if column is None else column[order] for column in columns)
    low, high = recorded.span or (float(time[0]), float(time[-1]))
    first = 0 if start is None else int(np.searchsorted(time, start))
    last = len(time) if stop is None else int(np.searchsorted(time, stop))
    if first >= last:
        raise InputError(
            f"no requests {_slice_text(start, stop)}",
            file=name,
            mend=f"the file spans {low:.10g} to {high:.10g} s",
        )
    if recorded.zero is None:
        recorded.zero = float(time[0])
    zero = recorded.zero if start is None else start
    at = (time[first:last] - zero) / speedup
    if at[-1] > MOST_SECONDS:
        raise InputError(
            f"a speedup of {speedup:g} spreads it over {at[-1]:.3g} s",
            file=name,
            mend=f"give one that keeps it below {MOST_SECONDS:g} s",
        )
    columns = tuple(None if column is None else column[first:last] for column in columns)
    if last - first < len(time) and recorded.span is None:
        notes.append(f"{last - first} of {len(time)} requests taken")
    return Arrivals(name, at, *columns, notes=notes)


def _slice_text(start: float | None, stop: float | None) -> str:
    if start is None:
        return "in it" if stop is None else f"before {stop:g} s"
    return f"from {start:g} s on" if stop is None else f"from {start:g} to {stop:g} s"


def _no_models(path: Path, request: Request):
    raise InputError(
        f"names no models, so none is '{request.model}'", file=path, mend="leave the model out"
    )


def _formats() -> str:
    csv = "; ".join(format.text() for format in _CSV)
    return (
        f"formats read: {csv}; JSON lines of Mooncake ({','.join(_MOONCAKE)}[,hash_ids]) or of "
        "workbench.trace/1"
    )
