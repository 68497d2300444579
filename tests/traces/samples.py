"""Small traces for the tests, as Python objects, and random ones."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import zstandard

from workbench.traces import Trace


def header(**fields) -> dict:
    return {
        "format": "workbench.trace/1",
        "coverage": "dense",
        "block_size": 3,
        "target": "T",
        "drafter": "D",
        "temperature": 1.0,
        "domain": "chat",
        "confidence": "raw",
    } | fields


def request(**fields) -> dict:
    """Dense, γ = 3, four output tokens. A field given as None is left out."""
    whole = {
        "id": "a",
        "prompt_tokens": 5,
        "output_tokens": 4,
        "confidence": [[0.9, 0.5, 0.25], [0.8, 0, 1], [0.125, 0.0625, 1.0]],
        "accepted": [3, 0, 1],
    } | fields
    return {key: value for key, value in whole.items() if value is not None}


def rounds_request(**fields) -> dict:
    """Rounds, γ = 3, seven output tokens in rounds of 2 + 1 + 3 tokens."""
    return request(
        **{
            "output_tokens": 7,
            "confidence": [[0.9, 0.5, 0.25], [0.8, 0.1, 1], [0.6, 0.7, 0.75]],
            "accepted": [1, 0, 2],
            "verified": [1, 2, 3],
        }
        | fields
    )


def write(path: Path, *objects: object) -> Path:
    """One JSON line per object (bytes go in as they are), compressed as the suffix says."""
    lines = [o if isinstance(o, bytes) else json.dumps(o).encode() for o in objects]
    data = b"".join(line + b"\n" for line in lines)
    if path.suffix == ".gz":
        data = gzip.compress(data)
    elif path.suffix == ".zst":
        data = zstandard.compress(data)
    path.write_bytes(data)
    return path


def same(a: Trace, b: Trace) -> bool:
    """Equal in all but name and path, data types included."""
    for field in Trace.__dataclass_fields__:
        x, y = getattr(a, field), getattr(b, field)
        if isinstance(x, np.ndarray):
            if x.dtype != y.dtype or not np.array_equal(x, y, equal_nan=x.dtype.kind == "f"):
                return False
        elif field not in ("name", "path") and x != y:
            return False
    return True


def random_rounds(rng: np.random.Generator, rate: np.ndarray, requests: int, confident=True):
    """A live log, header first: i.i.d. rounds with conditional acceptance ``rate`` [γ].

    Confidences are the rates with noise that says nothing; verified lengths are random.
    """
    gamma = len(rate)
    yield header(coverage="rounds", block_size=gamma)
    for r in range(requests):
        output, reached = int(rng.integers(1, 60)), 0
        rows = {"confidence": [], "accepted": [], "verified": []}
        while reached < output - 1:
            verified = int(rng.integers(0, gamma + 1))
            passed = np.append(rng.random(gamma) < rate, False)
            accepted = min(int(np.argmin(passed)), verified)
            rows["confidence"].append(np.round(rng.random(gamma), 3).tolist())
            rows["accepted"].append(accepted)
            rows["verified"].append(verified)
            reached += accepted + 1
        if not confident:
            del rows["confidence"]
        yield {"id": str(r), "prompt_tokens": 1, "output_tokens": output, **rows}
