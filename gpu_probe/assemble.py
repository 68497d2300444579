"""A ``workbench.profile/1`` document from what was measured: pure, so that a resumed run agrees."""

from __future__ import annotations

import math
import statistics

import numpy as np

from gpu_probe import compare, held_out, price
from gpu_probe.batch import PAGE_TOKENS
from gpu_probe.grid import Grid
from gpu_probe.shapes import ModelShape


def attention_axes(part: dict, *forms: str) -> dict:
    """The attention table: the mean of the named forms of batches."""
    tables = np.mean([part[form] for form in forms], axis=0)
    return {
        "query_tokens": part["query_tokens"],
        "requests": part["requests"],
        "context_tokens": part["context_tokens"],
        "seconds": tables.round(9).tolist(),
    }


def _attention_inside(parts: dict, tokens: int, most: int, context: int) -> float:
    """Attention inside a step of ``tokens`` over at most ``most`` requests, all of one context.

    At the query tokens of its longest request, since that one's tile is every request's.
    """
    if not tokens:
        return 0.0
    axes = attention_axes(parts["attention"], "uniform")
    requests = min(tokens, most)
    queries = min(math.ceil(tokens / requests), axes["query_tokens"][-1])
    return price.attention(axes, requests, context, queries)


def without_attention(parts: dict, name: str, most: int) -> list[list[float]]:
    """Whole steps of a curve less the attention in them: contexts × batch tokens."""
    part = parts[name]
    return [
        [
            round(max(0.1 * s, s - _attention_inside(parts, n, most, context)), 9)
            for n, s in zip(part["batch_tokens"], line, strict=True)
        ]
        for context, line in zip(part["context_tokens"], part["seconds"], strict=True)
    ]


def _curve(parts: dict, name: str, most: int) -> dict:
    """The mean over the contexts: the additive model's least-squares fit to both curves."""
    rows = without_attention(parts, name, most)
    return {
        "batch_tokens": parts[name]["batch_tokens"],
        "seconds": np.mean(rows, axis=0).round(9).tolist(),
    }


def target_sections(parts: dict, grid: Grid) -> dict:
    """verify, graphs, attention, prefill, power: the same for every drafter.

    ``verify`` is the whole step less its attention, so that attention is in its table and nowhere
    else; the reference context is therefore 0.
    """
    most = grid.max_requests
    sections: dict = {"verify": {**_curve(parts, "verify", most), "reference_context": 0}}
    if "logits" in parts:
        # of a prompt only the last token needs the logits that ``verify`` has for all
        rate = parts["logits"]["seconds_per_token"]
        sections["verify"]["prefill_token_seconds"] = -rate
    sections["attention"] = attention_axes(parts["attention"], "uniform", "ragged")
    if "beyond" in parts:
        sections["graphs"] = {
            "batch_tokens": list(grid.captured),
            "beyond": _curve(parts, "beyond", most),
        }
    if "prefill" in parts:
        sections["prefill"] = parts["prefill"]
    power = parts.get("power", {}).get("points", [])
    if power and all(point.get("power_w") for point in power):
        watts: dict[int, list[float]] = {}
        for point in power:
            watts.setdefault(point["batch_tokens"], []).append(point["power_w"])
        sections["power"] = {
            "batch_tokens": list(watts),
            "watts": [round(statistics.fmean(each), 1) for each in watts.values()],
        }
    return sections


def mixed_section(parts: dict, grid: Grid) -> dict | None:
    """The forward pass beside a chunk, attention taken out: prefill tokens × batch tokens.

    The mean over the contexts of the decodes; where the chunk has no room the nearest value.
    """
    part, prefill, most = parts.get("mixed"), parts.get("prefill"), grid.max_requests
    if part is None or prefill is None:
        return None
    rows = []
    for i, chunk in enumerate(part["prefill_tokens"]):
        own = price.table(
            prefill["chunk_tokens"], prefill["context_tokens"], prefill["seconds"], chunk, 0
        )
        row: list[float | None] = []
        for j, tokens in enumerate(part["batch_tokens"]):
            if tokens < chunk:
                row.append(None)
                continue
            bare = [
                table[i][j] - own - _attention_inside(parts, tokens - chunk, most, context)
                for context, table in zip(part["context_tokens"], part["seconds"], strict=True)
            ]
            row.append(round(statistics.fmean(bare), 9))
        nearest = next((value for value in row if value is not None), None)
        if nearest is None:
            return None
        rows.append([nearest if value is None else value for value in row])
    return {
        "prefill_tokens": part["prefill_tokens"],
        "batch_tokens": part["batch_tokens"],
        "seconds": rows,
    }


def attention_factors(parts: dict, grid: Grid) -> list[dict]:
    """What a longer context of the decodes adds beside a chunk, over what their attention takes."""
    part, most = parts["mixed"], grid.max_requests
    (near, *_, far), (first, *_, last) = part["context_tokens"], part["seconds"]
    rows = []
    for i, chunk in enumerate(part["prefill_tokens"]):
        for j, tokens in enumerate(part["batch_tokens"]):
            if tokens <= chunk:
                continue
            less, more = (_attention_inside(parts, tokens - chunk, most, c) for c in (near, far))
            if more <= less:  # too short to be told from noise
                continue
            row = {"requests": min(tokens - chunk, most), "tokens": tokens, "chunk": chunk}
            row["factor"] = round((last[i][j] - first[i][j]) / (more - less), 4)
            rows.append(row)
    return rows


def drafter_sections(parts: dict, key: str, shape: ModelShape) -> dict:
    """draft, host and kv_cache of one drafter."""
    sections: dict = {}
    own = parts.get(f"draft {key}")
    if own:
        fields = ("context_tokens", "requests", "tokens", "seconds")
        sections["draft"] = {field: own[field] for field in fields}
        if own.get("per_prefill_token_seconds") is not None:
            sections["draft"]["per_prefill_token_seconds"] = own["per_prefill_token_seconds"]
    host = parts.get(f"host {key}")
    if host:
        sections["host"] = {
            f"{kind}_seconds": round(statistics.median(row[kind] for row in host["rows"]), 9)
            for kind in ("sync", "async")
        }
    memory = parts.get(f"memory {key}")
    if memory and memory.get("capacity_tokens"):
        sections["kv_cache"] = {
            "block_tokens": PAGE_TOKENS,
            "bytes_per_token": memory["bytes_per_token"] * shape.gpus,
            "capacity_tokens": memory["capacity_tokens"],
        }
    return sections


def document(
    parts: dict,
    grid: Grid,
    head: dict,
    key: str,
    shape: ModelShape,
    mixed: bool = False,
) -> dict:
    """The profile of one drafter, as far as it was measured.

    parts: results by name; head: format, name, hardware, engine, target, drafter, measured;
    mixed: price steps with prefill from their own table instead of the verify curve.
    """
    result = {k: v for k, v in head.items() if k != "measured"}
    result.update(target_sections(parts, grid))
    result.update(drafter_sections(parts, key, shape))
    measured = {**head["measured"], **parts.get("bandwidth", {})}
    if "kernels" in parts:
        measured["kernel_errors"] = parts["kernels"]
    for kernel in ("attention_kernel", "experts_kernel"):
        if kernel in parts:
            measured[kernel] = parts[kernel]
    measured["spread"] = [max(each) for each in zip(*parts["verify"]["spread"], strict=True)]
    measured["verify_whole"] = {
        "context_tokens": parts["verify"]["context_tokens"],
        "seconds": parts["verify"]["seconds"],
        "without_attention": without_attention(parts, "verify", grid.max_requests),
    }
    measured["attention"] = {form: parts["attention"][form] for form in ("uniform", "ragged")}
    if "whole" in parts:
        measured["whole_steps"] = parts["whole"]["cells"]
    beside = mixed_section(parts, grid)
    if beside is not None:
        measured["mixed"] = beside
        measured["mixed_whole"] = {
            field: parts["mixed"][field] for field in ("context_tokens", "seconds")
        }
        measured["attention_mixed"] = attention_factors(parts, grid)
        if mixed:
            result["mixed"] = beside
    if "power" in parts:
        measured["sustained"] = parts["power"]["points"]
    own = parts.get(f"draft {key}", {})
    if "markov_seconds" in own:
        measured["markov_seconds"] = own["markov_seconds"]
    for name, field in (("host", "rows"), ("sequential", "cells"), ("held_out", "cells")):
        part = parts.get(f"{name} {key}")
        if part:
            measured[name] = [dict(row) for row in part[field]]
    memory = parts.get(f"memory {key}")
    if memory:
        measured.update({k: v for k, v in memory.items() if k not in ("capacity_tokens",)})
    if measured.get("held_out") and "graphs" in result and "prefill" in result:
        measured["fit_error"] = held_out.fit_error(result, measured["held_out"])
    measured.update(compare.ratios(result, measured))
    result["measured"] = measured
    return result
