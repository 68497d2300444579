"""The frontier as a figure: tok/s/GPU against tok/s/user, a line per scheduler."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from workbench.errors import InputError
from workbench.files import atomic_write
from workbench.frontier.bands import GroupFrontier, SchedulerFrontier
from workbench.report.colours import style

SUFFIXES = (".png", ".svg", ".pdf")
_COLUMNS = 3  # panels beside each other


def frontier_plot(groups: Sequence[GroupFrontier]) -> Figure:
    """A panel per group. All that is drawn stands in ``groups``; nothing is computed here.

    Filled markers are points on a scheduler's own frontier, hollow ones are beaten by another
    load of the same scheduler. Bars span the seeds. Dotted verticals are the SLA anchors.
    """
    columns = min(len(groups), _COLUMNS)
    rows = -(-len(groups) // columns)
    # not by pyplot, which keeps figures and may open windows
    figure = Figure(figsize=(6.4 * columns + 1.2, 4.6 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False)
    for index, panel in enumerate(axes.flat):
        if index < len(groups):
            _panel(panel, groups[index])
        else:
            panel.set_axis_off()
    return figure


def _panel(panel: Axes, group: GroupFrontier) -> None:
    for one in group.schedulers:
        _scheduler(panel, one)
    for anchor in group.sla:
        panel.axvline(anchor, color="#999999", linestyle=":", linewidth=1, zorder=0)
    panel.set_title(group.name, fontsize=10, parse_math=False)  # a name is text, not a formula
    panel.set_xlabel("speed, tok/s/user (mean over requests)")
    panel.set_ylabel("throughput, tok/s/GPU")
    panel.grid(alpha=0.25)
    panel.set_ylim(bottom=0)
    for text in panel.legend(fontsize=8, frameon=False).get_texts():
        text.set_parse_math(False)


def _scheduler(panel: Axes, one: SchedulerFrontier) -> None:
    look = style(one.scheduler)
    name = one.scheduler + ("" if one.lossless else " (biased)")
    name += " (hindsight)" if one.hindsight else ""
    line = (0, look.dash) if look.dash else "-"
    panel.plot(
        one.curve.speed, one.curve.throughput, color=look.colour, linestyle=line, linewidth=1.6
    )
    known = [point for point in one.points if point.speed and point.throughput]
    for chosen, fill in ((True, look.colour), (False, "none")):
        points = [point for point in known if point.on_frontier == chosen]
        panel.plot(
            [point.speed.mean for point in points],
            [point.throughput.mean for point in points],
            linestyle="none",
            marker=look.marker,
            markersize=5,
            markeredgecolor=look.colour,
            markerfacecolor=fill,
        )
    panel.plot(
        [], [], color=look.colour, linestyle=line, marker=look.marker, markersize=5, label=name
    )
    if len(one.by_seed) > 1:
        panel.errorbar(
            [point.speed.mean for point in known],
            [point.throughput.mean for point in known],
            xerr=[
                [point.speed.mean - point.speed.min for point in known],
                [point.speed.max - point.speed.mean for point in known],
            ],
            yerr=[
                [point.throughput.mean - point.throughput.min for point in known],
                [point.throughput.max - point.throughput.mean for point in known],
            ],
            fmt="none",
            ecolor=look.colour,
            alpha=0.5,
        )


def check_suffix(path: str) -> str:
    """The suffix of a plot's file. Raises InputError if it is none that can be drawn."""
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(
            f"is none of {', '.join(SUFFIXES)}", file=path, place="--plot", mend="name such a file"
        )
    return suffix


def write_plot(path: str, figure: Figure) -> None:
    """Write the figure as .png, .svg or .pdf; the same figure gives the same bytes."""
    suffix = check_suffix(path)
    # no time of day and no random ids in the file
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(suffix)
    buffer = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "workbench"}):
        figure.savefig(buffer, format=suffix[1:], dpi=160, metadata=metadata)
    with atomic_write(path) as file:
        file.write(buffer.getvalue())
