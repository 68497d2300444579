"""What a step costs by a profile's tables: the additive form, with or without a query axis.

step = verify(B at its captured size; past the last one the eager curve) + attention(R, context)
     + prefill(chunk, what precedes it) + draft(R, context)
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


def attention(axes: dict, requests: float, context: float, queries: float) -> float:
    """Attention seconds from the table with a query axis, ``queries`` tokens per request."""
    by_query = [
        table(axes["requests"], axes["context_tokens"], values, requests, context)
        for values in axes["seconds"]
    ]
    return lookup(axes["query_tokens"], by_query, queries)


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
    if tokens > graphs["batch_tokens"][-1]:
        return lookup(graphs["beyond"]["batch_tokens"], graphs["beyond"]["seconds"], tokens)
    curve = document["verify"]
    return lookup(curve["batch_tokens"], curve["seconds"], padded(document, tokens))


def target(document: dict, step: Step, axes: dict | None = None, mixed: dict | None = None):
    """Seconds of the target's step. ``axes``: attention with a query axis instead of the table."""
    seconds = verify(document, step, mixed)
    if step.requests:
        if axes is None:
            part = document["attention"]
            rows, columns = part["requests"], part["context_tokens"]
            seconds += table(rows, columns, part["seconds"], step.requests, step.context)
        else:
            each = step.queries / step.requests
            seconds += attention(axes, step.requests, step.context, each)
    if step.chunk:
        part = document["prefill"]
        rows, columns = part["chunk_tokens"], part["context_tokens"]
        seconds += table(rows, columns, part["seconds"], step.chunk, step.before)
    return seconds


def draft(document: dict, step: Step, by_context: dict | None = None) -> float:
    """Seconds of drafting the whole block.

    ``by_context``: the draft measured at several contexts, instead of the table of their mean.
    """
    part = document.get("draft")
    if part is None or not step.requests:
        return 0.0
    if by_context is not None:
        columns = by_context["context_tokens"]
        seconds = table(
            part["requests"], columns, by_context["seconds"], step.requests, step.context
        )
    else:
        last = [row[-1] for row in part["seconds"]]
        seconds = lookup(part["requests"], last, step.requests)
        share = part.get("context_layers", 0) / document["target"]["layers"]
        if share:
            read = document["attention"]
            at = [
                table(read["requests"], read["context_tokens"], read["seconds"], step.requests, c)
                for c in (step.context, part["reference_context"])
            ]
            seconds = max(0.0, seconds + share * (at[0] - at[1]))
    return seconds + part.get("per_prefill_token_seconds", 0.0) * step.chunk
