"""Rounds of full verification, and which draft positions of a trace were judged at all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.traces.model import Trace


@dataclass(frozen=True, slots=True)
class Rounds:
    """Decode rounds, each a row of a trace."""

    row: np.ndarray  # int64 [M]
    reaches_end: np.ndarray  # bool [M]; such a round counts in no accepted length

    def accepted_length(self, trace: Trace) -> float:
        """τ: mean of 1 + accepted over the rounds that end before the output does; else NaN."""
        accepted = trace.accepted[self.row[~self.reaches_end]]
        return 1.0 + float(accepted.mean()) if len(accepted) else float("nan")


def rounds_of(trace: Trace) -> Rounds:
    """The rounds that verifying whole blocks takes: from anchor 0, each jumps by accepted + 1.

    With coverage ``rounds`` these are the recorded rows, at the lengths that were verified then.
    """
    output = trace.output_tokens.astype(np.int64)
    if trace.header.coverage == "rounds":
        row = np.arange(trace.rows)
        request, anchor = trace.row_request(), trace.row_anchor()
    else:
        rows, request_of = [], []
        active = np.flatnonzero(output > 1)
        position = np.zeros(len(active), np.int64)
        while len(active):
            here = trace.row_start[active] + position
            rows.append(here)
            request_of.append(active)
            position = position + trace.accepted[here] + 1
            going = position < output[active] - 1
            active, position = active[going], position[going]
        row = np.concatenate(rows) if rows else np.zeros(0, np.int64)
        request = np.concatenate(request_of) if rows else row
        order = np.lexsort((row, request))
        row, request = row[order], request[order]
        anchor = row - trace.row_start[request]
    reaches_end = anchor + trace.accepted[row] + 1 >= output[request] - 1
    return Rounds(row, reaches_end)


def judged(trace: Trace, k: int) -> np.ndarray:
    """Rows in which draft token k (1-based) was judged, given that tokens 1..k−1 passed; bool [A].

    Left out are tokens that lie past the end of the output, where ``accepted`` is or may be cut
    for a reason that is not the drafter's, and tokens that a live engine did not verify.
    """
    inside = trace.row_anchor() + k <= trace.output_tokens[trace.row_request()] - 1
    rows = inside & (trace.accepted >= k - 1)
    return rows if trace.verified is None else rows & (trace.verified >= k)
