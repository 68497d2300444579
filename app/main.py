"""Entry point of the app, ``streamlit run app/main.py``: a server that warms as it starts."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Thread

import streamlit as st

_ROOT = str(Path(__file__).resolve().parents[1])
if _ROOT not in sys.path:  # the app lies beside the installed package, not in it
    sys.path.append(_ROOT)


def _warm() -> None:
    from app.warm import warm

    warm()


@asynccontextmanager
async def _lifespan(_):
    Thread(target=_warm, name="warm", daemon=True).start()
    yield
    from app.sweeps import close

    close()


app = st.App(Path(__file__).with_name("frame.py"), lifespan=_lifespan)
