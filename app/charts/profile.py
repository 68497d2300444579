"""Charts of a profile's tables."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from app.charts.theme import FAILED, GREY, PASSED, legend, named, zoom
from workbench.profiles import Profile, StepCost
from workbench.profiles.figure import staircase

_KINDS = ("captured graph", "past the last graph")


def _log_x(field: str, title: str) -> alt.X:
    scale = alt.Scale(type="log", base=2, nice=False)
    return alt.X(field, title=title, scale=scale, axis=alt.Axis(format=",d", labelOverlap="greedy"))


def stairs(cost: StepCost, most: int, seconds: bool) -> alt.LayerChart:
    """The verify curve as charged for 1..most batch tokens, and the measured points.

    seconds: draw ms per forward pass instead of steps per second.
    """
    data = staircase(cost, most)
    steps = data.steps_per_second
    corners = np.flatnonzero(np.diff(steps, prepend=-1) != 0)
    keep = np.unique(np.concatenate([corners, np.maximum(corners - 1, 0), [len(steps) - 1]]))
    if len(keep) > 4000:
        keep = keep[:: len(keep) // 4000 + 1]
    curve = pd.DataFrame(
        {
            "B": data.batch_tokens[keep],
            "y": 1e3 / steps[keep] if seconds else steps[keep],
            "kind": np.where(data.captured[keep], *_KINDS),
        }
    )
    probes = pd.DataFrame({"B": data.probe_tokens, "y": data.probe_steps_per_second})
    if seconds:
        probes["y"] = 1e3 / probes["y"]
    title = "forward pass (ms)" if seconds else "steps per second (1/s)"
    x = _log_x("B:Q", "batch tokens, B")
    y = alt.Y("y:Q", title=title)
    if data.last_captured is None:
        curve["kind"] = "measured curve, no graphs"
    kinds = list(dict.fromkeys(curve["kind"]))
    line = (
        alt.Chart(curve)
        .mark_line(strokeWidth=2)
        .encode(
            x,
            y,
            alt.Color(
                "kind:N",
                scale=alt.Scale(domain=kinds, range=[PASSED, FAILED][: len(kinds)]),
                legend=legend(),
            ),
            tooltip=["B", alt.Tooltip("y:Q", title=title, format=",.3f"), "kind"],
        )
    )
    points = (
        alt.Chart(probes)
        .mark_circle(size=28, color=GREY, opacity=1)
        .encode(
            x,
            y,
            tooltip=[alt.Tooltip("B:Q", title="measured at B"), alt.Tooltip("y:Q", title=title)],
        )
    )
    return alt.layer(named(line).add_params(zoom()), points).properties(height=430)


def table(
    rows: Sequence[int], columns: Sequence[int], seconds, row_name: str, column_name: str
) -> alt.Chart:
    """A measured table as lines over the columns, one line per row; milliseconds."""
    frame = pd.DataFrame(
        [
            {"row": row, "column": max(column, 1), "ms": value * 1e3}
            for row, line in zip(rows, seconds, strict=True)
            for column, value in zip(columns, line, strict=True)
        ]
    )
    single = len(columns) == 1
    x = ("row:Q", row_name) if single else ("column:Q", column_name)
    encoded = {
        "x": _log_x(*x),
        "y": alt.Y("ms:Q", title="time (ms)"),
        "tooltip": [
            alt.Tooltip("row:Q", title=row_name, format=",d"),
            alt.Tooltip("column:Q", title=column_name, format=",d"),
            alt.Tooltip("ms:Q", format=",.3f"),
        ],
    }
    if single:
        chart = alt.Chart(frame).mark_line(point=True, color=PASSED)
    else:
        chart = alt.Chart(frame).mark_line(point=True)
        encoded["color"] = alt.Color(
            "row:O",
            scale=alt.Scale(scheme="viridis"),
            legend=legend(row_name),
        )
    return chart.encode(**encoded).properties(height=360)


def power(profile: Profile) -> alt.Chart:
    """Watts of one GPU."""
    frame = pd.DataFrame({"B": profile.power.batch_tokens, "W": profile.power.watts})
    return (
        alt.Chart(frame)
        .mark_line(point=True, color=PASSED)
        .encode(
            _log_x("B:Q", "batch tokens, B"),
            alt.Y("W:Q", title="power of one GPU (W)"),
            tooltip=["B", "W"],
        )
        .properties(height=360)
    )


def fit(cells: Sequence[dict], cost: StepCost) -> tuple[alt.LayerChart, pd.DataFrame]:
    """Steps that were measured whole against what the tables say; and the figures.

    cells: ``measured.whole_steps`` of the profile, decode steps without a draft pass.
    """
    rows = []
    for cell in cells:
        requests, query, context = (
            int(cell[name]) for name in ("requests", "query_tokens", "context_tokens")
        )
        batch = requests * query
        said = cost.verify_seconds(batch)
        said += cost.attention_seconds(requests, context, queries=query)
        rows.append(
            {
                "requests": requests,
                "query tokens": query,
                "context": context,
                "batch tokens": batch,
                "measured (ms)": cell["seconds"] * 1e3,
                "tables (ms)": said * 1e3,
                "tables ÷ measured": said / cell["seconds"],
            }
        )
    frame = pd.DataFrame(rows)
    most = float(max(frame["measured (ms)"].max(), frame["tables (ms)"].max()))
    line = (
        alt.Chart(pd.DataFrame({"measured (ms)": [0, most], "tables (ms)": [0, most]}))
        .mark_line(color=GREY, strokeDash=[4, 4])
        .encode(x="measured (ms):Q", y="tables (ms):Q")
    )
    points = (
        alt.Chart(frame)
        .mark_circle(size=80, color=PASSED, opacity=0.9)
        .encode(
            alt.X("measured (ms):Q", title="measured whole step (ms)"),
            alt.Y("tables (ms):Q", title="sum of the tables (ms)"),
            tooltip=list(frame.columns),
        )
    )
    return alt.layer(line, points).properties(height=320), frame
