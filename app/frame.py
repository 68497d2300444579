"""The script that a visit runs: the frame around the pages, and which pages there are."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import streamlit as st

from app import link
from app.guard import guarded

# a file of its own: Streamlit fetches other icons from a public server
_ICON = str(Path(__file__).with_name("icon.svg"))
st.set_page_config(page_title="workbench", page_icon=_ICON, layout="wide", menu_items={})


def _page(name: str, title: str, icon: str, **more) -> st.Page:
    def render() -> None:
        # only now: a visitor waits for the first page's imports alone
        guarded(import_module(f"app.views.{name}").page)(scene)

    return st.Page(render, title=title, icon=f":material/{icon}:", url_path=name, **more)


_TUNE = [_page("tune", "Tune", "tune")] if find_spec("optuna") else []
# before the navigation, which puts the page's path and these choices into one entry of history
link.follow()
chosen = st.navigation(
    [
        _page("frontier", "Frontier", "show_chart", default=True),
        _page("lab", "Scheduler lab", "science"),
        _page("load", "Load", "group"),
        _page("profiles", "Profiles", "stairs"),
        _page("traces", "Traces", "timeline"),
        _page("calibration", "Calibration", "balance"),
        *_TUNE,
        _page("export", "Export", "file_export"),
    ]
)
body, below = st.container(), st.empty()
if "charts are loaded" not in st.session_state:
    # the browser fetches its chart library while the page is made
    below.vega_lite_chart({"mark": "point", "height": 1})
    st.session_state["charts are loaded"] = True
with body:
    from app.sidebar import sidebar  # only now: it imports nearly all

    scene = guarded(sidebar)()
    if scene is not None:
        chosen.run()
below.empty()
