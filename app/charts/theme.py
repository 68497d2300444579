"""Colours, dashes and shapes of schedulers as Vega-Lite scales, the same in every chart."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from workbench.report.colours import style

_SHAPES = {"o": "circle", "s": "square", "D": "diamond", "^": "triangle-up", "v": "triangle-down"}
_SHAPES |= {"<": "triangle-left", ">": "triangle-right", "P": "cross", "X": "stroke", "p": "wedge"}
_STAR = "M0,-1 L0.3,-0.4 0.95,-0.3 0.5,0.2 0.6,0.85 0,0.5 -0.6,0.85 -0.5,0.2 -0.95,-0.3 -0.3,-0.4Z"
_DARK = "#14191E"  # the dark page, as .streamlit/config.toml has it
_WIDTH = 2  # of lines; dashes are given in line widths
GREY = "#8A949C"  # of guides and of what belongs to no scheduler
PASSED, FAILED = "#0072B2", "#D55E00"


def tint(scheduler: str) -> str:
    """The scheduler's colour, raised in steps towards white until it stands out on the dark page.

    A contrast of 3 to 1, as WCAG 2.1 (1.4.11) asks of graphics; one colour serves both themes.
    """
    parts = _parts(style(scheduler).colour)
    while (_luminance(parts) + 0.05) / (_luminance(_parts(_DARK)) + 0.05) < 3:
        parts = [part + (1 - part) * 0.08 for part in parts]
    return "#" + "".join(f"{round(part * 255):02X}" for part in parts)


def _parts(colour: str) -> list[float]:
    return [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]


def _luminance(parts: Sequence[float]) -> float:
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def colour(schedulers: Sequence[str], field: str = "scheduler", **more) -> alt.Color:
    """The colour channel of ``schedulers``, with the legend below the chart."""
    return alt.Color(
        f"{field}:N",
        sort=list(schedulers),
        scale=alt.Scale(domain=list(schedulers), range=[tint(name) for name in schedulers]),
        legend=alt.Legend(orient="bottom", title=None, columns=4, symbolStrokeWidth=2),
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
        "scale": alt.Scale(type="log", base=2, nice=False),
        "axis": alt.Axis(values=sorted(set(values)), format="~g", labelOverlap="greedy"),
    }
