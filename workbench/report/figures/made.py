"""What a figure's maker hands over: the drawing, its numbers, and a table of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

DOMAINS = {"math": "#0072B2", "code": "#009E73", "chat": "#D55E00"}  # Okabe and Ito
OTHER = "#7F7F7F"


@dataclass(frozen=True)
class Made:
    """A figure; ``numbers`` holds all that is drawn, ``table`` (head first) what a page shows."""

    name: str  # of its file
    figure: Figure
    numbers: dict[str, Any]
    table: list[tuple[str, ...]]


def canvas(width: float, height: float) -> Figure:
    """An empty figure of so many inches, not by pyplot, which keeps figures."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def markdown(table: Sequence[Sequence[str]]) -> str:
    """The table in Markdown: the first column to the left, all others to the right."""
    head, *rows = [[str(cell).replace("|", "\\|") for cell in row] for row in table]
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, rule, *rows)) + "\n"
