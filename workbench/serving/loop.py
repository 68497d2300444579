"""Whole steps, compiled, as long as nothing outside the replica can happen.

The same sequence as ``Replica.plan`` and ``Replica.commit`` for what most runs need: built-in
schedulers, first come first served, no prefix cache. A test holds both to the same bits.
"""

from __future__ import annotations

import numpy as np

from workbench.compiled import njit
from workbench.profiles.interpolate import packed_at
from workbench.profiles.packed import (
    ASYNC,
    PER_NEW,
    PER_PREFILL_TOKEN,
    PER_REQUEST,
    VERIFY_PREFILL,
    attention_at,
    attention_span,
    beside_prefill,
    packed_attention,
    packed_draft,
)
from workbench.profiles.packed import SYNC as SYNC_SECONDS
from workbench.schedulers.admission import (
    admit,
    early_stop,
    gather,
    global_search,
    kth_largest,
    sort_descending,
)
from workbench.serving import kernels
from workbench.serving.state import (
    BEFORE,
    CHUNK,
    DECODING,
    FINISHED,
    FREE,
    KEPT,
    LENGTHS,
    NEVER,
    OUTCOME,
    PREFILLING,
)

# Registers: what Python holds as attributes, as an int64 array.
REGISTERS = (
    "decoding_count", "prefilling_count", "free_count", "line_head", "line_count", "admissions",
    "kv_free", "step", "outstanding", "completed", "pending", "requests", "chunks", "drafts",
    "batch", "prefill", "finished_count",
)  # fmt: skip
(
    DECODING_COUNT, PREFILLING_COUNT, FREE_COUNT, LINE_HEAD, LINE_COUNT, ADMISSIONS,
    KV_FREE, STEP, OUTSTANDING, COMPLETED, PENDING, REQUESTS, CHUNKS, DRAFTS,
    BATCH, PREFILL, FINISHED_COUNT,
) = range(len(REGISTERS))  # fmt: skip

# Settings, an int64 array.
SETTINGS = (
    "gamma", "rule", "k", "lag", "depth", "token_budget", "prefill_first", "block", "lookahead",
    "limited", "stop_on_finish", "sync", "drafter", "belief_parts", "belief_truth",
    "gpus", "metered",
)  # fmt: skip
(
    GAMMA, RULE, K, LAG, DEPTH, TOKEN_BUDGET, PREFILL_FIRST, BLOCK, LOOKAHEAD,
    LIMITED, STOP_ON_FINISH, SYNC, DRAFTER, BELIEF_PARTS, BELIEF_TRUTH,
    GPUS, METERED,
) = range(len(SETTINGS))  # fmt: skip

# Rules that the loop knows.
UNIFORM, THRESHOLD, GREEDY, TOPK, GLOBAL = range(5)

# Clock, a float64 array.
NOW, END, SECONDS, JOULES, CUT, NEW_SURVIVAL = range(6)

# What ``advance`` returns.
IDLE = 0  # nothing to do
WAIT = 1  # the planned step ends at clock[END], not before ``until``
FINISHED_SOME = 2  # requests finished at clock[NOW], and their users will send others
BY_HAND = 3  # KV blocks do not suffice: Python has to preempt


@njit
def _commit(
    registers, clock, settings, slots, lists, lengths, segment_start, segments, times, counters,
    drawn, stamp, past, past_counts, past_seconds, survival, padded, watts,
):  # fmt: skip
    """End the planned step at clock[END]; the serial numbers that finished are in their list."""
    now = clock[END]
    clock[NOW] = now
    requests, batch = registers[REQUESTS], registers[BATCH]
    kernels.count_step(counters, batch, padded[batch])
    if settings[METERED]:
        clock[JOULES] += settings[GPUS] * clock[SECONDS] * watts[batch]
    decoding, prefilling = lists[DECODING], lists[PREFILLING]
    alive, ended = registers[DECODING_COUNT], 0
    if settings[DEPTH] and requests and registers[DRAFTS] and settings[RULE] != UNIFORM:
        # slots before they are moved: the rows belong to this step's requests
        place = registers[STEP] % settings[DEPTH]
        for row in range(requests):
            index = decoding[row]
            stamp[place, index] = registers[STEP]
            past_counts[0, place, index] = lists[LENGTHS, row]
            for k in range(survival.shape[1]):
                past[place, index, k] = survival[row, k]
            past_counts[1, place, index] = min(lists[LENGTHS, row], lists[OUTCOME, row])
    if requests:
        alive, ended = kernels.commit_rounds(
            slots, decoding, requests, registers[DRAFTS], lists[LENGTHS], lists[OUTCOME],
            drawn, segments[0], segments[1], segment_start[1:], lists[KEPT], counters,
            lists[FINISHED],
        )  # fmt: skip
    if settings[DEPTH]:
        past_seconds[registers[STEP] % settings[DEPTH]] = clock[SECONDS]
    registers[STEP] += 1
    if registers[CHUNKS]:
        waiting, alive, ended = kernels.commit_chunks(
            slots, prefilling, registers[PREFILLING_COUNT], registers[CHUNKS], lists[CHUNK],
            decoding, alive, now, times[1], counters, segments[0], segments[1],
            segment_start[1:], lists[FINISHED], ended,
        )  # fmt: skip
        registers[PREFILLING_COUNT] = waiting
    registers[DECODING_COUNT] = alive
    for place in range(ended):
        index = lists[FINISHED, place]
        serial = slots[index].serial
        times[2, serial] = now
        registers[OUTSTANDING] -= lengths[0, serial] + lengths[1, serial]
        registers[KV_FREE] += slots[index].blocks
        lists[FREE, registers[FREE_COUNT]] = index
        registers[FREE_COUNT] += 1
        lists[FINISHED, place] = serial
    registers[COMPLETED] += ended
    registers[FINISHED_COUNT] = ended
    registers[PENDING] = 0


@njit
def _admit_waiting(
    registers, settings, slots, lists, line, lengths, segment_start, segments, stamp
):
    """Seat waiting requests while slots and blocks last; returns how many."""
    count = 0
    while registers[LINE_COUNT] and registers[FREE_COUNT]:
        serial = line[registers[LINE_HEAD]]
        blocks = (lengths[0, serial] + settings[LOOKAHEAD] + settings[BLOCK] - 1) // settings[BLOCK]
        if blocks > registers[KV_FREE]:
            break
        registers[LINE_HEAD] = (registers[LINE_HEAD] + 1) % len(line)
        registers[LINE_COUNT] -= 1
        registers[KV_FREE] -= blocks
        registers[FREE_COUNT] -= 1
        registers[ADMISSIONS] += 1
        index = lists[FREE, registers[FREE_COUNT]]
        slot = slots[index]
        slot.serial, slot.admitted = serial, registers[ADMISSIONS]
        slot.prompt, slot.prefilled, slot.left = lengths[0, serial], 0, lengths[1, serial]
        slot.segment = segment_start[serial]
        slot.row, slot.row_end = 0, 0
        if slot.segment < segment_start[serial + 1]:
            slot.row = segments[0, slot.segment]
            slot.row_end = slot.row + segments[1, slot.segment]
        slot.blocks, slot.undrafted = blocks, 0
        stamp[:, index] = NEVER
        lists[PREFILLING, registers[PREFILLING_COUNT]] = index
        registers[PREFILLING_COUNT] += 1
        count += 1
    return count


@njit
def _believed(
    settings, requests, drafts, prefill, context, prefill_seconds, padded, belief, most, seconds
):
    """Fill seconds [most + 1]: what the planner thinks of 0..most drafts verified."""
    by_batch, alpha, parts = belief
    if not settings[BELIEF_PARTS]:
        for k in range(most + 1):
            seconds[k] = by_batch[requests + k] + alpha[requests]
        return
    attention, attention_mixed, mixed, draft, draft_contexts, rates = parts
    part = packed_attention(attention, attention_mixed, rates, requests, context, prefill)
    drafting = packed_draft(draft, draft_contexts, attention, rates, requests, drafts, context)
    base = rates[SYNC_SECONDS] if settings[SYNC] else rates[ASYNC]
    hosting = base + rates[PER_REQUEST] * requests + rates[PER_NEW] * 0
    first = requests + prefill
    axis, values, factor = part
    attention_span(axis, values, factor, requests, seconds[: most + 1])
    for k in range(most + 1):
        # added in the order in which the beliefs in Python add
        rest = seconds[k]
        rest += drafting
        if drafts > 0:
            rest += rates[PER_PREFILL_TOKEN] * prefill
        rest += hosting
        if settings[BELIEF_TRUTH] and prefill and len(mixed):
            forward = packed_at(mixed, prefill, padded[first + k])
        else:
            forward = beside_prefill(by_batch[first + k], rates[VERIFY_PREFILL], prefill)
        if settings[BELIEF_TRUTH]:
            seconds[k] = forward + (rest + prefill_seconds)
        else:
            seconds[k] = forward + (alpha[requests] + prefill_seconds + rest)


@njit
def _schedule(
    registers, clock, settings, slots, lists, confidence, stamp, past, survival, values, context,
    prefill_seconds, padded, belief,
):  # fmt: skip
    """ℓ of the decoding requests into their list."""
    requests, drafts = registers[REQUESTS], registers[DRAFTS]
    rule, rows = settings[RULE], survival[:requests]
    cut = clock[CUT]
    lengths = lists[LENGTHS]
    for place in range(requests):
        row = slots[lists[DECODING, place]].row
        product, length, open_ = 1.0, 0, True
        for k in range(settings[GAMMA]):
            if k < drafts:
                value = np.float64(confidence[row, k])
                product *= value
                survival[place, k] = product
                open_ = open_ and value >= cut
                length += open_
            else:
                survival[place, k] = 0.0
        lengths[place] = length
    if rule == THRESHOLD:
        return
    sorted_, spare, seconds = values[0], values[1], values[2]
    if rule == TOPK:
        step = registers[STEP] - settings[LAG]
        place = step % settings[DEPTH]
        total = 0
        for row in range(requests):
            index = lists[DECODING, row]
            present = stamp[place, index] == step
            for k in range(drafts):
                value = past[place, index, k] if present else clock[NEW_SURVIVAL]
                if value > 0.0:
                    sorted_[total] = value
                    total += 1
    else:
        total = gather(rows, drafts, 0.0, sorted_)
    sort_descending(sorted_, total, spare)
    _believed(
        settings, requests, drafts, registers[PREFILL], context, prefill_seconds, padded, belief,
        total, seconds,
    )  # fmt: skip
    if rule == GREEDY:
        budget = early_stop(sorted_, total, requests, seconds)
    else:
        budget = global_search(sorted_, total, requests, seconds)
    if rule != TOPK:
        admit(rows, drafts, budget, sorted_[budget - 1] if budget else 0.0, lengths)
        return
    # the K highest of now, zeros too
    total = gather(rows, drafts, -1.0, sorted_)
    budget = min(budget, total)
    if budget:
        admit(rows, drafts, budget, kth_largest(sorted_, total, budget, spare), lengths)
    else:
        lengths[:requests] = 0


@njit
def advance(
    now, until, registers, clock, settings, slots, lists, line, lengths, segment_start, segments,
    times, counters, accepted, drawn, confidence, stamp, past, past_counts, past_seconds,
    survival, values, verify, padded, watts, prefill_table, parts, belief,
):  # fmt: skip
    """Run steps from ``now`` until one ends at or after ``until``; returns IDLE, WAIT, ….

    A step that was planned by the last call is committed first, at clock[END]. With ``until`` <
    ``now`` that is all.
    """
    clock[NOW] = now
    registers[FINISHED_COUNT] = 0
    while True:
        if registers[PENDING]:
            _commit(
                registers, clock, settings, slots, lists, lengths, segment_start, segments, times,
                counters, drawn, stamp, past, past_counts, past_seconds, survival, padded, watts,
            )  # fmt: skip
            if registers[FINISHED_COUNT] and settings[STOP_ON_FINISH]:
                return FINISHED_SOME
            if until < clock[NOW]:
                return IDLE
        if settings[LIMITED] and registers[DECODING_COUNT]:
            decoding = lists[DECODING]
            wanted = kernels.growth(
                slots, decoding, registers[DECODING_COUNT], settings[BLOCK], settings[LOOKAHEAD]
            )
            if wanted > registers[KV_FREE]:
                return BY_HAND
            if wanted:
                kernels.grow(
                    slots, decoding, registers[DECODING_COUNT], settings[BLOCK],
                    settings[LOOKAHEAD],
                )  # fmt: skip
                registers[KV_FREE] -= wanted
        admitted = 0
        if registers[LINE_COUNT]:
            admitted = _admit_waiting(
                registers, settings, slots, lists, line, lengths, segment_start, segments, stamp
            )
        waiting = registers[PREFILLING_COUNT]
        requests = registers[DECODING_COUNT]
        if requests == 0 and waiting == 0:
            return IDLE
        if settings[PREFILL_FIRST] and waiting:
            requests = 0
        drafts, verified, context = 0, 0, 0.0
        fits = settings[GAMMA]
        if requests:
            context = kernels.mean_context(slots, lists[DECODING], requests)
            fits = min(fits, settings[TOKEN_BUDGET] // requests - 1)
            drafts = min(settings[K], fits) if settings[RULE] == UNIFORM else fits
        chunks, prefill, prefill_seconds = 0, 0, 0.0
        if waiting:
            chunks, prefill = kernels.plan_chunks(
                slots, lists[PREFILLING], waiting,
                settings[TOKEN_BUDGET] - requests * (1 + drafts), lists[CHUNK], lists[BEFORE],
            )  # fmt: skip
            for place in range(chunks):
                prefill_seconds += packed_at(
                    prefill_table, lists[CHUNK, place], lists[BEFORE, place]
                )
        registers[REQUESTS], registers[DRAFTS] = requests, drafts
        registers[CHUNKS], registers[PREFILL] = chunks, prefill
        if drafts:
            if settings[RULE] == UNIFORM:
                lists[LENGTHS, :requests] = drafts
            else:
                _schedule(
                    registers, clock, settings, slots, lists, confidence, stamp, past, survival,
                    values, context, prefill_seconds, padded, belief,
                )  # fmt: skip
            kernels.outcomes(slots, lists[DECODING], requests, accepted, 0.0, 0, lists[OUTCOME])
            for place in range(requests):
                verified += lists[LENGTHS, place]
        batch = requests + verified + prefill
        registers[BATCH] = batch
        # the parts in the order in which StepCost adds them
        attention, attention_mixed, mixed, draft, draft_contexts, rates = parts
        forward = beside_prefill(verify[batch], rates[VERIFY_PREFILL], prefill)
        if prefill and len(mixed):
            forward = packed_at(mixed, prefill, padded[batch])
        decode, drafting = 0.0, 0.0
        if requests:
            part = packed_attention(attention, attention_mixed, rates, requests, context, prefill)
            decode = attention_at(part, (batch - prefill) / requests)
            drafting = packed_draft(
                draft, draft_contexts, attention, rates, requests, drafts, context
            )
        if settings[DRAFTER]:
            drafting += rates[PER_PREFILL_TOKEN] * prefill
        base = rates[SYNC_SECONDS] if settings[SYNC] else rates[ASYNC]
        hosting = base + rates[PER_REQUEST] * requests + rates[PER_NEW] * admitted
        seconds = forward + decode + prefill_seconds + drafting + hosting
        clock[SECONDS] = seconds
        clock[END] = clock[NOW] + seconds
        registers[PENDING] = 1
        if clock[END] >= until:  # what arrives at ``until`` joins the next step
            return WAIT
