"""What a step costs by a profile's tables, as the workbench reads them.

step = verify(B at its captured size; past the last one the eager curve) + attention(R, context,
     query tokens per request) + prefill(chunk, what precedes it) + draft(R, context)
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple


class Step(NamedTuple):
    """A step's decodes (R requests with ``queries`` tokens in all, ``context`` each) and chunk."""

    requests: int
    queries: int
    context: float
    chunk: int = 0
    before: int = 0


def lookup(xs: Sequence[float], ys: Sequence[float], x: float) -> float:
    """Linear between points; outside linear from the last two, never below the edge point."""
    if len(xs) == 1:
        return ys[0]
    if x <= xs[0]:
        slope = (ys[1] - ys[0]) / (xs[1] - xs[0])
        return max(ys[0], ys[0] + slope * (x - xs[0]))
    for (a, b), (u, v) in zip(itertools.pairwise(xs), itertools.pairwise(ys), strict=True):
        if x <= b:
            return u + (v - u) * (x - a) / (b - a)
    slope = (ys[-1] - ys[-2]) / (xs[-1] - xs[-2])
    return max(ys[-1], ys[-1] + slope * (x - xs[-1]))


def table(rows: Sequence, columns: Sequence, values: Sequence[Sequence], row, column) -> float:
    """``lookup`` along the columns, then between the rows."""
    return lookup(rows, [lookup(columns, line, column) for line in values], row)


def layers(axes: dict, axis: str) -> tuple[list, list]:
    """Points of the optional outermost ``axis`` and its tables; without it one table at 0."""
    points = axes.get(axis)
    return (points, axes["seconds"]) if points else ([0], [axes["seconds"]])


def attention(axes: dict, requests: float, context: float, queries: float) -> float:
    """Attention seconds from the table, ``queries`` tokens per request."""
    points, tables = layers(axes, "query_tokens")
    rows, columns = axes["requests"], axes["context_tokens"]
    return lookup(
        points, [table(rows, columns, each, requests, context) for each in tables], queries
    )


def padded(document: dict, tokens: int) -> int:
    """Batch tokens at the next captured size; unchanged past the last one."""
    sizes = document["graphs"]["batch_tokens"]
    return next((size for size in sizes if size >= tokens), tokens)


def verify(document: dict, step: Step, mixed: dict | None = None) -> float:
    """The forward pass without attention; ``mixed`` replaces the curve beside a chunk."""
    tokens = step.queries + step.chunk
    graphs = document["graphs"]
    if mixed is not None and step.chunk and tokens <= graphs["batch_tokens"][-1]:
        rows, columns = mixed["prefill_tokens"], mixed["batch_tokens"]
        return table(rows, columns, mixed["seconds"], step.chunk, padded(document, tokens))
    curve = document["verify"]
    saved = curve.get("prefill_token_seconds", 0.0) * step.chunk
    if tokens > graphs["batch_tokens"][-1]:
        past = graphs["beyond"]
        return max(0.0, lookup(past["batch_tokens"], past["seconds"], tokens) + saved)
    seconds = lookup(curve["batch_tokens"], curve["seconds"], padded(document, tokens))
    return max(0.0, seconds + saved)


def target(document: dict, step: Step, mixed: dict | None = None) -> float:
    """Seconds of the target's step."""
    seconds = verify(document, step, mixed)
    if step.requests:
        each = step.queries / step.requests
        seconds += attention(document["attention"], step.requests, step.context, each)
    if step.chunk:
        part = document["prefill"]
        rows, columns = part["chunk_tokens"], part["context_tokens"]
        seconds += table(rows, columns, part["seconds"], step.chunk, step.before)
    return seconds


def draft(document: dict, step: Step) -> float:
    """Seconds of drafting the whole block."""
    part = document.get("draft")
    if part is None or not step.requests:
        return 0.0
    points, tables = layers(part, "context_tokens")
    columns = [[row[-1] for row in each] for each in tables]
    whole = [lookup(part["requests"], column, step.requests) for column in columns]
    seconds = lookup(points, whole, step.context)
    share = part.get("context_layers", 0) / document["target"]["layers"]
    if share:
        read = document["attention"]
        more = attention(read, step.requests, step.context, 1)
        more -= attention(read, step.requests, part["reference_context"], 1)
        seconds = max(0.0, seconds + share * more)
    return seconds + part.get("per_prefill_token_seconds", 0.0) * step.chunk
