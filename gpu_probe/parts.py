"""Every part of a run as a function that returns plain numbers, ready for a checkpoint."""

from __future__ import annotations

import dataclasses
import itertools

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


def verify(probe: Probe) -> dict:
    tokens = list(probe.grid.verify)
    points = [probe.verify(n) for n in tokens]
    return {"batch_tokens": tokens, "seconds": _seconds(points), "spread": _spread(points)}


def beyond(probe: Probe) -> dict:
    tokens = list(probe.grid.beyond)
    points = [probe.beyond(n) for n in tokens]
    return {"batch_tokens": tokens, "seconds": _seconds(points), "spread": _spread(points)}


def logits(probe: Probe) -> dict:
    """What one more token with logits costs a step, from one tile's worth of rows to many."""
    most = max(2, *probe.grid.captured)
    rows = [128, 1024] if most >= 1024 else [1, most]
    few, many = (probe.logits(n).median for n in rows)
    rate = max(0.0, (many - few) / (rows[1] - rows[0]))
    return {"rows": rows, "seconds": [round(few, 9), round(many, 9)],
            "seconds_per_token": round(rate, 12)}  # fmt: skip


def attention(probe: Probe) -> dict:
    """Query tokens × requests × contexts, the reference context in front."""
    grid = probe.grid
    contexts = [grid.reference_context, *grid.contexts]
    return {
        "query_tokens": list(grid.queries),
        "requests": list(grid.requests),
        "context_tokens": contexts,
        "seconds": [
            [_seconds([probe.attention(r, c, q) for c in contexts]) for r in grid.requests]
            for q in grid.queries
        ],
    }


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
    """Whole steps beside a chunk (None where the chunk has no room), and attention's factor there.

    The factor: what a longer context of the decodes adds to a mixed step, over what it adds to a
    step without a chunk.
    """
    grid = probe.grid
    rows, columns = grid.mixed
    reference = grid.reference_context
    seconds = [
        [
            round(probe.mixed(tokens, chunk, reference).median, 9) if tokens >= chunk else None
            for tokens in columns
        ]
        for chunk in rows
    ]
    factors = []
    chunk, context = rows[-1], grid.draft_contexts[-1]
    for decodes in (min(32, grid.max_requests), min(128, grid.max_requests)):
        near, far = (probe.mixed(chunk + decodes, chunk, c).median for c in (reference, context))
        least, most = (probe.whole(decodes, 1, c).median for c in (reference, context))
        factors.append(
            {
                "requests": decodes,
                "context_tokens": context,
                "chunk": chunk,
                "factor": round((far - near) / max(most - least, 1e-9), 4),
            }
        )
    return {
        "prefill_tokens": list(rows),
        "batch_tokens": list(columns),
        "seconds": seconds,
        "attention_factors": factors,
    }


def power(probe: Probe, telemetry: Telemetry) -> dict:
    return {"points": [probe.sustained(tokens, telemetry) for tokens in probe.grid.power]}


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
    spreads = part.get("spread") or [row.get("spread", 0.0) for row in part.get("cells", ())]
    return max(itertools.chain([0.0], spreads))
