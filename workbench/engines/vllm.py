"""vLLM's flags (vllm-project/vllm, config/speculative.py, adaptive verification; Sept 2026)."""

from __future__ import annotations

import json

from workbench.engines.deployment import (
    BY_BATCH,
    DRAFTER,
    TARGET,
    Config,
    Deployment,
    joined,
    models_note,
    named,
    no_setting,
    option,
)

_METHODS = {
    "dspark": "dspark",
    "dflash": "dflash",
    "eagle3": "eagle3",
    "mtp": "mtp",
    "draft-model": "draft_model",
}
_CONFIDENT = "dspark"  # its drafter's own head; others' acceptance vLLM estimates while it serves


def export(deployment: Deployment) -> Config:
    """``vllm serve`` with its limits, captured sizes and speculation. Raises InputError."""
    options = deployment.options
    parts = [
        f"vllm serve {TARGET}",
        f"--max-num-seqs {options.max_running}",
        f"--max-num-batched-tokens {options.token_budget}",
    ]
    notes: list[str] = []
    if deployment.cost.gpus > 1:
        parts.append(f"--tensor-parallel-size {deployment.cost.gpus}")
    if sizes := deployment.captured:
        graphs = {"cudagraph_capture_sizes": sizes, "max_cudagraph_capture_size": sizes[-1]}
        parts.append(option("--compilation-config", json.dumps(graphs)))
        notes.append("The captured sizes are those simulated: past the last one steps run eagerly.")
    if options.prefix_caching:
        parts.append("--enable-prefix-caching")
    if options.prefill_first:
        notes.append("vLLM mixes prefill chunks with decoding: --prefill first is not its way.")
    speculative = _speculative(deployment, notes)
    if speculative is None:
        return Config(joined(parts), notes=(models_note(TARGET), *notes))
    parts.append(option("--speculative-config", json.dumps(speculative)))
    models = (TARGET, DRAFTER) if "model" in speculative else (TARGET,)
    return Config(joined(parts), notes=(models_note(*models), *notes))


def _speculative(deployment: Deployment, notes: list[str]) -> dict | None:
    """``--speculative-config``, None without speculation; what it means goes to ``notes``."""
    uniform, gamma = deployment.uniform, deployment.block_size
    if uniform == 0:
        return None
    method = named("vLLM", deployment, _METHODS)
    speculative: dict = {"method": method, "model": DRAFTER}
    if method == "mtp":  # the heads are part of the target's checkpoint
        del speculative["model"]
    drafts = deployment.used if uniform is None else uniform
    if deployment.scheduler == BY_BATCH:
        drafts = max(row[2] for row in deployment.table)
        if not drafts:
            return None
        speculative["num_speculative_tokens_per_batch_size"] = deployment.table
    elif uniform is None and deployment.plans:
        speculative["enable_adaptive_verification"] = True
        notes += _adaptive_notes(deployment, method)
    elif uniform is None:
        raise no_setting("vLLM", deployment, "choose topk or a fixed number of drafts")
    speculative["num_speculative_tokens"] = drafts
    if method == "dspark" and drafts < gamma:
        notes.append(f"vLLM refuses fewer drafts than a DSpark checkpoint's block ({gamma}).")
    return speculative


def _adaptive_notes(deployment: Deployment, method: str) -> list[str]:
    notes = [
        "vLLM searches the best budget over the confidences of the drafts before (a lag of 1) and "
        "prices it with a table that it measures at its start, not with this profile.",
        "Adaptive verification needs full CUDA graphs of variable length: no --enforce-eager, "
        "LoRA, pipeline or context parallelism, nor output log-probabilities.",
    ]
    if method != _CONFIDENT:
        notes.append(f"{method} has no confidence head: vLLM estimates acceptance as it serves.")
    if deployment.kind != "topk":
        notes.append(f"{deployment.scheduler} itself is not in vLLM; this is its nearest.")
    return notes
