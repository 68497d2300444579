"""The inside of a step, compiled: pure functions of arrays, no clock and no policy.

Shapes: S slots, R decoding requests (the first R entries of ``decoding``), P prefilling requests,
γ drafts per block, A recorded rows, N requests of the run.
"""

from __future__ import annotations

import numpy as np

from workbench.compiled import njit
from workbench.serving.state import (
    BATCH_TOKENS,
    DRAWN_ROUNDS,
    INNER_KEPT,
    INNER_ROUNDS,
    INNER_VERIFIED,
    PADDED_TOKENS,
    PREFILL_TOKENS,
    REJECTED,
    ROUNDS,
    STEPS,
    TOKENS,
    VERIFIED,
)


@njit
def plan_chunks(slots, prefilling, waiting_count, budget, chunk, before):
    """Prompt tokens of this step, oldest request first, at most ``budget`` in all.

    Fills chunk [P] and before [P] (tokens ahead of each chunk); returns (chunks, tokens).
    """
    count, total = 0, 0
    for place in range(waiting_count):
        if total >= budget:
            break
        slot = slots[prefilling[place]]
        tokens = min(slot.prompt - slot.prefilled, budget - total)
        chunk[place] = tokens
        before[place] = slot.prefilled
        total += tokens
        count += 1
    return count, total


@njit
def mean_context(slots, decoding, requests):
    """Mean KV tokens of the decoding requests, their anchors included."""
    total = 0
    for place in range(requests):
        slot = slots[decoding[place]]
        total += slot.prefilled + 1
    return total / requests


@njit
def look(slots, decoding, requests, issued, now, serial, context, row, age):
    """What a view shows of each decoding request: fills serial, context, row and age [R]."""
    for place in range(requests):
        slot = slots[decoding[place]]
        serial[place] = slot.serial
        context[place] = slot.prefilled + 1
        row[place] = slot.row
        age[place] = now - issued[slot.serial]


@njit
def survivals(recorded, row, requests, drafts, confidence, survival):
    """Fill confidence and survival [R, γ] from the recorded rows; 0 past ``drafts``."""
    gamma = confidence.shape[1]
    for place in range(requests):
        product = 1.0
        for k in range(gamma):
            if k < drafts:
                value = np.float64(recorded[row[place], k])
                product *= value
                confidence[place, k] = value
                survival[place, k] = product
            else:
                confidence[place, k] = 0.0
                survival[place, k] = 0.0


@njit
def uniform(seed, serial, anchor, k):
    """A number in [0, 1) that depends on its arguments alone (splitmix64 finaliser)."""
    x = np.uint64(seed) + np.uint64(serial) * np.uint64(0x9E3779B97F4A7C15)
    x += np.uint64(anchor) * np.uint64(0xD1B54A32D192ED03) + np.uint64(k) * np.uint64(
        0x8CB92BA72F3D8DD7
    )
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return np.float64(x >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit
def outcomes(slots, decoding, requests, recorded, thinning, seed, accepted):
    """Drafts [R] that verification would accept of each block, as recorded.

    thinning > 0: a draft passes only if a coin with 1 − thinning × (share of the context that the
    drafter has no keys and values of) does as well.
    """
    for place in range(requests):
        slot = slots[decoding[place]]
        limit = np.int64(recorded[slot.row])
        if thinning > 0.0 and slot.undrafted > 0:
            keep = 1.0 - thinning * slot.undrafted / (slot.prefilled + 1)
            for k in range(limit):
                if uniform(seed, slot.serial, slot.left, k) >= keep:
                    limit = k
                    break
        accepted[place] = limit


@njit
def move(slot, tokens, segment_first, segment_rows, segment_end):
    """Put the anchor ``tokens`` rows further on, into the next segment where one ends."""
    slot.row += tokens
    while slot.row >= slot.row_end and slot.segment + 1 < segment_end[slot.serial]:
        over = slot.row - slot.row_end
        slot.segment += 1
        slot.row = segment_first[slot.segment] + over
        slot.row_end = segment_first[slot.segment] + segment_rows[slot.segment]


@njit
def commit_rounds(
    slots, decoding, requests, drafts, lengths, accepted, drawn,
    segment_first, segment_rows, segment_end,
    kept, counters, finished,
):  # fmt: skip
    """Advance the R decoding requests by one round; returns (still decoding, finished).

    lengths ℓ [R], accepted [R] drafts that would pass, drawn bool [A or 0]; segments of recorded
    rows: first row and number of rows [segments], segment_end [N] past the last of each request.
    Fills kept [R] = min(ℓ, accepted) and finished (slots); decoding keeps its order.
    """
    alive, ended = 0, 0
    for place in range(requests):
        index = decoding[place]
        slot = slots[index]
        verified = np.int64(lengths[place]) if drafts else 0
        passed = min(verified, accepted[place]) if drafts else 0
        kept[place] = passed
        counters[VERIFIED] += verified
        counters[REJECTED] += verified - passed
        if drafts and verified and drawn.size and drawn[slot.row]:
            counters[DRAWN_ROUNDS] += 1
        emitted = passed + 1
        if emitted >= slot.left:
            counters[TOKENS] += slot.left
            slot.left = 0
            finished[ended] = index
            ended += 1
            continue
        counters[TOKENS] += emitted
        counters[INNER_ROUNDS] += 1
        counters[INNER_VERIFIED] += verified
        counters[INNER_KEPT] += passed
        slot.left -= emitted
        slot.prefilled += emitted
        move(slot, emitted, segment_first, segment_rows, segment_end)
        decoding[alive] = index
        alive += 1
    counters[ROUNDS] += requests
    return alive, ended


@njit
def commit_chunks(
    slots, prefilling, waiting_count, chunks, chunk, decoding, alive, now, first, counters,
    segment_first, segment_rows, segment_end, finished, ended,
):  # fmt: skip
    """Advance the prefilling requests by their chunks; returns (prefilling, decoding, finished).

    A completed prompt emits one token: its request decodes from the next step on, or has finished.
    first [N]: seconds of the first output token, set once. A request whose KV was recomputed after
    preemption emits its next token and moves on.
    """
    remaining = 0
    for place in range(waiting_count):
        index = prefilling[place]
        slot = slots[index]
        if place < chunks:
            slot.prefilled += chunk[place]
            counters[PREFILL_TOKENS] += chunk[place]
            if slot.prefilled >= slot.prompt:
                counters[TOKENS] += 1
                slot.left -= 1
                if np.isnan(first[slot.serial]):
                    first[slot.serial] = now
                else:  # recomputed after preemption: the token follows the old anchor
                    move(slot, 1, segment_first, segment_rows, segment_end)
                if slot.left > 0:
                    decoding[alive] = index
                    alive += 1
                else:
                    finished[ended] = index
                    ended += 1
                continue
        prefilling[remaining] = index
        remaining += 1
    return remaining, alive, ended


@njit
def count_step(counters, batch, padded):
    """Count a step of ``batch`` tokens that was padded to ``padded``."""
    counters[STEPS] += 1
    counters[BATCH_TOKENS] += batch
    counters[PADDED_TOKENS] += padded


@njit
def growth(slots, decoding, requests, block, lookahead):
    """KV blocks that the decoding requests lack for context + lookahead tokens, in all."""
    wanted = 0
    for place in range(requests):
        slot = slots[decoding[place]]
        wanted += max(0, (slot.prefilled + lookahead + block - 1) // block - slot.blocks)
    return wanted


@njit
def grow(slots, decoding, requests, block, lookahead):
    """Give every decoding request the blocks that ``growth`` counted."""
    for place in range(requests):
        slot = slots[decoding[place]]
        slot.blocks = max(slot.blocks, (slot.prefilled + lookahead + block - 1) // block)


@njit
def fill(survival, lengths, drafts, spare):
    """Raise lengths ℓ [R] by ``spare`` drafts, each time the most likely next one.

    Ties go to the lower position, then to the lower row.
    """
    for _ in range(spare):
        best, chosen = -1.0, -1
        for place in range(len(lengths)):
            k = lengths[place]
            if k < drafts and (
                survival[place, k] > best or (survival[place, k] == best and k < lengths[chosen])
            ):
                best, chosen = survival[place, k], place
        if chosen < 0:
            return
        lengths[chosen] += 1


@njit
def past_rows(stamp, survival, slots, step, missing, rows):
    """Rows [R, γ] of one earlier step; ``missing`` where the request had no round in it."""
    for place in range(len(slots)):
        index = slots[place]
        present = stamp[index] == step
        for k in range(rows.shape[1]):
            rows[place, k] = survival[index, k] if present else missing


@njit
def record_rows(stamp, survival, verified, accepted, slots, step, now_survival, lengths, kept):
    """Keep this step's rows [R, γ], ℓ [R] and accepted drafts [R] in the requests' slots."""
    for place in range(len(slots)):
        index = slots[place]
        stamp[index] = step
        verified[index] = lengths[place]
        accepted[index] = kept[place]
        for k in range(survival.shape[1]):
            survival[index, k] = now_survival[place, k]
