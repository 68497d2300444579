"""Array state of a replica: one record per slot, the registers beside them, and the counters."""

from __future__ import annotations

import numpy as np

from workbench.compiled import why_slow

SLOT = np.dtype(
    [
        ("serial", np.int64),  # number of the request in order of issue
        ("admitted", np.int64),  # running number of the admission: higher is newer
        (
            "prompt",
            np.int64,
        ),  # tokens to prefill: the prompt, after preemption what was emitted too
        ("prefilled", np.int64),  # of those, already in the KV cache
        ("left", np.int64),  # output tokens still to emit
        ("row", np.int64),  # the anchor's row in the population
        ("row_end", np.int64),  # end of the recorded rows that ``row`` lies in
        ("segment", np.int64),  # index of those rows among the workload's segments
        ("blocks", np.int64),  # KV blocks held
        ("undrafted", np.int64),  # context tokens that the drafter has no keys and values of
    ],
    align=True,
)


def new_slots(count: int) -> np.ndarray:
    """``count`` empty slots, [S] of SLOT; a recarray for plain Python, which reads by attribute."""
    slots = np.zeros(count, SLOT)
    return slots.view(np.recarray) if why_slow() else slots


NEVER = -(1 << 62)  # stamp of a row that no step wrote: before any step that is looked back at

# Rows of a replica's int64 array [len(LISTS), S]: slots, or one number per slot of a step.
LISTS = (
    "decoding",  # slots, in the order in which they began to decode
    "prefilling",  # slots, in order of admission
    "free",  # slots, a stack
    "chunk",  # prompt tokens of the planned step, per prefilling request
    "before",  # tokens ahead of each chunk
    "outcome",  # drafts that verification would accept, per decoding request
    "kept",  # drafts accepted
    "lengths",  # ℓ
    "finished",  # slots, then serial numbers, of the requests that the last step finished
)
DECODING, PREFILLING, FREE, CHUNK, BEFORE, OUTCOME, KEPT, LENGTHS, FINISHED = range(len(LISTS))

# Running sums of a replica, indices into an int64 array.
COUNTERS = (
    "tokens",  # output tokens emitted
    "steps",
    "rounds",  # decode rounds: one per decoding request and step
    "verified",  # drafts sent to the target
    "rejected",  # of those, not accepted
    "batch_tokens",  # anchors + verified drafts + prompt tokens
    "padded_tokens",  # batch tokens after padding to a captured graph
    "inner_rounds",  # rounds that do not reach their request's end …
    "inner_verified",  # … their verified …
    "inner_kept",  # … and accepted drafts
    "drawn_rounds",  # rounds whose outcome was partly drawn, not recorded
    "prefill_tokens",
    "preemptions",
)
(
    TOKENS,
    STEPS,
    ROUNDS,
    VERIFIED,
    REJECTED,
    BATCH_TOKENS,
    PADDED_TOKENS,
    INNER_ROUNDS,
    INNER_VERIFIED,
    INNER_KEPT,
    DRAWN_ROUNDS,
    PREFILL_TOKENS,
    PREEMPTIONS,
) = range(len(COUNTERS))
