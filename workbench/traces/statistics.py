"""What a trace says about its drafter: accepted length, acceptance and confidence by position."""

from __future__ import annotations

import msgspec
import numpy as np

from workbench.traces.dense import fill_gaps
from workbench.traces.model import Trace
from workbench.traces.rounds import judged, rounds_of

ECE_BINS = 15  # equally wide, over the survival; as SGLang's STS fit has them


class PositionStatistics(msgspec.Struct, kw_only=True):
    """Draft position k. Counts are rows in which tokens 1..k−1 passed and token k was judged."""

    position: int  # k, 1-based
    judged: int
    accepted: int
    acceptance: float  # P(accepted ≥ k | accepted ≥ k − 1)
    mean_confidence: float | None = None  # of c_k over the same rows
    survival_ece: float | None = None  # expected calibration error of a_k
    survival_auc: float | None = None  # ROC-AUC of a_k for "the prefix 1..k passes"


class DomainStatistics(msgspec.Struct, kw_only=True):
    """One domain's share of a trace."""

    domain: str
    requests: int
    rows: int
    output_tokens: int


class AcceptedLength(msgspec.Struct, kw_only=True):
    """Mean tokens per block, the bonus token included. Three statistics, not three estimates.

    ``replayed_rounds`` verifies whole blocks from anchor 0 on, each round beginning where the last
    one ended; rounds that reach the output's end are left out (design §3). It is what a server
    sees. ``all_anchors`` is the mean over anchors whose whole block lies inside the output, higher
    because rounds begin where the drafter just failed. ``recorded_rounds`` is what a live engine
    had at the lengths that it verified.
    """

    replayed_rounds: float
    replay: str  # "exact", or "approximate": part of the outcomes was drawn
    replayed_rounds_counted: int
    replayed_rounds_drawn: int  # of those counted
    all_anchors: float | None = None
    recorded_rounds: float | None = None
    mean_verified: float | None = None  # drafts per recorded round


class TraceStatistics(msgspec.Struct, kw_only=True):
    """All that ``workbench trace info`` prints. A number that does not exist is NaN, in JSON null.

    ``positions`` of a ``rounds`` trace are over verified positions only.
    """

    trace: str
    path: str
    coverage: str
    block_size: int
    target: str
    drafter: str
    temperature: float
    confidence: str
    confidence_sees: str
    requests: int
    rows: int
    anchors: int
    prompt_tokens: int
    output_tokens: int
    arrivals: str  # "none", "all at 0" or "recorded"
    accepted_length: AcceptedLength
    domains: list[DomainStatistics]
    positions: list[PositionStatistics]


def trace_statistics(trace: Trace, seed: int = 0) -> TraceStatistics:
    """Statistics of one trace; ``seed`` matters only where a ``rounds`` trace has gaps to fill."""
    header = trace.header
    return TraceStatistics(
        trace=trace.name,
        path=str(trace.path),
        coverage=header.coverage,
        block_size=header.block_size,
        target=header.target,
        drafter=header.drafter,
        temperature=header.temperature,
        confidence=(header.confidence or "unlabelled") if trace.confidence is not None else "none",
        confidence_sees=header.confidence_sees,
        requests=trace.requests,
        rows=trace.rows,
        anchors=int((trace.output_tokens - 1).sum()),
        prompt_tokens=int(trace.prompt_tokens.sum(dtype=np.int64)),
        output_tokens=int(trace.output_tokens.sum(dtype=np.int64)),
        arrivals=_arrivals(trace),
        accepted_length=accepted_length(trace, np.random.default_rng(seed)),
        domains=_domains(trace),
        positions=[_position(trace, k) for k in range(1, trace.block_size + 1)],
    )


def accepted_length(trace: Trace, rng: np.random.Generator) -> AcceptedLength:
    """The accepted lengths of ``trace``; ``rng`` fills the gaps of a ``rounds`` trace."""
    dense = fill_gaps(trace, rng)
    replayed = rounds_of(dense.trace)
    counted = replayed.row[~replayed.reaches_end]
    drawn = int(dense.outcome_drawn[counted].sum())
    exact = trace.header.coverage == "dense"
    result = AcceptedLength(
        replayed_rounds=replayed.accepted_length(dense.trace),
        replay="exact" if exact else "approximate",
        replayed_rounds_counted=len(counted),
        replayed_rounds_drawn=drawn,
    )
    if exact:
        last = trace.output_tokens[trace.row_request()] - 1
        whole = trace.row_anchor() + trace.block_size <= last
        result.all_anchors = 1.0 + _mean(trace.accepted[whole])
    else:
        recorded = rounds_of(trace)
        result.recorded_rounds = recorded.accepted_length(trace)
        result.mean_verified = _mean(trace.verified[recorded.row[~recorded.reaches_end]])
    return result


def _arrivals(trace: Trace) -> str:
    if np.isnan(trace.arrival_s).any():
        return "none"
    return "recorded" if trace.arrival_s.any() else "all at 0"


def _domains(trace: Trace) -> list[DomainStatistics]:
    rows = np.diff(trace.row_start)
    return [
        DomainStatistics(
            domain=name,
            requests=int((mine := trace.domain == code).sum()),
            rows=int(rows[mine].sum()),
            output_tokens=int(trace.output_tokens[mine].sum(dtype=np.int64)),
        )
        for code, name in enumerate(trace.domain_names)
    ]


def _position(trace: Trace, k: int) -> PositionStatistics:
    rows = judged(trace, k)
    passed = trace.accepted[rows] >= k
    result = PositionStatistics(
        position=k, judged=len(passed), accepted=int(passed.sum()), acceptance=_mean(passed)
    )
    if trace.confidence is not None:
        result.mean_confidence = _mean(trace.confidence[rows, k - 1])
        known = _prefix_known(trace, k)
        survival = trace.confidence[known, :k].astype(np.float64).prod(axis=1)
        survives = trace.accepted[known] >= k
        result.survival_ece = calibration_error(survival, survives)
        result.survival_auc = roc_auc(survival, survives)
    return result


def _prefix_known(trace: Trace, k: int) -> np.ndarray:
    """Rows that say whether the prefix 1..k passes, whichever way it went; bool [A].

    Choosing rows by their outcome would bias the calibration: a row with fewer than k verified
    drafts is left out even if an earlier one was rejected.
    """
    rows = trace.row_anchor() + k <= trace.output_tokens[trace.row_request()] - 1
    return rows if trace.verified is None else rows & (trace.verified >= k)


def calibration_error(predicted: np.ndarray, happened: np.ndarray) -> float:
    """Expected calibration error: mean |predicted − observed| over equally wide bins; or NaN.

    ``predicted`` [n] are probabilities, ``happened`` [n] bool. Bins are weighted by their counts.
    """
    if not len(predicted):
        return float("nan")
    bins = np.minimum((predicted * ECE_BINS).astype(np.int64), ECE_BINS - 1)
    gap = np.bincount(bins, predicted - happened, minlength=ECE_BINS)
    return float(np.abs(gap).sum() / len(predicted))


def roc_auc(score: np.ndarray, positive: np.ndarray) -> float:
    """P(score of a positive > score of a negative), ties counted half; NaN without both kinds."""
    positives = int(positive.sum())
    negatives = len(positive) - positives
    if not positives or not negatives:
        return float("nan")
    _, group, count = np.unique(score, return_inverse=True, return_counts=True)
    below = np.cumsum(count) - count
    rank = below[group] + (count[group] + 1) / 2
    return float((rank[positive].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def _mean(values: np.ndarray) -> float:
    return float(values.mean(dtype=np.float64)) if len(values) else float("nan")
