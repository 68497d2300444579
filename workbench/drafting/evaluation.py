"""How good a drafter is, from its dense traces: accepted length, acceptance, threshold sweep.

Accepted length is over the rounds of a replay from anchor 0 on; rounds that reach an output's end
are left out. Of a trace whose confidences see only the prefix, all of it is exact.
"""

from __future__ import annotations

import dataclasses

import msgspec
import numpy as np

from workbench.errors import InputError
from workbench.traces import Trace, rounds_of
from workbench.traces.rounds import judged

THRESHOLDS = tuple(round(0.1 * i, 1) for i in range(10))


class Group(msgspec.Struct, kw_only=True):
    """One domain or benchmark."""

    name: str
    requests: int
    anchors: int
    rounds: int  # of whole-block verification, those that reach an end left out
    accepted_length: float  # τ, bonus token included
    standard_error: float  # of it, clustered by request
    all_anchors: float  # mean accepted + 1 over anchors: another, higher statistic
    conditional: list[float]  # acceptance of position k given 1..k − 1, over anchors
    conditional_error: list[float]  # standard errors of it, clustered by request


class Sweep(msgspec.Struct, kw_only=True):
    """One confidence threshold: a request is verified up to the first c_k below it."""

    threshold: float
    accepted_length: float
    verification_budget: float  # mean of 1 + ℓ
    acceptance_rate: float  # accepted ÷ verified drafts


class Evaluation(msgspec.Struct, kw_only=True):
    """All that ``workbench evaluate`` prints of one trace. What does not exist is NaN."""

    trace: str
    drafter: str
    temperature: float
    block_size: int
    domains: list[Group]
    benchmarks: list[Group]
    sweep: dict[str, list[Sweep]]  # by domain; empty without confidences


def evaluate(trace: Trace) -> Evaluation:
    """Raises InputError unless the trace is dense."""
    if trace.header.coverage != "dense":
        raise InputError(
            "is no dense trace, so not every round can be replayed",
            file=trace.path,
            place="coverage",
            mend="record one with `workbench record`",
        )
    domain = np.array([trace.domain_names[i] or "–" for i in trace.domain])
    benchmark = np.array([benchmark_of(trace, r) for r in range(trace.requests)])
    return Evaluation(
        trace=trace.name,
        drafter=trace.header.drafter,
        temperature=trace.header.temperature,
        block_size=trace.block_size,
        domains=[_group(trace, name, domain == name) for name in dict.fromkeys(domain.tolist())],
        benchmarks=[
            _group(trace, name, benchmark == name) for name in dict.fromkeys(benchmark.tolist())
        ],
        sweep={} if trace.confidence is None else _sweeps(trace, domain),
    )


def benchmark_of(trace: Trace, request: int) -> str:
    """The request's ``benchmark`` field, else its id without the number at the end."""
    if trace.extra[request]:
        named = msgspec.json.decode(b"{" + trace.extra[request] + b"}").get("benchmark")
        if isinstance(named, str) and named:
            return named
    return trace.ids[request].rpartition("-")[0] or trace.ids[request]


def _truncated(trace: Trace, lengths: np.ndarray) -> tuple[Trace, np.ndarray]:
    """The trace as if row i were verified up to ``lengths[i]``, and its inner rounds' rows."""
    kept = np.minimum(lengths, trace.accepted).astype(trace.accepted.dtype)
    cut = dataclasses.replace(trace, accepted=kept)
    rounds = rounds_of(cut)
    return cut, rounds.row[~rounds.reaches_end]


def _group(trace: Trace, name: str, chosen: np.ndarray) -> Group:
    """``chosen``: bool [requests]."""
    rounds = rounds_of(trace)
    request = trace.row_request()
    row = rounds.row[~rounds.reaches_end]
    row = row[chosen[request[row]]]
    mean, error = _clustered(trace.accepted[row], request[row], trace.requests)
    mine = chosen[request]
    inside = trace.row_anchor() + trace.block_size <= trace.output_tokens[request] - 1
    passed = []
    for k in range(1, trace.block_size + 1):
        tried = mine & judged(trace, k)
        passed.append(_clustered(trace.accepted[tried] >= k, request[tried], trace.requests))
    return Group(
        name=name,
        requests=int(chosen.sum()),
        anchors=int(mine.sum()),
        rounds=len(row),
        accepted_length=1 + mean,
        standard_error=error,
        all_anchors=1 + _mean(trace.accepted[mine & inside]),
        conditional=[share for share, _ in passed],
        conditional_error=[error for _, error in passed],
    )


def _clustered(values: np.ndarray, request: np.ndarray, requests: int) -> tuple[float, float]:
    """Mean of ``values`` [n] and its standard error, where those of one request are one draw."""
    if not len(values):
        return float("nan"), float("nan")
    mean = _mean(values)
    sums = np.bincount(request, values, requests)
    counts = np.bincount(request, minlength=requests)
    return mean, float(np.sqrt(((sums - mean * counts) ** 2).sum()) / len(values))


def _sweeps(trace: Trace, domain: np.ndarray) -> dict[str, list[Sweep]]:
    found: dict[str, list[Sweep]] = {name: [] for name in dict.fromkeys(domain.tolist())}
    domain = domain[trace.row_request()]
    for threshold in THRESHOLDS:
        keep = trace.confidence >= np.float32(threshold)
        lengths = np.logical_and.accumulate(keep, axis=1).sum(axis=1)
        cut, rows = _truncated(trace, lengths)
        for name, sweep in found.items():
            mine = rows[domain[rows] == name]
            kept, verified = _mean(cut.accepted[mine]), _mean(lengths[mine])
            sweep.append(
                Sweep(
                    threshold=threshold,
                    accepted_length=1 + kept,
                    verification_budget=1 + verified,
                    acceptance_rate=kept / verified if verified else float("nan"),
                )
            )
    return found


def _mean(values: np.ndarray) -> float:
    return float(values.mean(dtype=np.float64)) if len(values) else float("nan")
