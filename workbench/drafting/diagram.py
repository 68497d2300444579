"""Acceptance by draft position, a panel per domain, a line per trace."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from workbench.drafting.evaluation import Evaluation, Group

# Okabe and Ito
_COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "DosvP^X"
_MOST_PANELS = 6


def acceptance_diagram(found: Sequence[Evaluation]) -> Figure:
    """P(draft k passes | those before it did) of every trace; bars are two standard errors.

    Traces of one drafter and temperature share a colour. Of more than 6 domains the first.
    """
    domains = list(dict.fromkeys(group.name for one in found for group in one.domains))
    domains = domains[:_MOST_PANELS]
    kinds = list(dict.fromkeys(_kind(one) for one in found))
    # not by pyplot, which keeps figures and may open windows
    figure = Figure(figsize=(3.6 * len(domains) + 0.6, 3.7), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(domains), squeeze=False, sharey=True)[0]
    for panel, domain in zip(panels, domains, strict=True):
        for one in found:
            for group in one.domains:
                if group.name == domain:
                    _line(panel, group, kinds.index(_kind(one)), _kind(one))
        # a name is text, not a formula
        panel.set_title(domain, fontsize=10, parse_math=False)
        panel.set_xlabel("draft position k")
        panel.set_xticks(range(1, max(one.block_size for one in found) + 1))
        panel.set_ylim(0, 1)
        panel.grid(alpha=0.25)
    panels[0].set_ylabel("P(k passes | 1..k−1 passed)")
    named = {bars.get_label(): bars for panel in panels for bars in panel.containers}
    panels[-1].legend(named.values(), named.keys(), fontsize=8, frameon=False, loc="lower left")
    return figure


def _kind(one: Evaluation) -> str:
    return f"{one.drafter or one.trace}, T = {one.temperature:g}"


def _line(panel: Axes, group: Group, index: int, label: str) -> None:
    panel.errorbar(
        np.arange(len(group.conditional)) + 1,
        group.conditional,
        yerr=2 * np.array(group.conditional_error),
        color=_COLOURS[index % len(_COLOURS)],
        marker=_MARKERS[index % len(_MARKERS)],
        markersize=4.5,
        linewidth=1.3,
        label=label,
    )
