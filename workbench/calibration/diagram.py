"""The reliability diagram: what happened against what was predicted, before and after."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from workbench.calibration.evaluate import PositionReport, Quality

_COLUMNS = 4
_MOST_PANELS = 12
_LOOKS = {"before": ("#D55E00", "s"), "after": ("#0072B2", "o")}  # Okabe and Ito


def reliability_diagram(reports: Sequence[PositionReport], title: str = "") -> Figure:
    """A panel per draft position; of more than 12, as many spread evenly, first and last included.

    All that is drawn stands in ``reports``. A marker's area is the share of rows in its bin.
    """
    shown = np.unique(np.linspace(0, len(reports) - 1, min(len(reports), _MOST_PANELS)).round())
    columns = min(len(shown), _COLUMNS)
    lines = -(-len(shown) // columns)
    # not by pyplot, which keeps figures and may open windows
    figure = Figure(figsize=(3.1 * columns + 0.4, 3.2 * lines + 0.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True).flat
    for index, panel in enumerate(axes):
        if index < len(shown):
            _panel(panel, reports[int(shown[index])])
        else:
            panel.set_axis_off()
    if title:
        # a name is text, not a formula
        figure.suptitle(title, fontsize=10, parse_math=False)
    figure.supxlabel("predicted survival a_k", fontsize=9)
    figure.supylabel("share of blocks whose tokens 1..k passed", fontsize=9)
    return figure


def _panel(panel: Axes, report: PositionReport) -> None:
    panel.plot([0, 1], [0, 1], color="#999999", linestyle=":", linewidth=1, zorder=0)
    for name, quality in (("before", report.before), ("after", report.after)):
        _series(panel, name, quality)
    panel.set_title(f"k = {report.position}, T = {report.temperature:.3g}", fontsize=9)
    panel.set_xlim(0, 1)
    panel.set_ylim(0, 1)
    panel.set_aspect("equal")
    panel.grid(alpha=0.25)
    legend = panel.legend(fontsize=7, frameon=False, loc="upper left")
    for handle in legend.legend_handles:
        handle.set_sizes([20])  # not that of the first bin


def _series(panel: Axes, name: str, quality: Quality) -> None:
    bins = quality.reliability
    colour, marker = _LOOKS[name]
    share = np.array(bins.rows) / max(sum(bins.rows), 1)
    label = f"{name}, ECE {quality.survival_ece:.1%}" if bins.rows else f"{name}, no rows"
    panel.plot(bins.predicted, bins.observed, color=colour, linewidth=1)
    panel.scatter(
        bins.predicted, bins.observed, s=8 + 120 * share, color=colour, marker=marker, label=label
    )
