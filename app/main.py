"""Entry point of the app: the frame around the pages, and which pages there are."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

_ROOT = str(Path(__file__).resolve().parents[1])
if _ROOT not in sys.path:  # the app lies beside the installed package, not in it
    sys.path.append(_ROOT)

import streamlit as st  # noqa: E402

from app import link  # noqa: E402
from app.guard import guarded  # noqa: E402
from app.sidebar import sidebar  # noqa: E402

# a file of its own: Streamlit fetches other icons from a public server
_ICON = str(Path(__file__).with_name("icon.svg"))
st.set_page_config(page_title="workbench", page_icon=_ICON, layout="wide", menu_items={})


def _page(name: str, title: str, icon: str, **more) -> st.Page:
    def render() -> None:
        # only now: a visitor waits for the first page's imports alone
        guarded(import_module(f"app.views.{name}").page)(scene)

    return st.Page(render, title=title, icon=f":material/{icon}:", url_path=name, **more)


_TUNE = [_page("tune", "Tune", "tune")] if find_spec("optuna") else []
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
link.follow()
scene = guarded(sidebar)()
if scene is not None:
    chosen.run()
