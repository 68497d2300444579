"""Colours, dashes and shapes of schedulers as Vega-Lite scales, the same in every chart."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from workbench.report import colours
from workbench.report.colours import style

_SHAPES = {"o": "circle", "s": "square", "D": "diamond", "^": "triangle-up", "v": "triangle-down"}
_SHAPES |= {"<": "triangle-left", ">": "triangle-right", "P": "cross", "X": "stroke", "p": "wedge"}
_STAR = "M0,-1 L0.3,-0.4 0.95,-0.3 0.5,0.2 0.6,0.85 0,0.5 -0.6,0.85 -0.5,0.2 -0.95,-0.3 -0.3,-0.4Z"
_DARK = "#14191E"  # the dark page, as .streamlit/config.toml has it
_WIDTH = 2  # of lines; dashes are given in line widths
GREY = "#8A949C"  # of guides and of what belongs to no scheduler
PASSED, FAILED = "#0072B2", "#D55E00"


def tint(scheduler: str) -> str:
    """The scheduler's colour on both pages."""
    return colours.tint(scheduler, _DARK)


def colour(schedulers: Sequence[str], field: str = "scheduler", **more) -> alt.Color:
    """The colour channel of ``schedulers``, with the legend below the chart."""
    return alt.Color(
        f"{field}:N",
        sort=list(schedulers),
        scale=alt.Scale(domain=list(schedulers), range=[tint(name) for name in schedulers]),
        legend=legend(symbolStrokeWidth=2),
        **more,
    )


def legend(title: str | None = None, **more) -> alt.Legend:
    """A legend below the chart, in as many columns as fit on a page or on a phone."""
    columns = alt.ExprRef("width > 560 ? 8 : width > 380 ? 5 : 3")
    return alt.Legend(orient="bottom", title=title, columns=columns, **more)


def named(chart: alt.Chart, name: str = "main") -> alt.Chart:
    """``chart``, to take parameters: Altair's own name hashes the data, and with another name the
    browser would build the whole chart anew whenever data come in."""
    return chart.properties(name=name)


def zoom(**more) -> alt.Parameter:
    """Move by dragging, zoom by Ctrl and wheel or a pinch: the bare wheel and touch scroll on."""
    return alt.selection_interval(
        bind="scales",
        name="zoom",
        zoom="wheel![event.ctrlKey || event.metaKey]",
        translate="[mousedown, window:mouseup] > window:mousemove!",
        **more,
    )


def dash(schedulers: Sequence[str], field: str = "scheduler") -> alt.StrokeDash:
    """The dash channel of ``schedulers``."""
    patterns = [[part * _WIDTH for part in style(name).dash] or [1, 0] for name in schedulers]
    return alt.StrokeDash(
        f"{field}:N", scale=alt.Scale(domain=list(schedulers), range=patterns), legend=None
    )


def shape(schedulers: Sequence[str], field: str = "scheduler") -> alt.Shape:
    """The marker channel of ``schedulers``."""
    shapes = [_SHAPES.get(style(name).marker, _STAR) for name in schedulers]
    return alt.Shape(
        f"{field}:N", scale=alt.Scale(domain=list(schedulers), range=shapes), legend=None
    )


def log2(values: Sequence[float]) -> dict:
    """Scale and axis of a load that doubles from point to point."""
    return {
        "scale": alt.Scale(type="log", base=2, nice=False, padding=10),
        "axis": alt.Axis(values=sorted(set(values)), format="~g", labelOverlap="greedy"),
    }
