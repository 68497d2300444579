"""Random whole rounds that no table was made from, and how far the tables miss them."""

from __future__ import annotations

import random
import statistics

from gpu_probe import price
from gpu_probe.grid import Grid
from gpu_probe.rounds import Cell


def random_cells(grid: Grid, block_size: int, count: int, seed: int) -> list[Cell]:
    """Rounds of 1 to ``max_requests`` requests (log-uniform), each with its own ℓ and context.

    Every fourth has a prefill chunk beside the decodes. Contexts vary by half around a mean that
    is log-uniform up to what the page pool holds.
    """
    draw = random.Random(seed)
    top = max(grid.contexts)
    cells = []
    for i in range(count):
        requests = round(grid.max_requests ** draw.random())
        # with one more request, the chunk's, and half more than the mean
        room = min(0.6 * grid.cached_tokens / requests, 0.66 * grid.cached_tokens / (requests + 1))
        room = min(top, int(room))
        low = min(64, room)
        mean = low * (room / low) ** draw.random()
        share = draw.random()
        queries = [
            1 + sum(draw.random() < share for _ in range(block_size)) for _ in range(requests)
        ]
        contexts = [max(1, int(mean * draw.uniform(0.5, 1.5))) for _ in range(requests)]
        chunk = before = 0
        if i % 4 == 3:
            chunk = draw.randint(max(17, max(grid.chunks) // 16), max(grid.chunks) // 2)
            before = draw.randint(0, max(grid.draft_contexts))
        cells.append(Cell(tuple(queries), tuple(contexts), chunk, before))
    return cells


def as_step(row: dict) -> price.Step:
    """The step of a recorded cell."""
    return price.Step(
        row["requests"],
        row["query_tokens"],
        row["mean_context"],
        row["chunk"],
        row["chunk_context"],
    )


def record(cell: Cell, timing: dict) -> dict:
    """A cell and its seconds as they are kept in the profile."""
    return {
        "requests": len(cell.queries),
        "query_tokens": sum(cell.queries),
        "mean_context": round(statistics.fmean(cell.contexts), 1),
        "chunk": cell.chunk,
        "chunk_context": cell.before,
        **{key: round(value, 9) for key, value in timing.items()},
    }


def errors(ratios: list[float]) -> dict:
    """Median, 95th percentile and largest of |predicted ÷ measured − 1|, and the median bias."""
    off = sorted(abs(ratio - 1) for ratio in ratios)
    return {
        "cells": len(off),
        "median": round(statistics.median(off), 4),
        "p95": round(price.lookup(range(len(off)), off, 0.95 * (len(off) - 1)), 4),
        "max": round(off[-1], 4),
        "bias": round(statistics.median(ratios) - 1, 4),
    }


def fit_error(document: dict, rounds: list[dict]) -> dict:
    """The document as the workbench reads it against the rounds; adds ``ratio`` to every cell.

    Of the whole rounds, of those without a prefill chunk, and of the two halves of a round.
    """
    ratios: dict[str, list[float]] = {"all": [], "without_prefill": [], "verify": [], "draft": []}
    for row in rounds:
        step = as_step(row)
        verify, draft = price.target(document, step), price.draft(document, step)
        row["ratio"] = round((verify + draft) / row["seconds"], 4)
        row["predicted_verify_seconds"] = round(verify, 9)
        ratios["all"].append(row["ratio"])
        if not row["chunk"]:
            ratios["without_prefill"].append(row["ratio"])
        ratios["verify"].append(verify / row["verify_seconds"])
        drafted = row["seconds"] - row["verify_seconds"]
        if draft and drafted > 0:
            ratios["draft"].append(draft / drafted)
    whole = errors(ratios.pop("all"))
    return {**whole, **{name: errors(part) for name, part in ratios.items() if part}}
