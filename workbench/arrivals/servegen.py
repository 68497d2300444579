"""ServeGen client windows: rates and gap shapes per client and 600 s, turned into requests."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np

from workbench.arrivals.columns import pick_model
from workbench.arrivals.model import Recorded, Request
from workbench.arrivals.processes import LEAST_SHAPE
from workbench.arrivals.table import INT32, Table
from workbench.errors import InputError
from workbench.traces.lines import read_lines
from workbench.validation import explain

WINDOWS = ("model", "client", "window_start_s", "rate_req_s", "pattern", "shape")
OPTIONAL = ("cv", "scale")
LENGTHS = {"model", "client", "window_start_s", "input_tokens", "output_tokens"}  # keys of a line
WINDOW_S = 600.0
_LENGTHS_WINDOW_S = 6 * 3600.0
_DAY_S = 86400.0
_MOST_REQUESTS = 5_000_000
_CHUNK = 100_000  # gaps


class _TooManyError(Exception):
    """A window holds more requests than can be simulated."""


class _Lengths(msgspec.Struct):
    model: str
    client: str | int
    window_start_s: float
    input_tokens: dict[str, float]
    output_tokens: dict[str, float]


Sampler = Callable[[int, np.random.Generator], np.ndarray]


def read_windows(table: Table, request: Request) -> Recorded:
    """Requests of all clients' windows that overlap the slice, superposed.

    Each window of each client is a stationary renewal process of its own stream, seeded by seed,
    model, client and window: a slice holds exactly the requests that the whole would have in it.
    Gaps are Gamma or Weibull of the given shape, with the scale that gives ``rate_req_s``. Lengths
    come from the lengths file beside it, input and output drawn independently.
    Raises InputError naming file, line and field.
    """
    notes = pick_model(table, "model", request.model)
    begin = table.number("window_start_s")
    rate = table.number("rate_req_s")
    shape = table.number("shape")
    for row in np.flatnonzero((shape < LEAST_SHAPE) | (shape > 1 / LEAST_SHAPE**2))[:1]:
        table.fail(int(row), "shape", f"is not in {LEAST_SHAPE:g}..{1 / LEAST_SHAPE**2:g}")
    patterns = table.columns["pattern"]
    for row, pattern in enumerate(patterns):
        if pattern not in _RENEWALS:
            known = ", ".join(_RENEWALS)
            table.fail(row, "pattern", f"'{pattern}' is unknown", f"there are {known}")
    low = -math.inf if request.start is None else request.start
    high = math.inf if request.stop is None else request.stop
    chosen = np.flatnonzero((begin < high) & (begin + WINDOW_S > low))
    expected = float(rate[chosen].sum() * WINDOW_S)  # windows are generated whole
    span = (float(begin.min()), float(begin.max()) + WINDOW_S)
    if expected > _MOST_REQUESTS:
        fitting = span[0] + WINDOW_S
        raise InputError(
            f"about {expected:.3g} requests, more than {_MOST_REQUESTS:,}",
            file=table.path,
            mend=f"take a slice of the file's {span[0]:g}–{span[1]:g} s, such as {span[0]:g} to "
            f"{fitting:g}",
        )
    lengths = lengths_beside(table.path)
    if lengths is None:
        notes.append("no lengths file beside the windows file: requests have no lengths")
    samplers = {} if lengths is None else _read_lengths(lengths)
    models, clients = table.columns["model"], table.columns["client"]
    times, prompts, outputs, total = [], [], [], 0
    for row in chosen.tolist():
        key = f"{models[row]}/{clients[row]}"
        rng = np.random.default_rng([request.seed, *f"{key}/{begin[row]}".encode()])
        try:
            at = begin[row] + _RENEWALS[patterns[row]](rate[row], shape[row], rng)
            total += len(at)
            if total > _MOST_REQUESTS:
                raise _TooManyError
        except _TooManyError:
            table.fail(
                row,
                "shape",
                f"bursts of shape {shape[row]:g} at {rate[row]:g} requests/s make it more than "
                f"{_MOST_REQUESTS:,} requests",
                "raise the shape or lower the rate",
            )
        times.append(at)
        if lengths is not None:
            own = _at_time(samplers, models[row], clients[row], begin[row], lengths)
            prompts.append(own[0](len(at), rng))
            outputs.append(own[1](len(at), rng))
    if lengths is not None:
        notes.append("prompt and output lengths are drawn independently of each other")
    joined = [
        np.concatenate(parts) if parts else np.empty(0) for parts in (times, prompts, outputs)
    ]
    return Recorded(
        time=joined[0],
        prompt=None if lengths is None else joined[1].astype(np.int32),
        output=None if lengths is None else joined[2].astype(np.int32),
        notes=notes,
        span=span,
        zero=float(begin[chosen].min()) if len(chosen) else None,
        grouped=True,
    )


def _gamma_gaps(rate: float, shape: float, rng: np.random.Generator) -> np.ndarray:
    scale = 1.0 / (rate * shape)
    # length-biased gap: the one that the window's start falls into
    first = rng.gamma(shape + 1.0, scale) * rng.random()
    return _renewal(first, rate, shape**-0.5, lambda n: rng.gamma(shape, scale, n))


def _weibull_gaps(rate: float, shape: float, rng: np.random.Generator) -> np.ndarray:
    mean = math.gamma(1 + 1 / shape)
    scale = 1.0 / (rate * mean)
    first = scale * rng.gamma(1.0 + 1.0 / shape) ** (1.0 / shape) * rng.random()
    cv = math.sqrt(math.gamma(1 + 2 / shape) / mean**2 - 1)
    return _renewal(first, rate, cv, lambda n: scale * rng.weibull(shape, n))


def _renewal(first: float, rate: float, cv: float, gaps) -> np.ndarray:
    """Times in [0, 600) of a renewal process whose first event is at ``first``.

    Raises _TooManyError where a tail so heavy that nearly all fall in one burst makes it endless.
    """
    mean = rate * WINDOW_S
    parts, last, count = [np.array([first])], first, 1
    while last < WINDOW_S:
        if count > _MOST_REQUESTS:
            raise _TooManyError
        left = (WINDOW_S - last) / WINDOW_S * mean
        # the spread of heavy tails is not bounded by what fits in memory
        spread = min(4 * cv * math.sqrt(left), left + _CHUNK)
        more = gaps(max(int(left + spread) + 8, count // 2 if len(parts) > 4 else 0))
        parts.append(last + np.cumsum(more))
        last, count = parts[-1][-1], count + len(more)
    at = np.concatenate(parts)
    return at[: np.searchsorted(at, WINDOW_S)]


def _idle(renewal):
    return lambda rate, shape, rng: renewal(rate, shape, rng) if rate > 0 else np.empty(0)


_RENEWALS = {"Gamma": _idle(_gamma_gaps), "Weibull": _idle(_weibull_gaps)}


def lengths_beside(path: Path) -> Path | None:
    """``X_lengths.jsonl[.gz|.zst]`` beside ``X_windows.csv…``; None if there is none."""
    stem = re.sub(r"(\.csv)?(\.gz|\.zst)?$", "", path.name)
    if not stem.endswith("windows"):
        return None
    stem = stem.removesuffix("windows") + "lengths.jsonl"
    found = [path.with_name(stem + suffix) for suffix in ("", ".gz", ".zst")]
    return next((file for file in found if file.is_file()), None)


def _read_lengths(path: Path) -> dict[tuple[str, str], dict[float, tuple[Sampler, Sampler]]]:
    """Samplers of input and output length by (model, client) and 6 h window."""
    decoder = msgspec.json.Decoder(_Lengths)
    samplers: dict = {}
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        try:
            row = decoder.decode(line)
        except msgspec.DecodeError as error:
            problem, place, mend = explain(error)
            place = f"line {number}" + (f", {place}" if place else "")
            raise InputError(problem, file=path, place=place, mend=mend) from error
        pair = tuple(
            _sampler(path, f"line {number}, {field}", getattr(row, field))
            for field in ("input_tokens", "output_tokens")
        )
        samplers.setdefault((row.model, str(row.client)), {})[row.window_start_s] = pair
    return samplers


def _sampler(path: os.PathLike, place: str, shares: dict[str, float]) -> Sampler:
    """Draws lengths by their shares, which are renormalised: small ones were left out."""
    share = np.array(list(shares.values()))
    if not all(re.fullmatch(r"[1-9]\d{0,9}", text) and int(text) <= INT32 for text in shares):
        raise InputError(
            "a length is not a whole number > 0", file=path, place=place, mend="correct the lengths"
        )
    if (
        not len(share)
        or not (np.isfinite(share) & (share >= 0)).all()
        or not 0 < share.sum() < np.inf
    ):
        raise InputError(
            "shares must be ≥ 0 with a finite sum > 0", file=path, place=place, mend="correct them"
        )
    value = np.array(list(map(int, shares)), np.int64)
    edge = np.cumsum(share / share.sum())[:-1]
    return lambda n, rng: value[np.searchsorted(edge, rng.random(n), side="right")]


def _at_time(samplers, model: str, client: str, time: float, path: Path) -> tuple[Sampler, Sampler]:
    """The client's samplers of the 6 h window around ``time``, else of the nearest time of day."""
    own = samplers.get((model, client))
    if own is None:
        raise InputError(
            f"no lengths of client {client} of {model}", file=path, mend="add a line for it"
        )
    # distance to the middle of a lengths window, round the clock
    middle = np.array(list(own)) + _LENGTHS_WINDOW_S / 2
    away = np.abs(middle - (time + WINDOW_S / 2))
    if away.min() > _LENGTHS_WINDOW_S / 2:
        away = np.abs((away + _DAY_S / 2) % _DAY_S - _DAY_S / 2)
    return list(own.values())[int(away.argmin())]
