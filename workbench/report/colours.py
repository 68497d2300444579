"""One colour, dash and marker per scheduler, the same in every plot and page.

The hues are those of Okabe and Ito, "Color Universal Design" (2008), which the common kinds of
colour blindness tell apart. A family's parameter is a shade: static:1 is light blue and static:7
dark. Markers and dashes say the same once more, for print in grey.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

_OTHERS = ("#CC79A7", "#999933", "#882255", "#44AA99", "#AA4499")
_MARKERS = "oPsX^v<>hd"
_TRIANGLES = "v^<>pXhdPH"  # of static:k by k, so that none is another family's
_FIXED = {
    "none": ("#7F7F7F", "o", (4, 2)),
    "greedy": ("#E69F00", "s", ()),
    "topk": ("#D55E00", "D", ()),
    "global": ("#CC79A7", "^", (6, 2)),
    "oracle": ("#B8A800", "*", (1, 2)),
}
# light and dark end of a family, and the parameters that lie there
_SHADES = {
    "static": ("#7CC4F0", "#00437A", 1.0, 8.0),
    "threshold": ("#3FC79A", "#00563D", 0.0, 1.0),
}


@dataclass(frozen=True)
class Style:
    """How a scheduler is drawn."""

    colour: str  # #RRGGBB, readable on white and on dark grey
    marker: str  # as Matplotlib names them
    dash: tuple[int, ...]  # on, off, … in line widths; empty: a solid line


def style(scheduler: str) -> Style:
    """The style of a scheduler by its specification, whatever else is compared with it."""
    family, _, text = scheduler.partition(":")
    if family in _FIXED:
        colour, marker, dash = _FIXED[family]
        if text:  # topk:lag=4 beside topk
            marker, dash = _MARKERS[_number(text) % len(_MARKERS)], dash or (3, 1)
        return Style(colour, marker, dash)
    if family in _SHADES and (value := _value(text)) is not None:
        light, dark, low, high = _SHADES[family]
        share = min(max((value - low) / (high - low), 0.0), 1.0)
        markers, place = (
            (_TRIANGLES, round(value) // 2) if family == "static" else (_MARKERS, round(value * 10))
        )
        return Style(_between(light, dark, share), markers[place % len(markers)], ())
    number = _number(scheduler)
    return Style(_OTHERS[number % len(_OTHERS)], _MARKERS[number % len(_MARKERS)], (5, 1, 1, 1))


def tint(scheduler: str, page: str) -> str:
    """The scheduler's colour, raised in steps towards white until it stands out on a dark page.

    page: its background, #RRGGBB. A contrast of 3 to 1, as WCAG 2.1 (1.4.11) asks of graphics; what
    results is readable on white too, so that one colour serves both themes.
    """
    parts, dark = _parts(style(scheduler).colour), _luminance(_parts(page))
    while (_luminance(parts) + 0.05) / (dark + 0.05) < 3:
        parts = [part + (1 - part) * 0.08 for part in parts]
    return "#" + "".join(f"{round(part * 255):02X}" for part in parts)


def _parts(colour: str) -> list[float]:
    return [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]


def _luminance(parts: list[float]) -> float:
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _value(text: str) -> float | None:
    try:
        return float(text.rpartition("=")[2])
    except ValueError:
        return None


def _number(text: str) -> int:
    return hashlib.sha256(text.encode()).digest()[0]


def _between(light: str, dark: str, share: float) -> str:
    parts = [(int(light[i : i + 2], 16), int(dark[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(a + share * (b - a)):02X}" for a, b in parts)
