"""TensorRT-LLM's options file and cost table (NVIDIA/TensorRT-LLM, 1.4.0rc4: llmapi
DSparkDecodingConfig, _torch/speculative/dspark_sps_profiler.py).
"""

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
)
from workbench.engines.tables import legacy_table

_TYPES = {
    "dspark": "DSpark",
    "dflash": "DFlash",
    "eagle3": "Eagle3",
    "mtp": "MTP",
    "draft-model": "Draft_Target",
}
_FILE, _TABLE = "config.yaml", "cost_table.json"


def export(deployment: Deployment) -> Config:
    """``trtllm-serve`` with an options file and, for its planner, a table. Raises InputError."""
    options = deployment.options
    document: dict = {
        "max_batch_size": options.max_running,
        "max_num_tokens": options.token_budget,
        "enable_chunked_prefill": True,
        "kv_cache_config": {"enable_block_reuse": options.prefix_caching},
    }
    if deployment.cost.gpus > 1:
        document["tensor_parallel_size"] = deployment.cost.gpus
    notes, files = [], {}
    if deployment.captured:
        document["cuda_graph_config"] = {"enable_padding": True}
        notes.append(
            "TensorRT-LLM captures by requests, not by tokens: its own sizes are left, not the "
            "ones that were simulated."
        )
    models = (TARGET,)
    speculative = _speculative(deployment, notes)
    if speculative is not None:
        document["speculative_config"] = speculative
        models += (DRAFTER,) if "speculative_model" in speculative else ()
        if "confidence_cost_table_path" in speculative:
            table = legacy_table(
                deployment.cost, options.slots, deployment.used, deployment.context
            )
            files[_TABLE] = json.dumps(table, indent=1) + "\n"
    files = {_FILE: _yaml(document), **files}
    command = joined([f"trtllm-serve {TARGET}", f"--config {_FILE}"])
    return Config(command, files, (models_note(*models), *notes))


def _speculative(deployment: Deployment, notes: list[str]) -> dict | None:
    """``speculative_config``, None without speculation; what it means goes to ``notes``."""
    uniform, gamma = deployment.uniform, deployment.block_size
    if deployment.scheduler == BY_BATCH:
        # draft_len_schedule counts from each key in some versions and up to it in others
        raise no_setting("TensorRT-LLM", deployment, "choose vLLM, which has such a table")
    if uniform == 0:
        return None
    kind = named("TensorRT-LLM", deployment, _TYPES)
    drafts = deployment.used if uniform is None else uniform
    speculative: dict = {"decoding_type": kind, "max_draft_len": drafts}
    if kind != "MTP":  # whose heads are part of the target's checkpoint
        speculative["speculative_model"] = DRAFTER
    if kind == "DSpark" and drafts != gamma:
        notes.append(f"TensorRT-LLM wants max_draft_len to be the checkpoint's block ({gamma}).")
    if uniform is not None:
        return speculative
    if not (deployment.plans and kind == "DSpark"):
        raise no_setting("TensorRT-LLM", deployment, "choose a fixed number of drafts")
    speculative["enable_confidence_scheduling"] = True
    speculative["confidence_cost_table_path"] = _TABLE
    notes += [
        "TensorRT-LLM searches this step's own confidences, as global does here, and keeps at "
        "least one draft: above temperature 0 that can bias the output (workbench audit "
        "--scheduler global).",
        f"The table prices steps at {deployment.context:,.0f} tokens of context per request: it "
        "has no axis for it.",
    ]
    if deployment.kind != "global":
        notes.append(f"{deployment.scheduler} itself is not in TensorRT-LLM; this is its nearest.")
    return speculative


def _yaml(document: dict, indent: str = "") -> str:
    """Nested mappings of plain words, numbers and booleans as YAML."""
    lines = []
    for key, value in document.items():
        if isinstance(value, dict):
            lines.append(f"{indent}{key}:\n{_yaml(value, indent + '  ')}")
        else:
            text = str(value).lower() if isinstance(value, bool) else value
            lines.append(f"{indent}{key}: {text}\n")
    return "".join(lines)
