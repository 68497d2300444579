"""A choice of scheduler as an engine's own settings: vLLM, SGLang.

Flags and file formats are those of vllm-project/vllm (config/speculative.py, adaptive verification)
and sgl-project/sglang (speculative/dspark_components), as of September 2026.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from workbench.errors import InputError
from workbench.profiles import StepCost
from workbench.schedulers import create
from workbench.serving import Options

ENGINES = ("vLLM", "SGLang")
BY_BATCH = "static k by batch size"
_TARGET, _DRAFTER = "TARGET_MODEL", "DRAFT_MODEL"
_SCHEDULING = ("topk", "global", "greedy")


@dataclass(frozen=True)
class Config:
    """What to start an engine with. ``files``: by name, to be written beside the command."""

    command: str
    files: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def batch_table(best: Mapping[int, int], most: int) -> list[list[int]]:
    """vLLM's ``num_speculative_tokens_per_batch_size`` from the best k at some batch sizes.

    best: k by requests at once; most: requests that the engine runs. Ranges [from, to, k] meet
    halfway between neighbours (in the ratio), begin at 1 and end at ``most``.
    """
    if not best:
        raise InputError(
            "no fixed draft length was simulated",
            place=BY_BATCH,
            mend="compare none, static:1, static:3 … at some loads",
        )
    table: list[list[int]] = []
    sizes = sorted(best)
    for index, size in enumerate(sizes):
        following = sizes[index + 1] if index + 1 < len(sizes) else None
        last = most if following is None else int((size * following) ** 0.5)
        first = table[-1][1] + 1 if table else 1
        if last < first:
            continue
        if table and table[-1][2] == best[size]:
            table[-1][1] = min(last, most)
        else:
            table.append([first, min(last, most), best[size]])
        if last >= most:
            break
    return table


def additive_table(cost: StepCost, most_requests: int, gamma: int, context: float) -> dict:
    """SGLang's additive cost table: T = bias + α(R) + θ(M), M = R + drafts, all in seconds.

    α holds the draft pass and the attention at ``context`` tokens per request, θ the padded forward
    pass. Between probes SGLang draws straight lines, so every step of the staircase gets a probe on
    both of its sides. Steps per second past the last probe are the last one's: θ ends at the most
    tokens that ``most_requests`` can verify.
    """
    most = most_requests * (1 + gamma)
    first = cost.verify_seconds(1)
    sizes = sorted({1, most, *(n for n in _corners(cost, most) if 1 <= n <= most)})
    requests = sorted(
        {1, most_requests, *(2**power for power in range(most_requests.bit_length()))}
    )

    def by_requests(count: int) -> float:
        return cost.draft_seconds(count, gamma, context) + cost.attention_seconds(count, context)

    return {
        "bias_seconds": first + by_requests(1) + cost.host_seconds(False),
        "bs_probes": requests,
        "alpha_seconds": [by_requests(count) - by_requests(1) for count in requests],
        "m_probes": sizes,
        "theta_seconds": [cost.verify_seconds(size) - first for size in sizes],
    }


def _corners(cost: StepCost, most: int) -> Sequence[int]:
    graphs = cost.profile.graphs
    points = list(cost.profile.verify.batch_tokens)
    if graphs:
        points = [side for size in graphs.batch_tokens for side in (size, size + 1)]
        if graphs.beyond:
            points += graphs.beyond.batch_tokens
    return [point for point in points if point <= most]


def export(
    engine: str,
    scheduler: str,
    cost: StepCost,
    gamma: int,
    options: Options,
    *,
    context: float,
    table: list[list[int]] | None = None,
) -> Config:
    """The settings that make ``engine`` do what ``scheduler`` does, as nearly as it can.

    context: tokens per request, for tables that have no axis for it; table: for ``BY_BATCH``.
    Raises InputError for what the engine has no setting for.
    """
    if engine == "vLLM":
        return _vllm(scheduler, cost, gamma, options, table)
    return _sglang(scheduler, cost, gamma, options, context)


def _kind(scheduler: str) -> str:
    return scheduler.partition(":")[0]


def _method(cost: StepCost) -> str:
    drafter = cost.profile.drafter
    return (drafter.kind if drafter else None) or "dspark"


def _no_setting(engine: str, scheduler: str, other: str) -> InputError:
    return InputError(
        f"{engine} has no setting that does this", place=scheduler, mend=f"choose {other}"
    )


def _vllm(scheduler, cost, gamma, options, table) -> Config:
    parts = [
        "vllm serve",
        _TARGET,
        f"--max-num-seqs {options.max_running}",
        f"--max-num-batched-tokens {options.token_budget}",
    ]
    notes = [f"Put your models for {_TARGET} and {_DRAFTER}."]
    if cost.gpus > 1:
        parts.append(f"--tensor-parallel-size {cost.gpus}")
    if cost.profile.graphs:
        sizes = cost.profile.graphs.batch_tokens
        graphs = {"cudagraph_capture_sizes": sizes, "max_cudagraph_capture_size": sizes[-1]}
        parts.append("--compilation-config " + shlex.quote(json.dumps(graphs)))
        notes.append("The captured sizes are the profile's: past the last one steps run eagerly.")
    speculative: dict = {
        "method": _method(cost),
        "model": _DRAFTER,
        "num_speculative_tokens": gamma,
    }
    uniform = None if scheduler == BY_BATCH else create(scheduler, gamma).uniform
    if uniform == 0:
        return Config(_joined(parts), notes=tuple(notes[1:]))
    if uniform is not None:
        speculative["num_speculative_tokens"] = uniform
        if _method(cost) == "dspark" and uniform < gamma:
            notes.append(f"vLLM refuses fewer drafts than a DSpark checkpoint's block ({gamma}).")
    elif scheduler == BY_BATCH:
        speculative["num_speculative_tokens"] = max(row[2] for row in table)
        speculative["num_speculative_tokens_per_batch_size"] = table
    elif _kind(scheduler) in _SCHEDULING:
        speculative["enable_adaptive_verification"] = True
        notes += [
            "vLLM searches the best budget over the confidences of the drafts before (a lag of 1) "
            "and prices it with a table that it measures at its start, not with this profile.",
            "Adaptive verification needs full CUDA graphs of variable length: no --enforce-eager, "
            "LoRA, pipeline or context parallelism, nor output log-probabilities.",
        ]
        if _kind(scheduler) != "topk":
            notes.append(f"{scheduler} itself is not in vLLM; this is its nearest.")
    else:
        raise _no_setting("vLLM", scheduler, "topk or a fixed number of drafts")
    if not speculative["num_speculative_tokens"]:
        return Config(_joined(parts), notes=tuple(notes[1:]))
    parts.append("--speculative-config " + shlex.quote(json.dumps(speculative)))
    return Config(_joined(parts), notes=tuple(notes))


def _sglang(scheduler, cost, gamma, options, context) -> Config:
    parts = [
        "python -m sglang.launch_server",
        f"--model-path {_TARGET}",
        f"--max-running-requests {options.max_running}",
        f"--chunked-prefill-size {options.token_budget}",
    ]
    if cost.gpus > 1:
        parts.append(f"--tp-size {cost.gpus}")
    notes = [f"Put your models for {_TARGET} and {_DRAFTER}."]
    if scheduler == BY_BATCH:
        raise _no_setting("SGLang", scheduler, "vLLM, which has such a table")
    rule = create(scheduler, gamma)
    if rule.uniform == 0:
        return Config(_joined(parts), notes=(f"Put your model for {_TARGET}.",))
    drafts = gamma if rule.uniform is None else rule.uniform
    algorithm = _method(cost).upper()
    parts += [
        f"--speculative-algorithm {algorithm}",
        f"--speculative-draft-model-path {_DRAFTER}",
        f"--speculative-num-draft-tokens {drafts + 1}",
    ]
    if algorithm == "DSPARK":
        parts.append(f"--speculative-dspark-block-size {drafts}")
    if rule.uniform is not None:
        return Config(_joined(["SGLANG_RAGGED_VERIFY_MODE=static", *parts]), notes=tuple(notes))
    if _kind(scheduler) not in _SCHEDULING:
        raise _no_setting("SGLang", scheduler, "topk or a fixed number of drafts")
    parts.append("--speculative-dspark-sps-table-path sps_table.json")
    lag = rule.lag or 2
    environment = [
        "SGLANG_RAGGED_VERIFY_MODE=compact",
        f"SGLANG_DSPARK_CONFIDENCE_RELAY_LAG_STEPS={lag}",
    ]
    notes += [
        f"The table prices steps at {context:,.0f} tokens of context per request: SGLang's tables "
        "have no axis for it.",
        "Without a table SGLang verifies everything, and only its log says so.",
    ]
    if _kind(scheduler) != "topk":
        notes.append(f"{scheduler} itself is not in SGLang; this is its nearest.")
    table = additive_table(cost, options.slots, gamma, context)
    files = {"sps_table.json": json.dumps(table, indent=1) + "\n"}
    return Config(_joined([*environment, *parts]), files, tuple(notes))


def _joined(parts: Sequence[str]) -> str:
    return " \\\n  ".join(parts)
