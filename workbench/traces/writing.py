"""``Trace`` to a trace file; what was read comes out again, unknown fields included."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec
import numpy as np
import zstandard

from workbench.files import atomic_write
from workbench.traces.model import HeaderFields, Trace


def write_trace(path: str | os.PathLike, trace: Trace) -> None:
    """Write ``trace`` as ``workbench.trace/1``, compressed as the suffix (.gz, .zst) says.

    Each confidence is written in the fewest digits that give the same float32 again: four for one
    recorded with four decimals. The same trace gives the same bytes.
    """
    path = Path(path)
    with atomic_write(path) as file:
        if path.suffix == ".gz":
            # no name and no time inside, so that equal traces are equal files
            with gzip.GzipFile("", "wb", compresslevel=9, fileobj=file, mtime=0) as out:
                _write(out, trace)
        elif path.suffix == ".zst":
            with zstandard.ZstdCompressor(level=19).stream_writer(file, closefd=False) as out:
                _write(out, trace)
        else:
            _write(file, trace)


def _write(out: IO[bytes], trace: Trace) -> None:
    for line in _lines(trace):
        out.write(line + b"\n")


def _lines(trace: Trace) -> Iterator[bytes]:
    header = trace.header
    known = {name: getattr(header, name) for name in HeaderFields.__struct_fields__}
    yield msgspec.json.encode({k: v for k, v in known.items() if v != ""} | header.unknown)
    for r in range(trace.requests):
        yield _request(trace, r)


def _request(trace: Trace, r: int) -> bytes:
    rows = slice(trace.row_start[r], trace.row_start[r + 1])
    domain = trace.domain_names[trace.domain[r]]
    fields: dict[str, object] = {
        "id": trace.ids[r],
        "domain": domain if domain or trace.header.domain else None,
        "prompt_tokens": int(trace.prompt_tokens[r]),
        "output_tokens": int(trace.output_tokens[r]),
        "arrival_s": None if np.isnan(trace.arrival_s[r]) else float(trace.arrival_s[r]),
        "session": trace.session[r] if trace.session else None,
        "cached_prompt_tokens": int(trace.cached_prompt_tokens[r]) or None,
    }
    arrays: dict[str, list | None] = {
        "confidence": None if trace.confidence is None else _decimals(trace.confidence[rows]),
        "accepted": trace.accepted[rows].tolist(),
        "verified": None if trace.verified is None else trace.verified[rows].tolist(),
    }
    encode = msgspec.json.encode
    members = [encode({k: v for k, v in fields.items() if v is not None})[1:-1], trace.extra[r]]
    members.append(encode({k: v for k, v in arrays.items() if v is not None})[1:-1])
    return b"{" + b",".join(member for member in members if member) + b"}"


def _decimals(values: np.ndarray) -> list:
    """float32 values as the Python floats whose shortest decimal form is theirs."""
    decimals = np.rint(values.astype(np.float64) * 1e4) / 1e4
    longer = decimals.astype(np.float32) != values
    decimals[longer] = values[longer].astype(str).astype(np.float64)
    return decimals.tolist()
