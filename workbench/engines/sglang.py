"""SGLang's flags and cost table (sgl-project/sglang, speculative/dspark_components; Sept 2026)."""

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
from workbench.engines.tables import additive_table
from workbench.profiles import ladder
from workbench.schedulers import create

_ALGORITHMS = {
    "dspark": "DSPARK",
    "dflash": "DFLASH",
    "eagle3": "EAGLE3",
    "mtp": "NEXTN",
    "draft-model": "STANDALONE",
}
_SEQUENTIAL = ("EAGLE3", "NEXTN", "STANDALONE")  # a pass per drafted token
_TABLE = "sps_table.json"


def export(deployment: Deployment) -> Config:
    """``sglang.launch_server`` with its limits, speculation and cost table. Raises InputError."""
    options, uniform = deployment.options, deployment.uniform
    if deployment.scheduler == BY_BATCH:
        raise no_setting("SGLang", deployment, "choose vLLM, which has such a table")
    parts = [
        "python -m sglang.launch_server",
        f"--model-path {TARGET}",
        f"--max-running-requests {options.max_running}",
        f"--chunked-prefill-size {options.token_budget}",
    ]
    if deployment.cost.gpus > 1:
        parts.append(f"--tp-size {deployment.cost.gpus}")
    if not options.prefix_caching:
        parts.append("--disable-radix-cache")
    drafts = deployment.used if uniform is None else uniform
    notes = _engine_notes(deployment, drafts)
    if uniform == 0:
        return Config(joined(parts), notes=(models_note(TARGET), *notes))
    algorithm = named("SGLang", deployment, _ALGORITHMS)
    parts.append(f"--speculative-algorithm {algorithm}")
    models = (TARGET,) if algorithm == "NEXTN" else (TARGET, DRAFTER)
    if algorithm != "NEXTN":  # whose heads are part of the target's checkpoint
        parts.append(f"--speculative-draft-model-path {DRAFTER}")
    if algorithm in _SEQUENTIAL:
        parts += [f"--speculative-num-steps {drafts}", "--speculative-eagle-topk 1"]
    parts.append(f"--speculative-num-draft-tokens {drafts + 1}")
    if algorithm == "DSPARK":
        parts.append(f"--speculative-dspark-block-size {drafts}")
    notes = [models_note(*models), *notes]
    if uniform is not None:
        if algorithm == "DSPARK":
            parts.insert(0, "SGLANG_RAGGED_VERIFY_MODE=static")
        return Config(joined(parts), notes=tuple(notes))
    return _planned(deployment, algorithm, parts, notes)


def _planned(deployment: Deployment, algorithm: str, parts: list, notes: list) -> Config:
    """With its planner and the table that it prices steps by."""
    if not (deployment.plans and algorithm == "DSPARK"):
        mend = "choose a fixed number of drafts"
        raise no_setting(
            "SGLang", deployment, mend if algorithm != "DSPARK" else f"topk, or {mend}"
        )
    lag = create(deployment.scheduler, deployment.used).lag or 2
    environment = [
        "SGLANG_RAGGED_VERIFY_MODE=compact",
        f"SGLANG_DSPARK_CONFIDENCE_RELAY_LAG_STEPS={lag}",
    ]
    parts = [*environment, *parts, f"--speculative-dspark-sps-table-path {_TABLE}"]
    notes += [
        f"The table prices steps at {deployment.context:,.0f} tokens of context per request: "
        "SGLang's tables have no axis for it.",
        "Without a table SGLang verifies everything, and only its log says so.",
    ]
    if deployment.kind != "topk":
        notes.append(f"{deployment.scheduler} itself is not in SGLang; this is its nearest.")
    table = additive_table(
        deployment.cost, deployment.options.slots, deployment.used, deployment.context
    )
    return Config(joined(parts), {_TABLE: json.dumps(table, indent=1) + "\n"}, tuple(notes))


def _engine_notes(deployment: Deployment, drafts: int) -> list[str]:
    notes = []
    if not deployment.options.prefill_first:
        notes.append("SGLang runs prefill apart from decoding: compare with --prefill first.")
    sizes = deployment.captured
    if sizes and sizes != ladder("sglang", drafts):
        notes.append(
            "SGLang captures its own ladder of batch sizes, not the sizes that were simulated: "
            "compare with --graph-sizes sglang."
        )
    return notes
