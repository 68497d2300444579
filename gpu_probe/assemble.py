"""A ``workbench.profile/1`` document from what was measured: pure, so that a resumed run agrees."""

from __future__ import annotations

import math
import statistics

from gpu_probe import compare, held_out, price
from gpu_probe.batch import PAGE_TOKENS
from gpu_probe.grid import Grid
from gpu_probe.shapes import ModelShape


def _reference_attention(axes: dict, tokens: int, most: int, context: int) -> float:
    """Attention inside a step that ``verify`` times: ``tokens`` over at most ``most`` requests.

    At the query tokens of its longest request, since that one's tile is every request's.
    """
    requests = min(tokens, most)
    queries = min(math.ceil(tokens / requests), axes["query_tokens"][-1])
    return price.attention(axes, requests, context, queries)


def target_sections(parts: dict, grid: Grid) -> dict:
    """verify, graphs, attention, prefill, power: the same for every drafter.

    ``verify`` is the whole step less its attention, so that attention is in its table and nowhere
    else; the reference context is therefore 0.
    """
    axes, context = parts["attention"], grid.reference_context

    def bare(tokens: list[int], seconds: list[float]) -> list[float]:
        return [
            round(max(0.1 * s, s - _reference_attention(axes, n, grid.max_requests, context)), 9)
            for n, s in zip(tokens, seconds, strict=True)
        ]

    tokens = parts["verify"]["batch_tokens"]
    sections = {
        "verify": {
            "batch_tokens": tokens,
            "seconds": bare(tokens, parts["verify"]["seconds"]),
            "reference_context": 0,
        }
    }
    if "logits" in parts:
        # of a prompt only the last token needs the logits that ``verify`` has for all
        rate = parts["logits"]["seconds_per_token"]
        sections["verify"]["prefill_token_seconds"] = -rate
    sections["attention"] = axes
    if "beyond" in parts:
        past = parts["beyond"]["batch_tokens"]
        sections["graphs"] = {
            "batch_tokens": list(grid.captured),
            "beyond": {"batch_tokens": past, "seconds": bare(past, parts["beyond"]["seconds"])},
        }
    if "prefill" in parts:
        sections["prefill"] = parts["prefill"]
    power = parts.get("power", {}).get("points", [])
    if power and all(point.get("power_w") for point in power):
        sections["power"] = {
            "batch_tokens": [point["batch_tokens"] for point in power],
            "watts": [point["power_w"] for point in power],
        }
    return sections


def mixed_section(parts: dict, grid: Grid) -> dict | None:
    """The forward pass beside a chunk, attention taken out: prefill tokens × batch tokens."""
    part, axes, prefill = parts.get("mixed"), parts["attention"], parts.get("prefill")
    if part is None or prefill is None:
        return None
    rows = []
    for chunk, line in zip(part["prefill_tokens"], part["seconds"], strict=True):
        own = price.table(
            prefill["chunk_tokens"], prefill["context_tokens"], prefill["seconds"], chunk, 0
        )
        row: list[float | None] = []
        for tokens, seconds in zip(part["batch_tokens"], line, strict=True):
            if seconds is None:
                row.append(None)
                continue
            decodes = tokens - chunk
            if decodes:
                seconds -= _reference_attention(
                    axes, decodes, grid.max_requests, grid.reference_context
                )
            row.append(round(seconds - own, 9))
        nearest = next((value for value in row if value is not None), None)
        if nearest is None:
            return None
        rows.append([nearest if value is None else value for value in row])
    return {
        "prefill_tokens": part["prefill_tokens"],
        "batch_tokens": part["batch_tokens"],
        "seconds": rows,
    }


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
    measured["spread"] = parts["verify"]["spread"]
    measured["verify_whole"] = parts["verify"]["seconds"]
    if "whole" in parts:
        measured["whole_steps"] = parts["whole"]["cells"]
    beside = mixed_section(parts, grid)
    if beside is not None:
        measured["mixed"] = beside
        measured["attention_mixed"] = parts["mixed"]["attention_factors"]
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
