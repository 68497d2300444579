"""One draft block for every anchor, also where a live engine recorded only its own rounds.

A live round jumps over the anchors inside it. What the log cannot say of them is drawn from the
log's own statistics, so a replay on top is approximate; the masks say where.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import msgspec
import numpy as np

from workbench.errors import InputError
from workbench.traces.model import Trace
from workbench.traces.rounds import judged

BINS = 10  # of confidence, equally wide
FEWEST = 20  # observations in a cell, below which it is pooled


@dataclass(frozen=True, slots=True)
class Dense:
    """A trace with one row per anchor, and which of its rows [A] were not simply recorded."""

    trace: Trace
    outcome_drawn: np.ndarray  # bool [A]: all that was verified passed, and what follows was drawn
    confidence_borrowed: np.ndarray  # bool [A]: the last confidences are another row's

    @property
    def drawn(self) -> np.ndarray:
        """Rows of which outcome or confidences were, even partly, drawn; bool [A]."""
        return self.outcome_drawn | self.confidence_borrowed


def densify(trace: Trace, rng: np.random.Generator) -> tuple[Trace, np.ndarray]:
    """``fill_gaps`` for those who need one mask: the dense trace and its ``drawn``, bool [A]."""
    dense = fill_gaps(trace, rng)
    return dense.trace, dense.drawn


def fill_gaps(trace: Trace, rng: np.random.Generator) -> Dense:
    """One row per output position 0..output_tokens − 2; a dense trace comes back as it is.

    An anchor d tokens after the start of a recorded row keeps that row's c_{d+1}..c_γ and its
    remaining accepted − d drafts. Where all that was verified passed, the outcomes of the later
    drafts are drawn at the conditional acceptance that the log shows at the same position of the
    block and the same confidence. The d drafts at the end, which that row never made, take their
    confidences from another random row of the same domain at the positions they now have.
    A rejection that was recorded is never redrawn. Raises InputError if a ``rounds`` trace
    verified nothing to draw from.
    """
    if trace.header.coverage == "dense":
        nothing = np.zeros(trace.rows, bool)
        return Dense(trace, nothing, nothing)

    gamma = trace.block_size
    request, start = trace.row_request(), trace.row_anchor()
    left = trace.output_tokens[request] - 1 - start  # anchors from the row's start to the end
    per_row = np.minimum(trace.accepted.astype(np.int64) + 1, left)
    row = np.repeat(np.arange(trace.rows), per_row)
    depth = np.arange(len(row)) - np.repeat(np.cumsum(per_row) - per_row, per_row)

    confidence, borrowed = None, np.zeros(len(row), bool)
    if trace.confidence is not None:
        borrowed = depth > 0
        donor = np.zeros(len(row), np.int64)
        donor[borrowed] = _donors(trace, row[borrowed], rng)
        confidence = np.empty((len(row), gamma), np.float32)
        for k in range(gamma):
            own = depth + k < gamma
            confidence[own, k] = trace.confidence[row[own], depth[own] + k]
            confidence[~own, k] = trace.confidence[donor[~own], k]

    recorded = trace.accepted[row].astype(np.int64) - depth  # accepted drafts that are left
    drawn = (trace.accepted == trace.verified)[row] & (recorded < gamma)
    accepted = recorded
    if drawn.any():
        accepted = recorded.copy()
        accepted[drawn] += _drawn_acceptance(
            trace,
            depth[drawn],
            recorded[drawn],
            None if confidence is None else confidence[drawn],
            rng,
        )
    anchors = np.maximum(trace.output_tokens.astype(np.int64) - 1, 0)
    dense = dataclasses.replace(
        trace,
        header=msgspec.structs.replace(trace.header, coverage="dense"),
        row_start=np.concatenate([[0], np.cumsum(anchors)]),
        accepted=accepted.astype(trace.accepted.dtype),
        confidence=confidence,
        verified=None,
    )
    return Dense(dense, drawn, borrowed)


def acceptance_table(trace: Trace) -> np.ndarray:
    """Conditional acceptance [γ, BINS] by draft position and confidence bin.

    Over the rows in which the position was judged. A cell with fewer than FEWEST observations
    takes its position's rate, a position with fewer the rate over all. Without confidences all
    bins of a position are equal. Raises InputError if no draft was judged.
    """
    gamma = trace.block_size
    seen, passed = np.zeros((gamma, BINS)), np.zeros((gamma, BINS))
    for k in range(gamma):
        rows = np.flatnonzero(judged(trace, k + 1))
        bins = np.zeros(len(rows), np.int64)
        if trace.confidence is not None:
            bins = _bin(trace.confidence[rows, k])
        seen[k] = np.bincount(bins, minlength=BINS)
        passed[k] = np.bincount(bins, trace.accepted[rows] > k, minlength=BINS)
    if not seen.any():
        raise InputError(
            "no round verified a draft, so nothing is known of acceptance",
            file=trace.path,
            place="verified",
            mend="record with verification on",
        )
    rate = np.full((gamma, BINS), passed.sum() / seen.sum())
    known = seen.sum(axis=1) >= FEWEST
    rate[known] = (passed.sum(axis=1)[known] / seen.sum(axis=1)[known])[:, None]
    if trace.confidence is not None:
        full = seen >= FEWEST
        rate[full] = passed[full] / seen[full]
    return rate


def _bin(confidence: np.ndarray) -> np.ndarray:
    return np.minimum((confidence * BINS).astype(np.int64), BINS - 1)


def _drawn_acceptance(
    trace: Trace,
    depth: np.ndarray,
    recorded: np.ndarray,
    confidence: np.ndarray | None,
    rng: np.random.Generator,
) -> np.ndarray:
    """Drafts accepted after the ``recorded`` ones, drawn position by position; int64 [rows]."""
    table = acceptance_table(trace)
    gamma = trace.block_size
    more = np.zeros(len(depth), np.int64)
    alive = np.ones(len(depth), bool)
    for k in range(gamma):
        # a draft of the recorded row keeps its place in that row's block
        place = np.where(depth + k < gamma, depth + k, k)
        bins = 0 if confidence is None else _bin(confidence[:, k])
        passes = rng.random(len(depth)) < table[place, bins]
        undecided = k >= recorded
        alive &= passes | ~undecided
        more += alive & undecided
    return more


def _donors(trace: Trace, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """For each of ``rows`` a random other row of its domain; itself where there is no other."""
    domain = trace.domain[trace.row_request()]
    donors = rows.copy()
    for code in np.unique(domain[rows]):
        same = np.flatnonzero(domain == code)
        if len(same) < 2:
            continue
        mine = np.flatnonzero(domain[rows] == code)
        pick = rng.integers(0, len(same) - 1, len(mine))
        pick += pick >= np.searchsorted(same, rows[mine])
        donors[mine] = same[pick]
    return donors
