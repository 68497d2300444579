"""Traces: how right the drafter is, how confident, and how one request went."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app import widgets
from app.charts import trace as charts
from app.scene import Scene, library, statistics_of
from workbench.traces import TraceStatistics


def page(scene: Scene) -> None:
    """Draw the page."""
    st.title("Traces")
    st.caption("Recorded confidences and outcomes of a drafter. Upload your own in the sidebar.")
    known = library("traces").choices()
    statistics = {label: statistics_of(known[label]) for label in scene.labels}
    st.dataframe(_table(statistics), hide_index=True)
    st.caption(
        "Accepted length has the bonus token in it. By rounds is what a server that verifies whole "
        "blocks sees; over all anchors is higher, because rounds begin where the drafter failed."
    )
    st.subheader("Acceptance by position")
    st.altair_chart(charts.acceptance(statistics), key="acceptance")

    label = scene.labels[0]
    if len(scene.labels) > 1:
        label = widgets.segmented(st, "Look into", scene.labels, label, key="look into")
    trace = scene.traces[scene.labels.index(label)]
    if trace.confidence is None:
        st.info(f"{label} carries no confidences.")
    else:
        position = (
            widgets.slider(st, "Draft position, k", 1, trace.block_size, 1, key="k")
            if trace.block_size > 1
            else 1
        )
        left, right = st.columns(2)
        left.subheader("Confidences")
        left.altair_chart(charts.histogram(trace, position), key="histogram")
        right.subheader("Reliability")
        right.altair_chart(charts.reliability(trace, position), key="reliability")
        one = statistics[label].positions[position - 1]
        if one.survival_ece is not None:
            right.caption(
                f"Expected calibration error {one.survival_ece:.2%}, ROC-AUC "
                f"{one.survival_auc:.3f}."
            )
    st.subheader("A request's rounds")
    number = widgets.number(st, "Request", 1, trace.requests, 1, key="request")
    frame = charts.rounds_table(trace, int(number) - 1)
    facts = (
        f"{trace.ids[int(number) - 1]}: {trace.prompt_tokens[int(number) - 1]:,} prompt tokens, "
        f"{trace.output_tokens[int(number) - 1]:,} output tokens"
    )
    if frame.empty:
        st.info(f"{facts}: no decode round.")
        return
    st.altair_chart(charts.rounds(frame), key="rounds")
    mean = frame.drop_duplicates("round")["emitted"].mean()
    st.text(f"{facts}. {mean:.2f} tokens per round in the {frame['round'].max()} rounds shown.")


def _table(statistics: dict[str, TraceStatistics]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "trace": label,
                "accepted length by rounds": round(one.accepted_length.replayed_rounds, 2),
                "over all anchors": one.accepted_length.all_anchors,
                "γ": one.block_size,
                "temperature": one.temperature,
                "requests": one.requests,
                "prompt tokens, mean": round(one.prompt_tokens / one.requests),
                "output tokens, mean": round(one.output_tokens / one.requests),
                "target": one.target,
                "drafter": one.drafter,
                "coverage": one.coverage,
                "confidence": one.confidence,
            }
            for label, one in statistics.items()
        ]
    ).round(2)
