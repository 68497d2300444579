"""How near the measured steps lie to the memory floor and to a production engine."""

from __future__ import annotations

from gpu_probe import price

# vLLM 0.26.0, one NVIDIA H200, FlashAttention 3, bf16, random weights: milliseconds between engine
# outputs, median of 60 steps; without drafts and with DSpark's seven
VLLM = {
    ("Qwen3-8B", "NVIDIA H200"): {
        "context": 1024,
        "none": {1: 5.2039, 8: 5.6905, 64: 7.8264, 256: 18.6072},
        "dspark 7": {1: 6.8603, 8: 7.3185, 32: 10.9358, 64: 18.565, 128: 35.5014, 256: 68.6398},
    },
    ("Qwen3-4B", "NVIDIA H200"): {
        "context": 2048,
        "none": {1: 3.6781, 8: 4.2255, 64: 8.4096, 256: 23.9196},
    },
    # by benchmarks/vllm_steps.py
    ("Qwen3-30B-A3B", "NVIDIA H200"): {
        "context": 1024,
        "none": {1: 4.2072, 8: 9.228, 64: 18.9375, 256: 26.4583},
    },
}


def floor_seconds(document: dict, measured: dict, requests: int, context: float) -> float:
    """Weights and cached keys and values of a step, read once at the copy's bandwidth."""
    per_token = measured["target_kv_bytes"]
    moved = measured["streamed_weight_bytes"] + requests * context * per_token
    return moved / measured["copy_bandwidth"]


def ratios(document: dict, measured: dict) -> dict:
    """Entries of ``measured``: ratios to the floor, of the tables to whole steps, to vLLM."""
    result: dict = {}
    if "streamed_weight_bytes" not in measured or "verify_whole" not in measured:
        return result
    step = measured["verify_whole"]["seconds"][0][0]
    floor = floor_seconds(document, measured, 1, 0)
    result["one_request_seconds"] = step
    result["floor_seconds"] = round(floor, 9)
    result["ratio_to_floor"] = round(step / floor, 4)
    cells = [dict(cell) for cell in measured.get("whole_steps", ())]
    if "graphs" in document:
        for cell in cells:
            requests, context = cell["requests"], cell["context_tokens"]
            at = price.Step(requests, requests * cell["query_tokens"], context)
            seconds = price.target(document, at)
            cell["tables_ratio"] = round(seconds / cell["seconds"], 4)
            least = floor_seconds(document, measured, requests, context)
            cell["ratio_to_floor"] = round(cell["seconds"] / least, 4)
        result["whole_steps"] = cells
    vllm = VLLM.get((document["target"]["name"], document["hardware"]["gpu"]))
    if vllm and cells and "draft" in document:
        result["vllm_ratio"] = _against_vllm(document, measured, cells, vllm)
    return result


def _against_vllm(document: dict, measured: dict, cells: list[dict], vllm: dict) -> list[dict]:
    context, rows = vllm["context"], []
    whole = {
        c["requests"]: c["seconds"]
        for c in cells
        if c["query_tokens"] == 1 and c["context_tokens"] == context
    }
    for requests, milliseconds in vllm["none"].items():
        if requests in whole:
            rows.append(("no drafts", requests, whole[requests], milliseconds))
    drafter = document["drafter"]
    arm = f"{drafter['kind']} {drafter['block_size']}"
    for requests, milliseconds in vllm.get(arm, {}).items():
        step = price.Step(requests, requests * (drafter["block_size"] + 1), context)
        seconds = price.target(document, step) + price.draft(document, step)
        rows.append((arm, requests, seconds, milliseconds))
    return [
        {
            "arm": name,
            "requests": requests,
            "seconds": round(seconds, 9),
            "vllm_seconds": round(milliseconds / 1e3, 7),
            "ratio": round(seconds * 1e3 / milliseconds, 4),
        }
        for name, requests, seconds, milliseconds in rows
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
    ]
    if document["hardware"]["gpu"] != "cpu":
        lines.append(f"attention               {m.get('attention_library', 'the own kernel')}")
    if "fit_error" in m:
        fits = {"rounds": m["fit_error"], "their verification": m["fit_error"]["verify"]}
        for name, fit in fits.items():
            lines.append(
                f"tables, {name:<18} {fit['median']:5.1%} median, {fit['p95']:.1%} at the "
                f"95th percentile of {fit['cells']}, bias {fit['bias']:+.1%}"
            )
    if "host" in document:
        lines.append(
            f"host                    {document['host']['sync_seconds'] * 1e6:8.0f} us sync, "
            f"{document['host']['async_seconds'] * 1e6:.0f} us async; sync by requests "
            + ", ".join(
                f"{row['requests']}: {row['sync'] * 1e6:.0f} ({row['sync_spread'] * 1e6:.0f})"
                for row in m["host"]
            )
        )
    lines.append(f"largest spread          {max(m['spread']):8.1%}")
    at = dict(zip(verify["batch_tokens"], verify["seconds"], strict=True))
    shown = [n for n in (1, 8, 64, 65, 128, 129, 256, 512, 513, 1024, 2048) if n in at]
    lines.append("verify, ms: " + "  ".join(f"{n}:{at[n] * 1e3:.2f}" for n in shown))
    if "draft" in document:
        draft = document["draft"]
        for context, table in zip(draft["context_tokens"], draft["seconds"], strict=True):
            row = zip(draft["requests"], table, strict=True)
            shown = "  ".join(f"{r}:{s[-1] * 1e3:.2f}" for r, s in row)
            lines.append(f"draft after {context}, ms: {shown}")
    if m.get("vllm_ratio"):
        lines.append("against vLLM 0.26:")
        lines += [
            f"  {row['arm']:<10} {row['requests']:4d} requests {row['seconds'] * 1e3:8.2f} ms / "
            f"{row['vllm_seconds'] * 1e3:6.2f} ms = {row['ratio']:.2f}"
            for row in m["vllm_ratio"]
        ]
    return "\n".join(lines)
