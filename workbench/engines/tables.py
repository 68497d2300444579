"""The tables that engines read: draft lengths by batch size, and what a step costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workbench.engines.deployment import BY_BATCH
from workbench.errors import InputError
from workbench.profiles import StepCost


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
    pass. Attention depends on the query tokens per request too, which a sum of α and θ cannot say:
    it is that of half the drafts verified. Between probes SGLang draws straight lines, so every
    step of the staircase gets a probe on both of its sides. Steps per second past the last probe
    are the last one's: θ ends at the most tokens that ``most_requests`` can verify.
    """
    most = most_requests * (1 + gamma)
    first = cost.verify_seconds(1)
    sizes = sorted({1, most, *(n for n in _corners(cost, most) if 1 <= n <= most)})
    requests = sorted(
        {1, most_requests, *(2**power for power in range(most_requests.bit_length()))}
    )

    def by_requests(count: int) -> float:
        attention = cost.attention_seconds(count, context, queries=1 + gamma / 2)
        return cost.draft_seconds(count, gamma, context) + attention

    return {
        "bias_seconds": first + by_requests(1) + cost.host_seconds(False),
        "bs_probes": requests,
        "alpha_seconds": [by_requests(count) - by_requests(1) for count in requests],
        "m_probes": sizes,
        "theta_seconds": [cost.verify_seconds(size) - first for size in sizes],
    }


def legacy_table(cost: StepCost, most_requests: int, gamma: int, context: float) -> dict:
    """TensorRT-LLM's table, T = fixed + α(R) + θ(M) in milliseconds, of the same parts.

    Its planner waits for this step's confidences: the fixed part holds the synchronous host time.
    """
    parts = additive_table(cost, most_requests, gamma, context)
    waiting = cost.host_seconds(True) - cost.host_seconds(False)
    return {
        "token_counts": parts["m_probes"],
        "step_time_ms": [1e3 * seconds for seconds in parts["theta_seconds"]],
        "fixed_overhead_ms": 1e3 * (parts["bias_seconds"] + waiting),
        "batch_sizes": parts["bs_probes"],
        "batch_overhead_ms": [1e3 * seconds for seconds in parts["alpha_seconds"]],
    }


def _corners(cost: StepCost, most: int) -> Sequence[int]:
    graphs = cost.profile.graphs
    points = list(cost.profile.verify.batch_tokens)
    if graphs:
        points = [side for size in graphs.batch_tokens for side in (size, size + 1)]
        if graphs.beyond:
            points += graphs.beyond.batch_tokens
    return [point for point in points if point <= most]
