"""Charts of a sweep: the frontier, and figures against the load."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import pandas as pd

from app.charts.theme import GREY, colour, dash, legend, log2, named, shape, zoom
from workbench.frontier import GroupFrontier
from workbench.frontier.bands import load_of

SPEED, THROUGHPUT = "tok/s/user", "tok/s/GPU"
PICK = "pick"  # the selection of a clicked point


def table(runs: Sequence[dict]) -> pd.DataFrame:
    """A row per run: what the charts and the tooltips show, with units in the names."""
    rows = []
    for run in runs:
        kind, load = load_of(run)
        rows.append(
            {
                "scheduler": run["scheduler"],
                "load kind": "users" if kind == "concurrency" else "requests/s",
                "load": load,
                SPEED: run["speed_tok_s_user"]["mean"],
                "tok/s/user p10": run["speed_tok_s_user"]["p10"],
                THROUGHPUT: run["throughput_tok_s_gpu"],
                "TTFT p50 (ms)": _ms(run["ttft_s"]["p50"]),
                "TTFT p99 (ms)": _ms(run["ttft_s"]["p99"]),
                "TPOT p99 (ms)": _ms(run["tpot_s"]["p99"]),
                "accepted length": run["accepted_length"],
                "acceptance rate": run["acceptance_rate"],
                "verification budget": run["verification_budget"],
                "rejected share of batch": run["rejected_share"],
                "J/token": run.get("energy_j_token"),
                "lossless": run["lossless"],
                "replay": run["replay"],
                "overloaded": bool(run.get("overloaded")),
                "window": run["window"]["kind"],
                "requests": run["requests"],
                "quick": run.get("quick", False),
            }
        )
    return pd.DataFrame(rows)


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3


def _tooltip(frame: pd.DataFrame) -> list[alt.Tooltip]:
    kind = frame["load kind"].iloc[0]
    figures = [
        ("load", kind, ",~g"),
        (SPEED, SPEED, ",.1f"),
        (THROUGHPUT, THROUGHPUT, ",.0f"),
        ("TTFT p99 (ms)", "TTFT p99 (ms)", ",.1f"),
        ("accepted length", "accepted length", ".2f"),
        ("verification budget", "verification budget (tokens)", ".2f"),
        ("acceptance rate", "acceptance rate", ".1%"),
        ("requests", "requests simulated", ",d"),
    ]
    shown = [alt.Tooltip(f"{name}:Q", title=title, format=f) for name, title, f in figures]
    return [alt.Tooltip("scheduler:N"), *shown]


def frontier(
    frame: pd.DataFrame,
    group: GroupFrontier,
    schedulers: Sequence[str],
    anchor: float,
    logarithmic: bool = False,
    picked: tuple[str, float] | None = None,
) -> alt.LayerChart:
    """Throughput per GPU against speed per user: a line per scheduler through its loads.

    Filled points are on the scheduler's own frontier, ringed ones on the frontier of all; the rule
    stands at the promised speed. Points can be clicked (selection ``pick``); picked: the scheduler
    and load that stand out. All that changes between drawings is data, so that the browser need
    not build the chart anew.
    """
    marks = {
        (one.scheduler, next(iter(point.load.values()))): (point.on_frontier, point.best)
        for one in group.schedulers
        for point in one.points
    }
    places = list(zip(frame["scheduler"], frame["load"], strict=True))
    frame = frame.assign(
        own=[marks.get(place, (False, False))[0] for place in places],
        best=[marks.get(place, (False, False))[1] for place in places],
        faded=[picked is not None and place != picked for place in places],
    )
    x = alt.X(f"{SPEED}:Q", title="speed (tok/s/user, mean over requests)", scale=_zero(False))
    scale = alt.Scale(type="log", base=2, nice=False) if logarithmic else _zero(True)
    axis = alt.Axis(format=",~r" if logarithmic else ",d")
    y = alt.Y(f"{THROUGHPUT}:Q", title="throughput (tok/s/GPU)", scale=scale, axis=axis)
    hue = colour(schedulers)
    base = alt.Chart(frame).transform_filter(alt.datum[SPEED] != None)  # noqa: E711 a Vega expression
    lines = base.mark_line(strokeWidth=2, clip=True).encode(
        x, y, hue, dash(schedulers), order="load:Q"
    )
    pick = alt.selection_point(name=PICK, fields=["scheduler", "load"], on="click", toggle=False)
    points = (
        named(base, "points")
        .mark_point(size=70, strokeWidth=1.8, clip=True)
        .encode(
            x,
            y,
            hue,
            shape(schedulers),
            fill=alt.condition("datum.own", hue, alt.value("transparent")),
            opacity=alt.condition("datum.faded", alt.value(0.45), alt.value(1)),
            size=alt.condition("datum.faded", alt.value(45), alt.value(80)),
            tooltip=_tooltip(frame),
        )
        .add_params(pick)
    )
    rings = (
        base.transform_filter("datum.best")
        .mark_point(size=260, strokeWidth=1.2, color=GREY, shape="circle", clip=True)
        .encode(x, y)
    )
    rule = (
        alt.Chart(pd.DataFrame({SPEED: [anchor]}))
        .mark_rule(color=GREY, strokeDash=[5, 4])
        .encode(x=f"{SPEED}:Q")
    )
    return alt.layer(named(lines).add_params(zoom()), rings, points, rule).properties(height=500)


def _zero(zero: bool) -> alt.Scale:
    return alt.Scale(zero=zero, nice=True)


def against_load(
    frame: pd.DataFrame, schedulers: Sequence[str], field: str, title: str, height: int = 360
) -> alt.LayerChart:
    """One figure against the load, a line per scheduler."""
    kind = frame["load kind"].iloc[0]
    name = "concurrent users" if kind == "users" else "request rate (requests/s)"
    x = alt.X("load:Q", title=name, **log2(frame["load"].tolist()))
    # room above for lines along the edge
    y = alt.Y(f"{field}:Q", title=title, scale=alt.Scale(domainMin=0, nice=True, padding=8))
    hue = colour(schedulers)
    base = alt.Chart(frame).transform_filter(alt.datum[field] != None)  # noqa: E711 a Vega expression
    lines = base.mark_line(strokeWidth=2).encode(x, y, hue, dash(schedulers))
    points = base.mark_point(size=55, filled=True, opacity=1).encode(
        x, y, hue, shape(schedulers), tooltip=_tooltip(frame)
    )
    return alt.layer(named(lines).add_params(zoom(encodings=["y"])), points).properties(
        height=height
    )


def estimate(frame: pd.DataFrame, schedulers: Sequence[str]) -> alt.Chart:
    """The closed form's points, as long as nothing is simulated."""
    return (
        alt.Chart(frame)
        .mark_line(strokeWidth=1.5, strokeDash=[3, 3], point=True)
        .encode(
            alt.X(f"{SPEED}:Q", title="speed (tok/s/user), estimated", scale=_zero(False)),
            alt.Y(f"{THROUGHPUT}:Q", title="throughput (tok/s/GPU), estimated"),
            colour(schedulers),
            order="load:Q",
            tooltip=["scheduler", "load", SPEED, THROUGHPUT],
        )
        .properties(height=500)
    )


def parts(seconds: dict[str, float]) -> alt.Chart:
    """A step's milliseconds by cause, one bar."""
    frame = pd.DataFrame({"part": list(seconds), "ms": [value * 1e3 for value in seconds.values()]})
    return (
        alt.Chart(frame)
        .mark_bar(height=26)
        .encode(
            alt.X("ms:Q", title="step time (ms)", stack="zero"),
            alt.Color(
                "part:N",
                sort=list(seconds),
                scale=alt.Scale(range=["#0072B2", "#56B4E9", "#009E73", "#E69F00", GREY]),
                legend=legend(),
            ),
            order=alt.Order("order:Q"),
            tooltip=["part", alt.Tooltip("ms:Q", format=".3f")],
        )
        .transform_calculate(
            order="indexof(" + repr(list(seconds)).replace("'", '"') + ", datum.part)"
        )
        .properties(height=150)
    )
