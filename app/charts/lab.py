"""Charts of one decode round."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from app.admission import Path
from app.charts.theme import FAILED, GREY, PASSED, colour, legend, named, shape, zoom
from app.rounds import Decision

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
            "height": [0.96 - 0.07 * place for place in range(len(decisions))],
            "drafts": [d.drafts for d in decisions],
            "theta": [d.theta for d in decisions],
            "ms": [d.seconds * 1e3 for d in decisions],
            "why": [d.reason for d in decisions],
        }
    )


_X = alt.X("drafts:Q", title="drafts verified, K (by descending survival)")


def _here(drafts: int) -> alt.Chart:
    """A rule where the reader stands on the path."""
    frame = pd.DataFrame({"drafts": [drafts]})
    return alt.Chart(frame).mark_rule(color=GREY, strokeDash=[5, 4]).encode(x="drafts:Q")


def survivals(path: Path, decisions: Sequence[Decision], at: int) -> alt.LayerChart:
    """Survivals in the order of admission, a rule where each scheduler stops.

    at: K where the reader stands. Marks on the rules differ in height: several may stop at one K.
    """
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
    marks = rules.mark_point(size=90, filled=True, opacity=1).encode(
        y="height:Q", shape=shape(names)
    )
    return alt.layer(line, rules, marks, _here(at)).properties(height=_HEIGHT)


def theta(path: Path, decisions: Sequence[Decision], at: int) -> alt.LayerChart:
    """Θ along the path, and where each scheduler ends with the drafts that it chose."""
    return _along(path, decisions, at, "theta", "Θ (tok/s)", ",.0f", False)


def step_time(path: Path, decisions: Sequence[Decision], at: int) -> alt.LayerChart:
    """The step time along the path: the staircase that Θ is divided by."""
    return _along(path, decisions, at, "ms", "step time (ms)", ".3f", True)


def _along(path, decisions, at, field: str, title: str, form: str, zero: bool) -> alt.LayerChart:
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
    return alt.layer(named(line).add_params(zoom()), points, _here(at)).properties(height=_HEIGHT)


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
                legend=legend(symbolStrokeWidth=0),
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
