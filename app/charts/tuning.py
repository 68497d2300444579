"""The trials of a tuning study in the plane of two objectives."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import pandas as pd

from app.charts.theme import GREY, legend, named, tint, zoom
from workbench.frontier.objectives import OBJECTIVES
from workbench.frontier.problem import Found

_EXAMPLES = {"static": "static:3", "threshold": "threshold:0.5"}


def table(objectives: Sequence[str], found: Sequence[Found]) -> pd.DataFrame:
    """A row per trial, objectives with their units."""
    return pd.DataFrame(
        [
            {
                "trial": one.number,
                "scheduler": one.chosen.scheduler,
                "drafts a block": str(one.chosen.block_size or "all"),
                "max running": one.chosen.max_running,
                "token budget": one.chosen.token_budget,
                **_figures(objectives, one),
                "limits": "kept" if one.feasible else "missed",
            }
            for one in found
        ]
    )


def _figures(objectives: Sequence[str], one: Found) -> dict[str, float]:
    """To five digits."""
    pairs = zip(objectives, one.values, strict=True)
    return {_title(name): float(f"{value:.5g}") for name, value in pairs}


def _title(name: str) -> str:
    return f"{name} ({OBJECTIVES[name].unit})"


def trials(
    objectives: Sequence[str], found: Sequence[Found], best: Sequence[Found]
) -> alt.LayerChart:
    """All trials by the first two objectives (or by number); the best ringed, misses hollow."""
    frame = table(objectives, found)
    frame["family"] = [name.partition(":")[0] for name in frame["scheduler"]]
    kept = {one.number for one in best}
    frame["best"] = [number in kept for number in frame["trial"]]
    second = objectives[1] if len(objectives) > 1 else None
    # names with brackets mean something to Vega-Lite
    frame["x"] = frame[_title(second)] if second else frame["trial"]
    frame["y"] = frame[_title(objectives[0])]
    families = sorted(set(frame["family"]))
    hue = alt.Color(
        "family:N",
        scale=alt.Scale(
            domain=families, range=[tint(_EXAMPLES.get(name, name)) for name in families]
        ),
        legend=legend(symbolOpacity=1),
    )
    x = alt.X(
        "x:Q", title=_title(second) if second else "trial", scale=alt.Scale(zero=False, padding=14)
    )
    y = alt.Y("y:Q", title=_title(objectives[0]), scale=alt.Scale(zero=False, padding=14))
    base = alt.Chart(frame)
    points = base.mark_point(size=60, strokeWidth=1.6).encode(
        x,
        y,
        hue,
        fill=alt.condition("datum.limits == 'kept'", hue, alt.value("transparent")),
        tooltip=["trial", "scheduler", "drafts a block", "max running", "token budget", "limits"]
        + [alt.Tooltip("y:Q", title=_title(objectives[0]), format=",.4~g")]
        + ([alt.Tooltip("x:Q", title=_title(second), format=",.4~g")] if second else []),
    )
    rings = (
        base.transform_filter("datum.best")
        .mark_point(size=240, strokeWidth=1.2, color=GREY, shape="circle")
        .encode(x, y)
    )
    return alt.layer(rings, named(points).add_params(zoom())).properties(height=440)
