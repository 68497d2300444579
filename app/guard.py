"""What goes wrong on a page is said in one line on it, as on the command line."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable

import streamlit as st

from workbench.errors import InputError

_log = logging.getLogger("workbench.app")


def guarded(render: Callable) -> Callable:
    """``render`` with its errors shown on the page; then it returns None.

    An InputError is the user's to mend and is shown as it is. Anything else is the app's own fault:
    the traceback goes to the server's log alone.
    """

    @functools.wraps(render)
    def safe(*args, **kwargs):
        try:
            return render(*args, **kwargs)
        except InputError as error:
            st.error(plain(str(error)), icon=":material/error:")
        except Exception:
            _log.exception("%s failed", render.__qualname__)
            st.error(
                "This part of the page failed; the server's log says why. The other pages work.",
                icon=":material/bug_report:",
            )
        return None

    return safe


def plain(text: str) -> str:
    """``text`` with Markdown's own signs escaped: file names and values are shown as they are."""
    for sign in "\\`*_{}[]<>#|~$:":
        text = text.replace(sign, f"\\{sign}")
    return text
