"""Throughput and verification budget against the load, as figure 8 of the DSpark paper has them."""

from __future__ import annotations

from collections.abc import Callable

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from workbench.frontier.bands import Band, GroupFrontier, Point, SchedulerFrontier
from workbench.report.colours import style
from workbench.report.frontier_table import shown_name


def load_plot(group: GroupFrontier) -> Figure:
    """Two panels side by side: tok/s/GPU, and tokens verified per request and round (1 + ℓ).

    All that is drawn stands in ``group``. Bands span the seeds; a cross is an open-loop point at
    which requests pile up. The load is logarithmic, in steps of two.
    """
    # not by pyplot, which keeps figures and may open windows
    figure = Figure(figsize=(10.4, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    _panel(left, group, lambda point: point.throughput, "throughput, tok/s/GPU")
    budget = "budget, tokens verified per request and round"
    _panel(right, group, lambda point: point.verification_budget, budget)
    figure.suptitle(group.name, fontsize=10, parse_math=False)
    for text in left.legend(fontsize=8, frameon=False).get_texts():
        text.set_parse_math(False)
    return figure


def _panel(
    panel: Axes, group: GroupFrontier, value: Callable[[Point], Band | None], name: str
) -> None:
    for one in group.schedulers:
        _line(panel, one, value)
    loads = sorted({_number(point) for one in group.schedulers for point in one.points})
    rate = any("rate" in point.load for one in group.schedulers for point in one.points)
    panel.set_xscale("log", base=2)
    panel.set_xticks(loads, [f"{load:g}" for load in loads], minor=False)
    panel.minorticks_off()
    panel.set_xlabel("request rate, requests/s" if rate else "concurrent users")
    panel.set_ylabel(name)
    panel.set_ylim(bottom=0)
    panel.grid(alpha=0.25)


def _line(panel: Axes, one: SchedulerFrontier, value: Callable[[Point], Band | None]) -> None:
    look = style(one.scheduler)
    known = [(point, band) for point in one.points if (band := value(point)) is not None]
    loads = [_number(point) for point, _ in known]
    panel.plot(
        loads,
        [band.mean for _, band in known],
        color=look.colour,
        linestyle=(0, look.dash) if look.dash else "-",
        linewidth=1.6,
        marker=look.marker,
        markersize=5,
        label=shown_name(one),
    )
    if any(band.min != band.max for _, band in known):
        panel.fill_between(
            loads,
            [band.min for _, band in known],
            [band.max for _, band in known],
            color=look.colour,
            alpha=0.2,
            linewidth=0,
        )
    late = [
        (load, band.mean)
        for load, (point, band) in zip(loads, known, strict=True)
        if point.overloaded
    ]
    if late:
        panel.plot(*zip(*late, strict=True), "x", color=look.colour, markersize=9)


def _number(point: Point) -> float:
    return next(iter(point.load.values()))
