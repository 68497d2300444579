"""Draft blocks of several traces as one sample, and its split by request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workbench.errors import InputError
from workbench.traces import Trace


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """A draft blocks with what verification said of them."""

    confidence: np.ndarray  # float32 [A, γ], raw c_k
    accepted: np.ndarray  # int64 [A], drafts that passed
    known: np.ndarray  # int64 [A]: for k up to this it is known whether tokens 1..k all pass
    requests: int

    @property
    def block_size(self) -> int:
        """γ, drafts per block."""
        return self.confidence.shape[1]

    @property
    def rows(self) -> int:
        """A, the number of draft blocks."""
        return len(self.accepted)

    def survival_rows(self, k: int) -> np.ndarray:
        """Rows that tell whether the prefix 1..k passes, whichever way it went; bool [A]."""
        return self.known >= k

    def judged(self, k: int) -> np.ndarray:
        """Rows in which token k was judged, tokens 1..k−1 having passed; bool [A].

        The rule of ``workbench trace info``: blocks are not judged past the end of the output,
        where ``accepted`` is cut for a reason that is not the drafter's, nor past what a live
        engine verified.
        """
        return self.survival_rows(k) & (self.accepted >= k - 1)


def pooled(traces: Sequence[Trace], chosen: Sequence[np.ndarray] | None = None) -> Sample:
    """All blocks of the ``chosen`` requests (bool [N] per trace; by default all) as one sample.

    Raises InputError where a trace has no confidences or not the block size of the first.
    """
    parts = []
    for i, trace in enumerate(traces):
        _check(trace, traces[0])
        request = trace.row_request()
        known = np.minimum(trace.output_tokens[request] - 1 - trace.row_anchor(), trace.block_size)
        if trace.verified is not None:
            known = np.minimum(known, trace.verified)
        rows = slice(None) if chosen is None else chosen[i][request]
        accepted = trace.accepted[rows].astype(np.int64)
        parts.append((trace.confidence[rows], accepted, known[rows].astype(np.int64)))
    confidence, accepted, known = (np.concatenate(column) for column in zip(*parts, strict=True))
    requests = sum(t.requests for t in traces) if chosen is None else int(sum(map(sum, chosen)))
    return Sample(confidence, accepted, known, requests)


def split(traces: Sequence[Trace], share: float, rng: np.random.Generator) -> tuple[Sample, Sample]:
    """The sample to fit on, with ``share`` (in 0..1) of the requests, and the one held out.

    Whole requests are drawn: blocks of one output are not independent. Requests of several traces
    under one id (the same prompt for two drafters or temperatures) go to the same side. Both sides
    have at least one id. Raises InputError where one of them would have no draft block.
    """
    ids = list(dict.fromkeys(name for trace in traces for name in trace.ids))
    count = min(max(round(share * len(ids)), 1), len(ids) - 1)
    fit_ids = {ids[i] for i in rng.permutation(len(ids))[:count]}
    inside = [np.array([name in fit_ids for name in trace.ids]) for trace in traces]
    halves = pooled(traces, inside), pooled(traces, [~mine for mine in inside])
    if not all((half.known >= 1).any() for half in halves):
        raise InputError(
            f"have {len(ids)} requests, too few to fit on some and hold out others",
            file=", ".join(trace.name for trace in traces),
            place="--trace",
            mend="give traces with more requests that have output, or another --split or --seed",
        )
    return halves


def _check(trace: Trace, first: Trace) -> None:
    if trace.confidence is None:
        raise InputError(
            "has no confidences, so there is nothing to calibrate",
            file=trace.path,
            place="confidence",
            mend="record the drafter's confidences",
        )
    if trace.block_size != first.block_size:
        raise InputError(
            f"is {trace.block_size}, that of {first.path} is {first.block_size}",
            file=trace.path,
            place="line 1, block_size",
            mend="calibrate each drafter on its own",
        )
