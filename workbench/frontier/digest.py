"""Content keys: what a simulation depends on, as one SHA-256, whatever files are called."""

from __future__ import annotations

import dataclasses
import hashlib
from functools import cache
from pathlib import Path

import msgspec
import numpy as np

import workbench
from workbench.profiles import Lookup, StepCost
from workbench.schedulers.user_file import file_of
from workbench.serving import Arm, Demand, Load, Population

_PACKAGES = ("arrivals", "profiles", "schedulers", "serving", "traces")


def digest(*values: object) -> str:
    """SHA-256, as hex, over the content of numbers, text, arrays, containers and records.

    Records are dataclasses, msgspec structs and plain objects (by their state). Types count:
    1, 1.0 and "1" differ.
    """
    hasher = hashlib.sha256()
    for value in values:
        _feed(hasher, value)
    return hasher.hexdigest()


def _feed(hasher, value: object) -> None:
    if isinstance(value, Population):
        # neither how its files are called nor fields that no simulation reads
        fields = [f.name for f in dataclasses.fields(value) if f.name != "traces"]
        _feed(hasher, [getattr(value, name) for name in fields])
        _feed(hasher, [msgspec.structs.replace(t.header, unknown={}) for t in value.traces])
    elif isinstance(value, StepCost):
        _feed(hasher, value.profile)
    elif isinstance(value, Lookup):
        _feed(hasher, [value.rule, value.points, value.seconds, value.limit, value.clamped])
    elif value is None or isinstance(value, bool | int | float | str | bytes | np.generic):
        text = value if isinstance(value, bytes) else repr(value).encode()
        hasher.update(f"{type(value).__name__}:{len(text)}:".encode() + text)
    elif isinstance(value, np.ndarray):
        hasher.update(f"array:{value.dtype.str}:{value.shape}:".encode())
        hasher.update(np.ascontiguousarray(value).data)
    elif isinstance(value, list | tuple):
        hasher.update(f"list:{len(value)}:".encode())
        for item in value:
            _feed(hasher, item)
    elif isinstance(value, dict):
        hasher.update(f"dict:{len(value)}:".encode())
        for key, item in sorted(value.items(), key=lambda pair: str(pair[0])):
            _feed(hasher, key)
            _feed(hasher, item)
    else:
        hasher.update(type(value).__qualname__.encode())
        _feed(hasher, _state(value))


def _state(value: object) -> object:
    if dataclasses.is_dataclass(value):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, msgspec.Struct):
        return {name: getattr(value, name) for name in value.__struct_fields__}
    return value.__getstate__()


@cache
def sources() -> str:
    """The version of the package and the text of all that decides what a simulation gives."""
    root = Path(workbench.__file__).parent
    files = sorted(path for name in _PACKAGES for path in (root / name).rglob("*.py"))
    texts = {str(path.relative_to(root)): path.read_bytes() for path in files}
    return digest(workbench.__version__, texts, (root / "compiled.py").read_bytes())


def arm_digest(arm: Arm) -> str:
    """Of all of an arm; a user's own scheduler counts by the bytes of its file."""
    path = file_of(arm.scheduler)
    return digest(arm, None if path is None else path.read_bytes())


def demand_digest(demand: Demand) -> str:
    """Of the recorded requests, the arrivals and how they are mixed; not of how many are asked for,
    which ``point_key`` takes.
    """
    return digest(dataclasses.replace(demand, requests=None))


def point_key(
    arm: str, demand: str, load: Load, seed: int, requests: int, metrics: dict | None = None
) -> str:
    """The key of one simulation: two that share it have the same result.

    arm, demand: their digests; requests: how many; metrics: what the figures are made with
    besides (SLO, price).
    """
    return digest(sources(), arm, demand, load, seed, requests, metrics or {})
