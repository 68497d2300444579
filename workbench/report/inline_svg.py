"""A figure as SVG inside a page: it takes the page's text colour, in the light and in the dark."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from html import escape

import matplotlib
from matplotlib.figure import Figure

_INK = "#010203"  # drawn in this colour, then replaced by the page's own
_STYLE = {
    "svg.fonttype": "none",  # text stays text: it can be read, found and scaled
    "svg.hashsalt": "workbench",
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor"), _INK),
    **dict.fromkeys(("xtick.color", "ytick.color", "grid.color"), _INK),
}
_ID = re.compile(r'(\bid="|url\(#|href="#)')


def inline_svg(
    draw: Callable[[], Figure], name: str, title: str, colours: Mapping[str, str] | None = None
) -> str:
    """The figure that ``draw`` makes, as an ``<svg>`` element without a single address in it.

    name: prefix of its ids, unique on the page; title: what it shows, for who cannot see it;
    colours: #RRGGBB of the figure → what the page has instead. Same figure, same text.
    """
    buffer = io.StringIO()
    with matplotlib.rc_context(_STYLE):
        draw().savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = text.replace("xlink:href", "href")
    text = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", text)
    head, rest = text.split(">", 1)
    head = re.sub(r'\s(width|height|version)="[^"]*"', "", head)
    label = escape(title, quote=True)
    text = f'{head} role="img" aria-label="{label}">{rest}'
    text = _ID.sub(rf"\g<1>{name}-", text)
    for drawn, shown in {_INK: "currentColor", **(colours or {})}.items():
        text = text.replace(drawn.lower(), shown)
    return text.strip()
