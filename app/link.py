"""The choices of a session and the URL that shares them, written in this one place.

Streamlit can bind a widget to a query parameter, but on a change of page it drops the parameters
of the page that is left, and what the next page makes of them depends on which message comes first.
So a choice lives in the session, whatever page is open; the URL only repeats it. It is read when a
session begins and when the browser goes back or forward, never else. Choices that are their
defaults are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

_CHOICES = "choices of the link"  # in the session: {key: texts, as in the URL}
# in the session: {key: (shape, value that gave way to the one shown in the last run)}
_SHOWN = "what widgets show"


class Kind(NamedTuple):
    """How values of one type are written as texts in the URL; ``read`` raises ValueError."""

    read: Callable[[list[str]], Any]
    write: Callable[[Any], list[str]]


def _flag(texts: list[str]) -> bool:
    if texts[-1] not in ("true", "false"):
        raise ValueError(texts[-1])
    return texts[-1] == "true"


TEXT = Kind(lambda texts: texts[-1], lambda text: [text])
# an empty text stands for the empty list, which is not the default
TEXTS = Kind(lambda texts: [t for t in texts if t], lambda texts: list(texts) or [""])
WHOLE = Kind(lambda texts: int(texts[-1]), lambda number: [str(number)])
REAL = Kind(lambda texts: float(texts[-1]), lambda number: [f"{number:.12g}"])
FLAG = Kind(_flag, lambda flag: ["true" if flag else "false"])


def follow() -> None:
    """At the start of every run: take the URL of a new session or of browser history, repeat it."""
    context = get_script_run_ctx()
    if context is not None and context.is_history_navigation:
        st.session_state[_CHOICES] = _from_url()
    if _choices() != _from_url():
        _publish()


def texts(key: str) -> list[str]:
    """What was chosen for ``key``, as in the URL; empty for the default."""
    return _choices().get(key, [])


def choose(key: str, kind: Kind, value: Any, default: Any = None) -> None:
    """Choose ``value`` for ``key`` as if its widget had been used; the default clears it."""
    if value is None or value == default:
        _choices().pop(key, None)
    else:
        _choices()[key] = kind.write(value)
    _publish()


def bound(
    key: str, kind: Kind, default: Any, valid: Callable[[Any], Any], shape: tuple = ()
) -> dict:
    """Arguments that tie a widget to the link: its key, set to what was chosen, and its callback.

    valid: the nearest value that the widget can show; raises ValueError if none is near, then the
    default is shown. What was chosen stays chosen: it is shown again once the widget can.
    shape: the arguments with which Streamlit takes it for another widget, one without a value yet.
    """
    value = default
    if given := texts(key):
        try:
            value = valid(kind.read(given))
        except ValueError:
            value = default
    shown = st.session_state.setdefault(_SHOWN, {})
    known = key in st.session_state and key in shown and shown[key][0] == shape
    before = st.session_state[key] if known else None
    shown[key] = (shape, before if before != value else None)
    if before != value:  # else a hand that moves it is not disturbed
        st.session_state[key] = value
    return {"key": key, "on_change": _changed, "args": (key, kind, default)}


def _changed(key: str, kind: Kind, default: Any) -> None:
    overruled = st.session_state[_SHOWN][key][1]
    if overruled is not None and st.session_state[key] == overruled:
        return  # the browser has not heard yet that another value is shown; nobody chose this one
    choose(key, kind, st.session_state[key], default)


def _choices() -> dict[str, list[str]]:
    if _CHOICES not in st.session_state:
        st.session_state[_CHOICES] = _from_url()
    return st.session_state[_CHOICES]


def _from_url() -> dict[str, list[str]]:
    return {key: st.query_params.get_all(key) for key in st.query_params}


def _publish() -> None:
    st.query_params.from_dict(_choices())
