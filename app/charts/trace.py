"""Charts of recorded traces."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import numpy as np
import pandas as pd

from app.charts.theme import FAILED, GREY, PASSED, legend
from workbench.traces import Trace, TraceStatistics, rounds_of
from workbench.traces.rounds import judged
from workbench.traces.statistics import ECE_BINS

_HUES = ["#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]


def acceptance(statistics: Mapping[str, TraceStatistics]) -> alt.Chart:
    """P(token k accepted | tokens before it were) by position, a line per trace."""
    frame = pd.DataFrame(
        [
            {
                "trace": label,
                "position": p.position,
                "acceptance": p.acceptance,
                "judged": p.judged,
                "mean confidence": p.mean_confidence,
            }
            for label, one in statistics.items()
            for p in one.positions
        ]
    )
    return (
        alt.Chart(frame)
        .mark_line(point=alt.OverlayMarkDef(size=60), strokeWidth=2)
        .encode(
            alt.X("position:O", title="draft position, k", axis=alt.Axis(labelAngle=0)),
            alt.Y(
                "acceptance:Q",
                title="P(k accepted | 1..k−1 accepted)",
                scale=alt.Scale(zero=False),
                axis=alt.Axis(format=".0%"),
            ),
            alt.Color(
                "trace:N",
                sort=list(statistics),
                scale=alt.Scale(range=_HUES),
                legend=legend(),
            ),
            tooltip=[
                "trace",
                "position",
                alt.Tooltip("acceptance:Q", format=".2%"),
                alt.Tooltip("mean confidence:Q", format=".2%"),
                alt.Tooltip("judged:Q", format=",d", title="tokens judged"),
            ],
        )
        .properties(height=380)
    )


def histogram(trace: Trace, position: int) -> alt.Chart:
    """Confidences c_k of judged tokens, by what verification said; shares of all of them."""
    rows = judged(trace, position)
    confidence = trace.confidence[rows, position - 1]
    passed = trace.accepted[rows] >= position
    edges = np.linspace(0, 1, 26)
    frame = pd.concat(
        pd.DataFrame(
            {
                "from": edges[:-1],
                "to": edges[1:],
                "share": np.histogram(confidence[mine], edges)[0] / max(1, len(confidence)),
                "verification": name,
            }
        )
        for name, mine in (("accepted", passed), ("rejected", ~passed))
    )
    return (
        alt.Chart(frame)
        .mark_bar()
        .encode(
            alt.X("from:Q", title=f"confidence c at position {position}", bin="binned"),
            x2="to:Q",
            y=alt.Y("share:Q", title="share of judged tokens", axis=alt.Axis(format=".0%")),
            color=alt.Color(
                "verification:N",
                scale=alt.Scale(domain=["accepted", "rejected"], range=[PASSED, FAILED]),
                legend=legend(),
            ),
            tooltip=[
                "verification",
                alt.Tooltip("from:Q", format=".2f"),
                alt.Tooltip("to:Q", format=".2f"),
                alt.Tooltip("share:Q", format=".2%"),
            ],
        )
        .properties(height=360)
    )


def reliability(trace: Trace, position: int) -> alt.LayerChart:
    """Predicted survival a_k against how often the prefix 1..k passed, in the bins of the ECE."""
    known = trace.row_anchor() + position <= trace.output_tokens[trace.row_request()] - 1
    if trace.verified is not None:
        known &= trace.verified >= position
    predicted = trace.confidence[known, :position].astype(np.float64).prod(axis=1)
    happened = trace.accepted[known] >= position
    bins = np.minimum((predicted * ECE_BINS).astype(int), ECE_BINS - 1)
    count = np.bincount(bins, minlength=ECE_BINS)
    with np.errstate(invalid="ignore"):
        frame = pd.DataFrame(
            {
                "predicted": np.bincount(bins, predicted, ECE_BINS) / count,
                "observed": np.bincount(bins, happened, ECE_BINS) / count,
                "rows": count,
            }
        ).dropna()
    scale = alt.Scale(domain=[0, 1])
    ideal = (
        alt.Chart(pd.DataFrame({"predicted": [0, 1], "observed": [0, 1]}))
        .mark_line(color=GREY, strokeDash=[4, 4])
        .encode(x="predicted:Q", y="observed:Q")
    )
    line = (
        alt.Chart(frame)
        .mark_line(color=PASSED, point=alt.OverlayMarkDef(color=PASSED, size=50))
        .encode(
            alt.X("predicted:Q", title=f"predicted survival of 1..{position}", scale=scale),
            alt.Y("observed:Q", title="observed", scale=scale),
            tooltip=[
                alt.Tooltip("predicted:Q", format=".3f"),
                alt.Tooltip("observed:Q", format=".3f"),
                alt.Tooltip("rows:Q", format=",d"),
            ],
        )
    )
    return alt.layer(ideal, line).properties(height=360)


def rounds_table(trace: Trace, request: int, most: int = 80) -> pd.DataFrame:
    """A row per round and draft position of one request: confidence, survival and fate."""
    rounds = rounds_of(trace).row
    first, last = trace.row_start[request], trace.row_start[request + 1]
    mine = rounds[(rounds >= first) & (rounds < last)][:most]
    anchor = trace.row_anchor()[mine]
    gamma = trace.block_size
    verified = np.full(len(mine), gamma) if trace.verified is None else trace.verified[mine]
    accepted = trace.accepted[mine]
    number, position = np.divmod(np.arange(len(mine) * gamma), gamma)
    fate = np.where(
        position < accepted[number],
        "accepted",
        np.where(
            position >= verified[number],
            "not verified",
            np.where(position == accepted[number], "rejected", "discarded after it"),
        ),
    )
    frame = pd.DataFrame(
        {
            "round": number + 1,
            "anchor": anchor[number],
            "position": position + 1,
            "emitted": accepted[number].astype(int) + 1,
            "fate": fate,
        }
    )
    if trace.confidence is not None:
        frame["confidence"] = trace.confidence[mine].ravel()
    return frame


def rounds(frame: pd.DataFrame) -> alt.Chart:
    """Rounds × positions; opacity is the confidence, colour what verification said."""
    opacity = alt.value(0.8)
    tooltip = ["round", "anchor", "position", "emitted", "fate"]
    if "confidence" in frame:
        opacity = alt.Opacity(
            "confidence:Q", scale=alt.Scale(domain=[0, 1], range=[0.1, 1]), legend=None
        )
        tooltip.append(alt.Tooltip("confidence:Q", format=".3f"))
    every = max(1, int(frame["round"].max()) // 16)
    return (
        alt.Chart(frame)
        .mark_rect(stroke=GREY, strokeWidth=0.4)
        .encode(
            alt.X(
                "round:O",
                title="decode round",
                axis=alt.Axis(
                    labelAngle=0, labelExpr=f"datum.value % {every} == 0 ? datum.value : ''"
                ),
            ),
            alt.Y("position:O", title="draft position, k"),
            alt.Color(
                "fate:N",
                scale=alt.Scale(
                    domain=["accepted", "rejected", "discarded after it", "not verified"],
                    range=[PASSED, FAILED, "#B58E72", GREY],
                ),
                legend=legend(symbolStrokeWidth=0),
            ),
            opacity,
            tooltip=tooltip,
        )
        .properties(height=300)
    )
