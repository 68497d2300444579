"""Streamlit's inputs, each tied to the link of the page (``app.link``) by its key.

``place`` is ``st`` or a column; ``more`` goes to Streamlit as it is. Values from a link that a
widget cannot show are brought into its range, or its default is shown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from app.link import FLAG, REAL, TEXT, TEXTS, WHOLE, Kind, bound


def number(place, label: str, low, high, default, *, key: str, **more):
    """A number field from ``low`` to ``high``; whole if ``default`` is."""
    kind = REAL if isinstance(default, float) else WHOLE
    return place.number_input(
        label, low, high, **bound(key, kind, default, _between(low, high), (low, high)), **more
    )


def slider(place, label: str, low: int, high: int, default: int, *, key: str, **more) -> int:
    """A slider over whole numbers."""
    return place.slider(
        label, low, high, **bound(key, WHOLE, default, _between(low, high), (low, high)), **more
    )


def select_slider(place, label: str, options: Sequence, default, *, key: str, **more):
    """A slider over ``options``, which differ as texts."""
    return place.select_slider(label, options, **_one_of(options, key, default), **more)


def selectbox(place, label: str, options: Sequence[str], default: str, *, key: str, **more) -> str:
    """One of ``options``."""
    return place.selectbox(label, options, **_one_of(options, key, default), **more)


def segmented(place, label: str, options: Sequence, default, *, key: str, **more):
    """One of a few ``options``, side by side."""
    tied = _one_of(options, key, default)
    return place.segmented_control(label, options, required=True, **tied, **more)


def multiselect(
    place, label: str, options: Sequence[str], default: Sequence[str], *, key: str, **more
) -> list[str]:
    """Some of ``options``; with ``accept_new_options`` others too, at most ``max_selections``."""

    def valid(chosen: list[str]) -> list[str]:
        if not more.get("accept_new_options"):
            known = [text for text in chosen if text in options]
            if chosen and not known:
                raise ValueError(chosen)
            chosen = known
        return list(dict.fromkeys(chosen))[: more.get("max_selections")]

    return place.multiselect(
        label, options, wrap=True, **bound(key, TEXTS, list(default), valid, tuple(options)), **more
    )


def toggle(place, label: str, *, key: str, **more) -> bool:
    """A switch that is off by default."""
    return place.toggle(label, **bound(key, FLAG, False, _same), **more)


def text(place, label: str, *, key: str, **more) -> str:
    """A text field that is empty by default."""
    return place.text_input(label, **bound(key, TEXT, "", _same), **more)


def _same(value: Any) -> Any:
    return value


def _between(low, high) -> Callable[[Any], Any]:
    def valid(value):
        if not math.isfinite(value):
            raise ValueError(value)
        return min(max(value, low), high)

    return valid


def _one_of(options: Sequence, key: str, default: Any) -> dict:
    by_text = {str(option): option for option in options}

    def read(texts: list[str]) -> Any:
        if texts[-1] not in by_text:
            raise ValueError(texts[-1])
        return by_text[texts[-1]]

    kind = Kind(read, lambda option: [str(option)])
    return bound(key, kind, default, _same, tuple(options))
