"""A step's cost for compiled callers: the parts of ``StepCost`` as arrays, and their rules."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from workbench.compiled import njit
from workbench.profiles.interpolate import between_layers, packed_layers, pair, rule


class PackedCost(NamedTuple):
    """Parts of a step's seconds as arrays; ``verify_table`` is the other one.

    Tables are ``interpolate.Table.packed`` (attention: ``Stack.packed``), empty where the profile
    has none.
    """

    attention: np.ndarray  # by query tokens, requests and mean context
    attention_mixed: np.ndarray  # the same beside prefill, where the profile has a table for it
    mixed: np.ndarray  # forward pass by prefill and padded batch tokens
    prefill: np.ndarray  # by chunk and the context before it
    draft: np.ndarray  # [contexts, drafts + 1, requests + 1]
    draft_contexts: np.ndarray  # empty: at the context at which it was measured
    rates: np.ndarray  # see the indices below


# Indices of ``PackedCost.rates``.
(
    ASYNC, SYNC, PER_REQUEST, PER_NEW, PER_PREFILL_TOKEN, MIXED_FACTOR, CONTEXT_SHARE, CONTEXT,
    VERIFY_PREFILL,
) = range(9)  # fmt: skip


@njit
def packed_attention(attention, attention_mixed, rates, requests, context, prefill):
    """Axis, values and factor of attention at R and context, for ``attention_at``."""
    if prefill == 0:
        axis, values = packed_layers(attention, requests, context)
        return axis, values, 1.0
    if len(attention_mixed):
        axis, values = packed_layers(attention_mixed, requests, context)
        return axis, values, 1.0
    axis, values = packed_layers(attention, requests, context)
    return axis, values, rates[MIXED_FACTOR]


@njit
def attention_at(part, queries):
    """``StepCost.attention_seconds`` of what ``packed_attention`` gives."""
    axis, values, factor = part
    return between_layers(axis, values, queries) * factor


@njit
def attention_span(axis, values, factor, requests, seconds):
    """Fill seconds [n] with attention's with 0..n − 1 drafts verified: ``attention_at`` of each."""
    i, last = 0, len(axis) - 2
    for k in range(len(seconds)):
        if last < 0:
            seconds[k] = values[0] * factor
            continue
        queries = (requests + k) / max(requests, 1)
        while i < last and queries >= axis[i + 1]:  # they only grow
            i += 1
        seconds[k] = rule(queries, axis[i], axis[i + 1], values[i], values[i + 1]) * factor


@njit
def span(stack, verify, factor, requests, context, drafting, feeding, hosting, other):
    """Seconds [n] of a step with 0..n − 1 drafts verified; verify: those of the forward pass [n].

    drafting, feeding, hosting, other: the draft pass, its share of prefill, the host, and prefill's
    attention, added in this order.
    """
    seconds = np.empty(len(verify))
    axis, values = np.zeros(0), np.zeros(1)
    if len(stack):
        axis, values = packed_layers(stack, requests, context)
    attention_span(axis, values, factor, requests, seconds)
    for k in range(len(verify)):
        seconds[k] = verify[k] + (seconds[k] + drafting + feeding + hosting + other)
    return seconds


@njit
def packed_draft(draft, draft_contexts, attention, rates, requests, drafts, context):
    """``StepCost.draft_seconds`` of packed parts."""
    seconds = draft[0, drafts, requests]
    if drafts and len(draft_contexts):
        x, i = draft_contexts, pair(draft_contexts, context)
        below, above = draft[i, drafts, requests], draft[i + 1, drafts, requests]
        seconds = rule(context, x[i], x[i + 1], below, above)
    if drafts == 0 or rates[CONTEXT_SHARE] == 0.0:
        return seconds
    axis, values = packed_layers(attention, requests, context)
    more = between_layers(axis, values, 1.0)
    axis, values = packed_layers(attention, requests, rates[CONTEXT])
    more -= between_layers(axis, values, 1.0)
    return max(0.0, seconds + rates[CONTEXT_SHARE] * more)


@njit
def beside_prefill(seconds, rate, prefill):
    """``StepCost.beside_prefill`` of one value."""
    return max(0.0, seconds + rate * prefill) if prefill and rate != 0.0 else seconds
