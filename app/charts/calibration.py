"""Reliability of survivals before and after temperature scaling, and the temperatures."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import pandas as pd

from app.charts.theme import FAILED, GREY, PASSED, legend
from workbench.calibration.evaluate import PositionReport

_WHEN = ["before", "after"]
_COLOUR = alt.Color(
    "when:N",
    sort=_WHEN,
    scale=alt.Scale(domain=_WHEN, range=[FAILED, PASSED]),
    legend=legend(),
)


def reliability(report: PositionReport) -> alt.LayerChart:
    """Predicted survival a_k against the share whose prefix 1..k passed, on held-out requests."""
    frame = pd.DataFrame(
        [
            {"when": when, "predicted": predicted, "observed": observed, "rows": rows}
            for when, quality in zip(_WHEN, (report.before, report.after), strict=True)
            for predicted, observed, rows in zip(
                quality.reliability.predicted,
                quality.reliability.observed,
                quality.reliability.rows,
                strict=True,
            )
        ],
        columns=["when", "predicted", "observed", "rows"],
    )
    scale = alt.Scale(domain=[0, 1])
    ideal = (
        alt.Chart(pd.DataFrame({"predicted": [0, 1], "observed": [0, 1]}))
        .mark_line(color=GREY, strokeDash=[4, 4])
        .encode(x="predicted:Q", y="observed:Q")
    )
    lines = (
        alt.Chart(frame)
        .mark_line(point=alt.OverlayMarkDef(size=50))
        .encode(
            alt.X("predicted:Q", title=f"predicted survival of 1..{report.position}", scale=scale),
            alt.Y("observed:Q", title="observed", scale=scale),
            _COLOUR,
            tooltip=[
                "when",
                alt.Tooltip("predicted:Q", format=".3f"),
                alt.Tooltip("observed:Q", format=".3f"),
                alt.Tooltip("rows:Q", format=",d"),
            ],
        )
    )
    return alt.layer(ideal, lines).properties(height=380)


def errors(reports: Sequence[PositionReport]) -> alt.Chart:
    """Expected calibration error of a_k by position, before and after."""
    frame = pd.DataFrame(
        [
            {"position": report.position, "when": when, "error": quality.survival_ece}
            for report in reports
            for when, quality in zip(_WHEN, (report.before, report.after), strict=True)
        ]
    )
    return (
        alt.Chart(frame)
        .mark_bar()
        .encode(
            alt.X("position:O", title="draft position, k", axis=alt.Axis(labelAngle=0)),
            alt.Y("error:Q", title="calibration error of a_k", axis=alt.Axis(format=".1%")),
            _COLOUR,
            xOffset=alt.XOffset("when:N", sort=_WHEN),
            tooltip=["position", "when", alt.Tooltip("error:Q", format=".2%")],
        )
        .properties(height=380)
    )
