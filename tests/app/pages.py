"""Pages run in Streamlit's own test harness, each by itself with its sidebar."""

from __future__ import annotations

import time

from streamlit.testing.v1 import AppTest

_SCRIPT = """
from app.guard import guarded
from app.sidebar import sidebar
from app.views import {page}

scene = guarded(sidebar)()
if scene is not None:
    guarded({page}.page)(scene)
"""
# small enough to end while a test waits
QUICK = {
    "scheduler": ["none", "static:1", "topk"],
    "concurrency": ["1", "8"],
    "requests": "40",
}


def open_page(page: str, **query) -> AppTest:
    """The page as a link with these query parameters opens it."""
    test = AppTest.from_string(_SCRIPT.format(page=page), default_timeout=120)
    for name, value in query.items():
        test.query_params[name] = value
    return test.run()


def settle(test: AppTest, seconds: float = 60.0) -> AppTest:
    """Run the page again once its sweep has ended, as its clock does in a browser."""
    _, sweep = test.session_state["sweep"]
    assert sweep.wait(seconds), "the sweep did not end"
    time.sleep(0.05)
    return test.run()


def errors(test: AppTest) -> list[str]:
    """What the page says is wrong; a traceback on it fails the test."""
    assert not test.exception, [one.value for one in test.exception]
    return [one.value for one in test.error]


def charts(test: AppTest) -> int:
    """How many charts are drawn."""
    return len(test.get("arrow_vega_lite_chart")) + len(test.get("vega_lite_chart"))
