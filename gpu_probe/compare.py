"""How near the measured steps lie to the memory floor and to a production engine."""

from __future__ import annotations

import itertools

# vLLM 0.26.0, one NVIDIA H200, FlashAttention 3, bf16, random weights, 1,024 tokens of context:
# milliseconds between engine outputs, median of 60 steps; without drafts and with DSpark's seven
VLLM = {
    ("Qwen3-8B", "NVIDIA H200"): {
        "context": 1024,
        "no_drafts": {1: 5.2039, 8: 5.6905, 64: 7.8264, 256: 18.6072},
        "dspark7": {1: 6.8603, 8: 7.3185, 32: 10.9358, 64: 18.565, 128: 35.5014, 256: 68.6398},
    }
}


def lookup(xs: list[int], ys: list[float], x: float) -> float:
    """Linear between points, held at the ends."""
    if x <= xs[0]:
        return ys[0]
    for (a, b), (u, v) in zip(itertools.pairwise(xs), itertools.pairwise(ys), strict=True):
        if x <= b:
            return u + (v - u) * (x - a) / (b - a)
    return ys[-1]


def predicted(document: dict, requests: int, queries: int, context: int) -> float:
    """Seconds of a step by the tables: verification at the captured size, and attention."""
    tokens = requests * queries
    verify, attention = document["verify"], document["attention"]
    size = next((n for n in document["graphs"]["batch_tokens"] if n >= tokens), tokens)
    column = [lookup(attention["context_tokens"], row, context) for row in attention["seconds"]]
    return lookup(verify["batch_tokens"], verify["seconds"], size) + lookup(
        attention["requests"], column, requests
    )


def ratios(document: dict, measured: dict) -> dict:
    """Entries of ``measured``: ratio to the floor, the tables' error, ratios to vLLM."""
    step = document["verify"]["seconds"][0]
    floor = measured["streamed_weight_bytes"] / measured["copy_bandwidth"]
    cells = measured["whole_steps"]
    errors = [
        predicted(document, c["requests"], c["query_tokens"], c["context_tokens"]) / c["seconds"]
        for c in cells
    ]
    off = sorted(abs(error - 1) for error in errors)
    for cell, error in zip(cells, errors, strict=True):
        cell["tables_ratio"] = round(error, 4)
    result = {
        "one_request_seconds": step,
        "floor_seconds": round(floor, 9),
        "ratio_to_floor": round(step / floor, 4),
        "fit_error": {"median": round(off[len(off) // 2], 4), "max": round(off[-1], 4)},
    }
    vllm = VLLM.get((document["target"]["name"], document["hardware"]["gpu"]))
    if vllm and document["drafter"]["kind"] == "dspark":
        result["vllm_ratio"] = _against_vllm(document, cells, vllm)
    return result


def _against_vllm(document: dict, cells: list[dict], vllm: dict) -> list[dict]:
    context, rows = vllm["context"], []
    whole = {
        c["requests"]: c["seconds"]
        for c in cells
        if c["query_tokens"] == 1 and c["context_tokens"] == context
    }
    for requests, milliseconds in vllm["no_drafts"].items():
        if requests in whole:
            rows.append(("no drafts", requests, whole[requests], milliseconds))
    draft, size = document["draft"], document["drafter"]["block_size"]
    drafts = [row[0] for row in draft["seconds"]]
    for requests, milliseconds in vllm[f"dspark{size}"].items() if size == 7 else ():
        seconds = predicted(document, requests, size + 1, context)
        seconds += lookup(draft["requests"], drafts, requests)
        rows.append((f"dspark {size}", requests, seconds, milliseconds))
    return [
        {
            "arm": arm,
            "requests": requests,
            "seconds": round(seconds, 9),
            "vllm_seconds": round(milliseconds / 1e3, 7),
            "ratio": round(seconds * 1e3 / milliseconds, 4),
        }
        for arm, requests, seconds, milliseconds in rows
    ]


def summary(document: dict) -> str:
    """The short table printed last."""
    m, verify = document["measured"], document["verify"]
    lines = [
        f"{document['name']}: {document['hardware']['gpu']}, {m['repeats']} repeats, "
        f"{m['wall_seconds']} s",
        f"copy bandwidth          {m['copy_bandwidth'] / 1e12:8.3f} TB/s "
        f"({m['copy_buffer_bytes'] / 2**30:.2f} GiB, read + written)",
        f"one-request step        {m['one_request_seconds'] * 1e3:8.3f} ms = "
        f"{m['ratio_to_floor']:.3f} x the weights' {m['floor_seconds'] * 1e3:.3f} ms",
        f"tables vs whole steps   {m['fit_error']['median']:8.1%} median, "
        f"{m['fit_error']['max']:.1%} at most",
        f"host                    {document['host']['sync_seconds'] * 1e6:8.0f} us sync, "
        f"{document['host']['async_seconds'] * 1e6:.0f} us async",
        f"largest spread          {max(m['spread']):8.1%}",
    ]
    at = dict(zip(verify["batch_tokens"], verify["seconds"], strict=True))
    shown = [n for n in (1, 8, 64, 65, 128, 129, 256, 512, 513, 1024, 2048) if n in at]
    lines.append("verify, ms: " + "  ".join(f"{n}:{at[n] * 1e3:.2f}" for n in shown))
    draft = zip(document["draft"]["requests"], document["draft"]["seconds"], strict=True)
    lines.append("draft, ms:  " + "  ".join(f"{r}:{s[0] * 1e3:.2f}" for r, s in draft))
    if "vllm_ratio" in m:
        lines.append("against vLLM 0.26, context 1,024:")
        lines += [
            f"  {row['arm']:<10} {row['requests']:4d} requests {row['seconds'] * 1e3:8.2f} ms / "
            f"{row['vllm_seconds'] * 1e3:6.2f} ms = {row['ratio']:.2f}"
            for row in m["vllm_ratio"]
        ]
    return "\n".join(lines)
