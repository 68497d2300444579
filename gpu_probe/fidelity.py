"""How true measured profiles are, in Markdown: ``python -m gpu_probe.fidelity FILE …``."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path

from gpu_probe.compare import VLLM, floor_seconds
from gpu_probe.errors import ProbeError


def _rows(head: list[str], rows: list[list]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def decode_steps(document: dict) -> str:
    """Decode steps without drafts, timed whole and as charged, beside vLLM's and the floor's.

    The floor: weights and cache read once.
    """
    measured = document["measured"]
    vllm = VLLM[document["target"]["name"], document["hardware"]["gpu"]]
    context, rows = vllm["context"], []
    for cell in measured["whole_steps"]:
        at = cell["requests"]
        if cell["query_tokens"] == 1 and cell["context_tokens"] == context and at in vllm["none"]:
            seconds, engine = cell["seconds"] * 1e3, vllm["none"][at]
            charged = seconds * cell["tables_ratio"]
            floor = floor_seconds(document, measured, at, context) * 1e3
            rows.append(
                [at, f"{seconds:.2f}", f"{charged:.2f}", f"{engine:.2f}",
                 f"{seconds / engine:.2f}", f"{charged / engine:.2f}",
                 f"{seconds / floor:.2f}", f"{engine / floor:.2f}"]
            )  # fmt: skip
    head = ["requests", "whole step, ms", "tables, ms", "vLLM, ms", "whole ÷ vLLM",
            "tables ÷ vLLM", "whole ÷ floor", "vLLM ÷ floor"]  # fmt: skip
    return _rows(head, rows)


def attention_bandwidth(document: dict) -> str:
    """Attention over KV bytes ÷ copy bandwidth, at 64 requests and more, context 2,048 and more."""
    measured = document["measured"]
    axes, rows = document["attention"], []
    for i, requests in enumerate(axes["requests"]):
        for j, context in enumerate(axes["context_tokens"]):
            if requests < 64 or context < 2048:
                continue
            moved = requests * context * measured["target_kv_bytes"] / measured["copy_bandwidth"]
            ratios = [table[i][j] / moved for table in axes["seconds"]]
            rows.append([requests, context, *(f"{ratio:.2f}" for ratio in ratios)])
    queries = [f"{q} query tokens" for q in axes["query_tokens"]]
    return _rows(["requests", "context", *queries], rows)


def contexts_apart(document: dict) -> str:
    """The forward pass without attention, from whole steps of either context.

    Were steps the sum of their parts, both would be one.
    """
    whole, rows = document["measured"]["verify_whole"], []
    near, far = whole["without_attention"]
    for tokens, a, b in zip(document["verify"]["batch_tokens"], near, far, strict=True):
        if tokens & (tokens - 1) == 0 or tokens in (129, 257, 385, 513, 769, 1025):
            rows.append([tokens, f"{a * 1e3:.2f}", f"{b * 1e3:.2f}", f"{b / a:.3f}"])
    contexts = [f"at {c:,} tokens, ms" for c in whole["context_tokens"]]
    return _rows(["batch tokens", *contexts, "ratio"], rows)


def kernel_settings(document: dict) -> str:
    """The attention kernel chosen for each kind of batch, and what raggedness costs there."""
    rows = []
    for row in document["measured"]["attention_kernel"]["buckets"]:
        setting = [row[field] for field in ("kernel", "keys", "warps", "stages", "programs")]
        uniform, ragged = row["uniform_seconds"], row["ragged_seconds"]
        rows.append([row["bucket"], *setting, f"{uniform * 1e6:.1f}", f"{ragged / uniform:.3f}"])
    head = ["batches", "kernel", "keys", "warps", "stages", "programs", "uniform, µs a layer"]
    return _rows([*head, "ragged ÷ uniform"], rows)


def fits(documents: list[dict]) -> str:
    """Predicted against measured rounds of every profile."""
    rows = []
    for document in documents:
        fit = document["measured"].get("fit_error")
        if fit is None:
            continue
        for name, part in (
            ("rounds", fit),
            ("without prefill", fit.get("without_prefill")),
            ("verification alone", fit.get("verify")),
            ("draft alone", fit.get("draft")),
        ):
            if part is None:
                continue
            rows.append(
                [document["name"], name, part["cells"], f"{part['median']:.1%}",
                 f"{part['p95']:.1%}", f"{part['max']:.1%}", f"{part['bias']:+.1%}"]
            )  # fmt: skip
    return _rows(["profile", "what", "rounds", "median", "95th", "largest", "bias"], rows)


def sequential_block(document: dict) -> str:
    """DSpark's round against DFlash's and the share of the loop, mean over contexts."""
    cells, rows = document["measured"]["sequential"], []
    for size in sorted({cell["block_size"] for cell in cells}):
        mine = [cell for cell in cells if cell["block_size"] == size]
        mean = {
            name: statistics.fmean(cell[f"{name}_seconds"] for cell in mine)
            for name in ("dspark", "dflash", "verify", "loop")
        }
        whole = mean["dspark"] + mean["verify"]
        other = mean["dflash"] + mean["verify"]
        rows.append(
            [size, f"{mean['verify'] * 1e3:.2f}", f"{mean['dspark'] * 1e3:.2f}",
             f"{mean['dflash'] * 1e3:.2f}", f"{mean['loop'] * 1e3:.2f}",
             f"{mean['loop'] / whole:.2%}", f"{whole / other - 1:+.1%}"]
        )  # fmt: skip
    return _rows(
        ["γ", "verify, ms", "DSpark draft", "DFlash draft", "loop", "loop ÷ round",
         "DSpark ÷ DFlash round"],
        rows,
    )  # fmt: skip


def agreement(first: dict, second: dict) -> dict[str, list[float]]:
    """|b ÷ a − 1| at the points that two profiles of one target share, by part."""

    def points(document: dict) -> dict[tuple, float]:
        found: dict[tuple, float] = {}
        measured = document["measured"]
        whole = measured["verify_whole"]
        for c, line in zip(whole["context_tokens"], whole["seconds"], strict=True):
            for n, s in zip(document["verify"]["batch_tokens"], line, strict=True):
                found["verify", c, n] = s
        axes = document["attention"]
        for q, table in zip(axes["query_tokens"], axes["seconds"], strict=True):
            for r, row in zip(axes["requests"], table, strict=True):
                for c, s in zip(axes["context_tokens"], row, strict=True):
                    found["attention", q, r, c] = s
        draft = document.get("draft", {})
        for c, table in zip(draft.get("context_tokens", ()), draft.get("seconds", ()), strict=True):
            for r, row in zip(draft["requests"], table, strict=True):
                found["draft", c, r] = row[-1]
        for cell in measured.get("whole_steps", ()):
            at = cell["requests"], cell["query_tokens"], cell["context_tokens"]
            found["whole steps", *at] = cell["seconds"]
        return found

    a, b = points(first), points(second)
    result: dict[str, list[float]] = {}
    for key in a.keys() & b.keys():
        result.setdefault(key[0], []).append(abs(b[key] / a[key] - 1))
    return result


def agreement_table(first: dict, second: dict) -> str:
    """``agreement`` by part, and over all points."""
    parts = agreement(first, second)
    parts = {**dict(sorted(parts.items())), "all": [v for values in parts.values() for v in values]}
    rows = [
        [name, len(off), f"{statistics.median(off):.2%}", f"{max(off):.1%}"]
        for name, off in parts.items()
        if off
    ]
    return _rows(["part", "points", "median", "largest"], rows)


def _read(path: str) -> dict:
    """A profile that gpu-probe wrote. Raises ProbeError for another file."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
        tokens, whole = (
            len(document["verify"]["batch_tokens"]),
            document["measured"]["verify_whole"],
        )
        if isinstance(whole, list):
            raise ValueError("written by an older gpu-probe, which measured one context")
        for table in (whole["seconds"], whole["without_attention"]):
            lengths = [len(line) for line in table]
            if lengths != [tokens] * len(whole["context_tokens"]):
                raise ValueError("measured.verify_whole and its axes differ in length")
        for section, field in (("target", "name"), ("hardware", "gpu"), ("attention", "seconds")):
            document[section][field]
    except (OSError, ValueError, RecursionError) as error:
        raise ProbeError(f"{path} cannot be read: {error}") from error
    except (KeyError, TypeError) as error:
        raise ProbeError(f"{path} is no profile of gpu-probe, {error} is missing") from error
    return document


def main(paths: list[str]) -> int:
    """Every table that the profiles allow; two of one name are compared with each other.

    What no drafter changes is printed once for each target.
    """
    documents = [_read(path) for path in paths]
    seen: dict[str, dict] = {}
    targets = set()
    for document in documents:
        name = document["name"]
        target = document["target"]["name"], document["hardware"]["gpu"]
        if name in seen:
            print(f"\n{name}, two probes\n\n{agreement_table(seen[name], document)}")
            continue
        seen[name] = document
        new = target not in targets
        targets.add(target)
        if new and target in VLLM and document["measured"].get("whole_steps"):
            print(f"\n{name}, decode steps\n\n{decode_steps(document)}")
            print(f"\nattention ÷ (KV bytes ÷ bandwidth)\n\n{attention_bandwidth(document)}")
            print(f"\nthe forward pass without attention\n\n{contexts_apart(document)}")
        if new and document["measured"].get("attention_kernel"):
            print(f"\n{name}, attention kernel\n\n{kernel_settings(document)}")
        if document["measured"].get("sequential"):
            print(f"\n{name}, sequential block\n\n{sequential_block(document)}")
    print(f"\n{fits(list(seen.values()))}")
    return 0


def command(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m gpu_probe.fidelity", description="How true measured profiles are: tables."
    )
    parser.add_argument("profiles", nargs="+", help="files that gpu-probe wrote")
    try:
        return main(parser.parse_args(argv).profiles)
    except ProbeError as error:
        print(f"gpu_probe.fidelity: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(command())
