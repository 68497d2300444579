"""Every part of a run as a function that returns plain numbers, ready for a checkpoint."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence

import torch

from gpu_probe.errors import ProbeError
from gpu_probe.held_out import record
from gpu_probe.host import host_costs
from gpu_probe.measure import Probe
from gpu_probe.rounds import Cell, Rounds, whole_rounds
from gpu_probe.shapes import DRAFTERS
from gpu_probe.telemetry import Telemetry
from gpu_probe.timing import Timing


def _seconds(timings: list[Timing]) -> list[float]:
    return [round(timing.median, 9) for timing in timings]


def _spread(timings: list[Timing]) -> list[float]:
    return [round(timing.spread, 4) for timing in timings]


def _curve(
    measured: Callable[[int, int], Timing], tokens: Sequence[int], contexts: Sequence[int]
) -> dict:
    """Contexts × batch tokens of whole steps."""
    points = [[measured(n, context) for n in tokens] for context in contexts]
    return {
        "batch_tokens": list(tokens),
        "context_tokens": list(contexts),
        "seconds": [_seconds(row) for row in points],
        "spread": [_spread(row) for row in points],
    }


def verify(probe: Probe) -> dict:
    return _curve(probe.verify, probe.grid.verify, probe.grid.curve_contexts)


def beyond(probe: Probe) -> dict:
    return _curve(probe.beyond, probe.grid.beyond, probe.grid.curve_contexts)


def logits(probe: Probe) -> dict:
    """What one more token with logits costs a step, from one tile's worth of rows to many."""
    most = max(2, *probe.grid.captured)
    rows = [128, 1024] if most >= 1024 else [1, most]
    few, many = (probe.logits(n).median for n in rows)
    rate = max(0.0, (many - few) / (rows[1] - rows[0]))
    return {"rows": rows, "seconds": [round(few, 9), round(many, 9)],
            "seconds_per_token": round(rate, 12)}  # fmt: skip


def attention(probe: Probe) -> dict:
    """Query tokens × requests × contexts, those of the curves among them.

    Of batches whose requests have all one context, and of ragged ones.
    """
    grid = probe.grid
    contexts = sorted({*grid.curve_contexts, *grid.contexts})
    result: dict = {
        "query_tokens": list(grid.queries),
        "requests": list(grid.requests),
        "context_tokens": contexts,
    }
    for form in ("uniform", "ragged"):
        result[form] = [
            [
                _seconds([probe.attention(r, c, q, form == "ragged") for c in contexts])
                for r in grid.requests
            ]
            for q in grid.queries
        ]
    return result


def whole(probe: Probe) -> dict:
    cells = [(cell, probe.whole(*cell)) for cell in probe.grid.whole]
    return {
        "cells": [
            {
                "requests": r,
                "query_tokens": q,
                "context_tokens": c,
                "seconds": round(timing.median, 9),
                "spread": round(timing.spread, 4),
            }
            for (r, q, c), timing in cells
        ]
    }


def prefill(probe: Probe) -> dict:
    grid = probe.grid
    return {
        "chunk_tokens": list(grid.chunks),
        "context_tokens": list(grid.prefill_contexts),
        "seconds": [
            _seconds([probe.prefill(chunk, context) for context in grid.prefill_contexts])
            for chunk in grid.chunks
        ],
    }


def mixed(probe: Probe) -> dict:
    """Contexts of the decodes × prefill tokens × batch tokens of whole steps beside a chunk.

    None where the chunk has no room.
    """
    rows, columns = probe.grid.mixed
    contexts = list(probe.grid.curve_contexts)

    def seconds(tokens: int, chunk: int, context: int) -> float | None:
        return round(probe.mixed(tokens, chunk, context).median, 9) if tokens >= chunk else None

    return {
        "context_tokens": contexts,
        "prefill_tokens": list(rows),
        "batch_tokens": list(columns),
        "seconds": [
            [[seconds(tokens, chunk, context) for tokens in columns] for chunk in rows]
            for context in contexts
        ],
    }


def power(probe: Probe, telemetry: Telemetry) -> dict:
    """Batch tokens at each context, one after the other."""
    grid = probe.grid
    return {
        "points": [
            probe.sustained(tokens, context, telemetry)
            for context in grid.curve_contexts
            for tokens in grid.power
        ]
    }


def draft(rounds: Rounds) -> dict:
    """Contexts × requests × drafted tokens.

    A parallel drafter always drafts the whole block; step by step every token after the first is
    the same pass, so two columns give the line.
    """
    grid, size, shape = rounds.probe.grid, rounds.block_size, rounds.shape
    tokens = [size] if shape.parallel else sorted({1, size})
    requests = grid.draft_requests
    if not shape.parallel:
        requests = tuple(r for r in requests if r not in (2, 96, 192))
    result: dict = {
        "requests": list(requests),
        "tokens": tokens,
        "context_tokens": list(grid.draft_contexts),
        "seconds": [
            [_seconds([rounds.draft_time(r, context, n) for n in tokens]) for r in requests]
            for context in grid.draft_contexts
        ],
    }
    if shape.parallel:
        chunk = max(grid.chunks) // 2
        result["per_prefill_token_seconds"] = round(rounds.inject_time(chunk).median / chunk, 12)
    if shape.head is not None:
        result["markov_seconds"] = _seconds([rounds.markov(r) for r in requests])
    return result


def host(rounds: Rounds) -> dict:
    grid = rounds.probe.grid
    rows = [host_costs(rounds, r, grid.draft_contexts[1]) for r in grid.host_requests]
    return {"rows": [{key: round(value, 9) for key, value in row.items()} for row in rows]}


def sequential(rounds: Rounds) -> dict:
    """Rounds of DSpark and of DFlash (which has no sequential block) by block size and context."""
    probe = rounds.probe
    requests = min(128, probe.grid.max_requests)
    plain = dataclasses.replace(DRAFTERS["dflash"], layers=rounds.shape.layers)
    shapes = {"dspark": rounds.shape, "dflash": plain}
    cells = []
    for size in probe.grid.sequential:
        pair = {kind: Rounds(probe, shape, size) for kind, shape in shapes.items()}
        loop = pair["dspark"].markov(requests).median
        for context in probe.grid.loop_contexts:
            row = {"block_size": size, "requests": requests, "context_tokens": context}
            for kind, one in pair.items():
                row[f"{kind}_seconds"] = round(one.draft_time(requests, context, size).median, 9)
            row["verify_seconds"] = round(probe.whole(requests, size + 1, context).median, 9)
            row["loop_seconds"] = round(loop, 9)
            cells.append(row)
    return {"cells": cells}


def held_out(drafters: list[Rounds], cells: list[Cell]) -> list[list[dict]]:
    """Whole rounds of the cells, drafted and verified together: rows of each drafter."""
    captured = drafters[0].probe.grid.captured
    rows: list[list[dict]] = [[] for _ in drafters]
    for cell in cells:
        eager = cell.tokens > captured[-1]
        size = next((n for n in captured if n >= cell.tokens), cell.tokens)
        for own, timing in zip(rows, whole_rounds(drafters, cell, size, eager), strict=True):
            own.append({**record(cell, timing), "eager": eager})
    return rows


def memory(rounds: Rounds, telemetry: Telemetry) -> dict:
    """Weights, and what vLLM's gpu_memory_utilization 0.9 would leave for the caches of both."""
    probe, drafter = rounds.probe, rounds.drafter
    weights = probe.decoder.weight_bytes
    width = probe.decoder.head.itemsize
    per_token = probe.shape.kv_bytes(width=width)
    if drafter is not None:
        weights += drafter.weight_bytes
        per_token += rounds.model.kv_bytes(drafter.cached_layers, width)
    result = {"weight_bytes": weights, "bytes_per_token": per_token}
    total = telemetry.hardware().get("memory_bytes")
    if total:
        held = torch.cuda.memory_allocated()
        workspace = max(0, torch.cuda.max_memory_allocated() - held)
        result["workspace_bytes"] = workspace
        room = int((0.9 * total - weights - workspace) // per_token)
        if room < 1:
            raise ProbeError("the weights leave no room for a KV cache on this card")
        result["capacity_tokens"] = room
    return result


def largest_spread(part: dict) -> float:
    """The largest spread noted in a part; 0 where none is."""
    rows = part.get("spread") or [[row.get("spread", 0.0) for row in part.get("cells", ())]]
    return max(itertools.chain([0.0], *rows))
