"""Reading the cost tables that engines' planners use (``--planner-table``).

Formats: a ``workbench.profile/1``; SGLang's 1-D and additive SPS tables
(sgl-project/sglang, speculative/dspark_components/dspark_sps.py); TensorRT-LLM's legacy table
(NVIDIA/TensorRT-LLM, _torch/speculative/dspark_sps_profiler.py).
"""

from __future__ import annotations

import os
from typing import Any

import msgspec

from workbench.errors import InputError
from workbench.files import resolve
from workbench.profiles.cost import StepCost
from workbench.profiles.document import Checks, convert, read_object
from workbench.profiles.interpolate import Curve
from workbench.profiles.lookup import Lookup, Rule
from workbench.profiles.planner import TableBelief
from workbench.profiles.profile import FORMAT, Profile
from workbench.profiles.reader import parse_profile

FLAT = "flat table: every budget is priced alike, so planners verify everything"
_KNOWN = (
    f'a "{FORMAT}", SGLang\'s sample_batch_tokens or bias_seconds table, '
    "TensorRT-LLM's token_counts table"
)


class _SpsTable(msgspec.Struct):
    sample_batch_tokens: list[int]
    sample_steps_per_sec: list[float]
    max_batch_tokens: int


class _SpsAdditiveTable(msgspec.Struct):
    bias_seconds: float
    bs_probes: list[int]
    alpha_seconds: list[float]
    m_probes: list[int]
    theta_seconds: list[float]


class _TrtTable(msgspec.Struct):
    token_counts: list[int]
    step_time_ms: list[float]
    fixed_overhead_ms: float = 0.0
    batch_sizes: list[int] = []
    batch_overhead_ms: list[float] = []
    minimum_predicted_gain: float = 0.01


def read_planner_table(path: str | os.PathLike, lookup: Rule | None = None) -> TableBelief:
    """A planner's belief from a cost table; ``lookup`` replaces its engine's own rule.

    A profile may be named as ``read_profile`` does. Defaults: profile linear, SGLang 1-D floor
    and additive linear, TensorRT-LLM linear (engines clamp at both ends, a profile extrapolates).
    What is odd but legal is in ``TableBelief.warnings``. Raises InputError.
    """
    path = resolve(path, "profiles", ("", ".json"))
    document = read_object(path)
    if "format" in document:
        return profile_belief(parse_profile(document, path), lookup, source=os.fspath(path))
    if "bias_seconds" in document:
        return _sglang_additive(document, path, lookup)
    if "sample_batch_tokens" in document:
        return _sglang(document, path, lookup)
    if "token_counts" in document:
        return _trt_legacy(document, path, lookup)
    if "cost_tables" in document:
        raise InputError(
            "TensorRT-LLM's exact schema is not read",
            file=path,
            place="cost_tables",
            mend="give its legacy token_counts table",
        )
    raise InputError("no cost table that is known", file=path, mend=f"known: {_KNOWN}")


def profile_belief(
    profile: Profile, lookup: Rule | None = None, source: str | None = None
) -> TableBelief:
    """A profile as a planner's table, with a lookup rule in place of graph padding.

    The probes are the verify points up to the capture limit and the eager points past it; for
    ``ceil`` and ``cells`` the captured sizes, which is where vLLM takes its startup samples.
    """
    rule: Rule = lookup or "linear"
    cost, verify, graphs = StepCost(profile), profile.verify, profile.graphs
    limit = cost.last_captured
    points, seconds = list(verify.batch_tokens), list(verify.seconds)
    if graphs is not None:
        beyond = graphs.beyond
        tail = (
            list(zip(points, seconds, strict=True))
            if beyond is None
            else list(zip(beyond.batch_tokens, beyond.seconds, strict=True))
        )
        if rule in ("ceil", "cells"):
            head = [(n, cost.verify_seconds(n)) for n in graphs.batch_tokens]
        else:
            head = [(n, s) for n, s in zip(points, seconds, strict=True) if n <= limit]
        probes = head + [(n, s) for n, s in tail if n > limit]
        points, seconds = [n for n, _ in probes], [s for _, s in probes]
    belief = TableBelief(
        source=source or profile.name,
        kind=FORMAT,
        by_batch=Lookup(
            points, seconds, rule, limit=limit, clamped=graphs is None and rule == "ceil"
        ),
        parts=cost,
    )
    return _warned(belief)


def _sglang(document: dict[str, Any], path, lookup: Rule | None) -> TableBelief:
    table, checks = convert(document, _SpsTable, path), Checks(path)
    tokens, sps = table.sample_batch_tokens, table.sample_steps_per_sec
    checks.axis("sample_batch_tokens", tokens)
    checks.vector("sample_steps_per_sec", sps, "sample_batch_tokens", tokens, positive=True)
    checks.require(
        table.max_batch_tokens >= tokens[-1],
        "max_batch_tokens",
        f"{table.max_batch_tokens} is below the last probe {tokens[-1]}",
        "give at least the last probe",
    )
    by_batch = Lookup(tokens, [1.0 / value for value in sps], lookup or "floor", clamped=True)
    return _warned(TableBelief(os.fspath(path), "SGLang 1-D SPS table", by_batch))


def _sglang_additive(document: dict[str, Any], path, lookup: Rule | None) -> TableBelief:
    table, checks = convert(document, _SpsAdditiveTable, path), Checks(path)
    checks.number("bias_seconds", table.bias_seconds, positive=True)
    for axis, values in (("bs_probes", "alpha_seconds"), ("m_probes", "theta_seconds")):
        points = getattr(table, axis)
        checks.axis(axis, points, least=0)
        # a least-squares fit may leave small negative terms; the sum is checked below
        checks.vector(values, getattr(table, values), axis, points, least=float("-inf"))
    least = table.bias_seconds + min(table.alpha_seconds) + min(table.theta_seconds)
    checks.require(
        least > 0,
        "bias_seconds",
        f"the cheapest step would take {least:g} s",
        "bias + smallest alpha + smallest theta must be more than 0",
    )
    return _warned(
        TableBelief(
            os.fspath(path),
            "SGLang additive SPS table",
            Lookup(table.m_probes, table.theta_seconds, lookup or "linear", clamped=True),
            by_requests=Curve(table.bs_probes, table.alpha_seconds),
            requests_range=(table.bs_probes[0], table.bs_probes[-1]),
            constant=table.bias_seconds,
        )
    )


def _trt_legacy(document: dict[str, Any], path, lookup: Rule | None) -> TableBelief:
    table, checks = convert(document, _TrtTable, path), Checks(path)
    tokens, sizes = table.token_counts, table.batch_sizes
    checks.axis("token_counts", tokens)
    checks.vector("step_time_ms", table.step_time_ms, "token_counts", tokens)
    checks.number("fixed_overhead_ms", table.fixed_overhead_ms)
    checks.number("minimum_predicted_gain", table.minimum_predicted_gain)
    if sizes or table.batch_overhead_ms:
        checks.axis("batch_sizes", sizes)
        checks.vector("batch_overhead_ms", table.batch_overhead_ms, "batch_sizes", sizes)
    overhead = min(table.batch_overhead_ms, default=0.0)
    checks.require(
        table.fixed_overhead_ms + overhead + min(table.step_time_ms) > 0,
        "step_time_ms",
        "the cheapest step would take no time",
        "give step times above 0 or a fixed overhead",
    )
    by_batch = Lookup(
        tokens, [ms / 1000 for ms in table.step_time_ms], lookup or "linear", clamped=True
    )
    return _warned(
        TableBelief(
            os.fspath(path),
            "TensorRT-LLM legacy cost table",
            by_batch,
            by_requests=Curve(sizes, [ms / 1000 for ms in table.batch_overhead_ms])
            if sizes
            else None,
            requests_range=(sizes[0], sizes[-1]) if sizes else (0, 0),
            constant=table.fixed_overhead_ms / 1000,
            minimum_predicted_gain=table.minimum_predicted_gain,
        )
    )


def _warned(belief: TableBelief) -> TableBelief:
    seconds, points = belief.by_batch.seconds, belief.by_batch.points
    if len(points) == 1 or seconds.min() == seconds.max():
        belief.warnings.append(FLAT)
        return belief
    falls = (seconds[1:] < seconds[:-1]).nonzero()[0]
    if len(falls):
        i = int(falls[0])
        belief.warnings.append(
            f"not monotone: {points[i + 1]} batch tokens are priced below {points[i]} "
            f"({len(falls)} such places); noise there attracts planners"
        )
    return belief
