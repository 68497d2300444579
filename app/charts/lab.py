"""Charts of one decode round."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from app.charts.theme import FAILED, GREY, PASSED, colour, shape
from app.rounds import Decision, Path

_HEIGHT = 320


def _frame(path: Path) -> pd.DataFrame:
    count = len(path.survival)
    return pd.DataFrame(
        {
            "drafts": np.arange(count + 1),
            "survival": np.append(np.nan, path.survival),
            "ms": path.seconds * 1e3,
            "theta": path.theta,
        }
    )


def _marks(decisions: Sequence[Decision]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "scheduler": [d.scheduler for d in decisions],
            "drafts": [d.drafts for d in decisions],
            "theta": [d.theta for d in decisions],
            "ms": [d.seconds * 1e3 for d in decisions],
            "why": [d.reason for d in decisions],
        }
    )


_X = alt.X("drafts:Q", title="drafts verified, K (by descending survival)")


def survivals(path: Path, decisions: Sequence[Decision]) -> alt.LayerChart:
    """Survivals in the order of admission, a rule where each scheduler stops."""
    names = [d.scheduler for d in decisions]
    line = (
        alt.Chart(_frame(path))
        .mark_area(interpolate="step", color=GREY, opacity=0.35, line={"color": GREY})
        .encode(
            _X,
            alt.Y("survival:Q", title="survival", scale=alt.Scale(domain=[0, 1])),
            tooltip=["drafts", alt.Tooltip("survival:Q", format=".3f")],
        )
    )
    rules = (
        alt.Chart(_marks(decisions))
        .mark_rule(strokeWidth=2)
        .encode(x="drafts:Q", color=colour(names), tooltip=["scheduler", "drafts", "why"])
    )
    return alt.layer(line, rules).properties(height=_HEIGHT)


def theta(path: Path, decisions: Sequence[Decision]) -> alt.LayerChart:
    """Θ along the path, and where each scheduler ends with the drafts that it chose."""
    return _along(path, decisions, "theta", "Θ (tok/s)", ",.0f", False)


def step_time(path: Path, decisions: Sequence[Decision]) -> alt.LayerChart:
    """The step time along the path: the staircase that Θ is divided by."""
    return _along(path, decisions, "ms", "step time (ms)", ".3f", True)


def _along(path, decisions, field: str, title: str, form: str, zero: bool) -> alt.LayerChart:
    names = [d.scheduler for d in decisions]
    y = alt.Y(f"{field}:Q", title=title, scale=alt.Scale(zero=zero))
    line = (
        alt.Chart(_frame(path))
        .mark_line(interpolate="step-before" if field == "ms" else "linear", color=GREY)
        .encode(_X, y, tooltip=["drafts", alt.Tooltip(f"{field}:Q", format=form)])
    )
    points = (
        alt.Chart(_marks(decisions))
        .mark_point(size=110, filled=True, opacity=1)
        .encode(
            _X,
            y,
            color=colour(names),
            shape=shape(names),
            tooltip=["scheduler", "drafts", alt.Tooltip(f"{field}:Q", format=form), "why"],
        )
    )
    zoom = alt.selection_interval(bind="scales", name="zoom")
    return alt.layer(line.add_params(zoom), points).properties(height=_HEIGHT)


def cells(heat: dict[str, Sequence]) -> alt.Chart:
    """Requests × positions; opacity is the survival, colour what becomes of the draft."""
    frame = pd.DataFrame(heat)
    return (
        alt.Chart(frame)
        .mark_rect(stroke=GREY, strokeWidth=0.4)
        .encode(
            alt.X("request:O", title="request, in order of admission", axis=_sparse(frame)),
            alt.Y("position:O", title="draft position"),
            alt.Color(
                "fate:N",
                scale=alt.Scale(
                    domain=["kept", "rejected", "not verified"], range=[PASSED, FAILED, GREY]
                ),
                legend=alt.Legend(orient="bottom", title=None),
            ),
            alt.Opacity("survival:Q", scale=alt.Scale(domain=[0, 1], range=[0.08, 1]), legend=None),
            tooltip=[
                "request",
                "position",
                alt.Tooltip("survival:Q", format=".3f"),
                alt.Tooltip("confidence:Q", format=".3f"),
                "fate",
            ],
        )
        .properties(height=_HEIGHT)
    )


def _sparse(frame: pd.DataFrame) -> alt.Axis:
    every = max(1, int(frame["request"].max()) // 16)
    return alt.Axis(labelAngle=0, labelExpr=f"datum.value % {every} == 0 ? datum.value : ''")
