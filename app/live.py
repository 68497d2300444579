"""A part of a page that redraws itself while a sweep runs, with progress and a way to end it."""

from __future__ import annotations

import time
from collections.abc import Callable

import streamlit as st

from app.guard import guarded, plain
from app.sweeps import Sweep, again

_FIRST_WAIT = 0.6  # seconds in which a quick pass usually ends, so that nothing flickers
_NAP = 0.05
_EVERY = 1.5  # seconds between drawings


def live(sweep: Sweep, draw: Callable[[list[dict]], None], idle: Callable[[], None]) -> None:
    """Draw ``draw(runs)`` of ``sweep`` now and again until it has ended.

    idle: drawn as long as there is no run at all.
    """
    if sweep.warm:
        _wait_first(sweep)
    running = not sweep.finished

    @st.fragment(run_every=_EVERY if running else None)
    def board() -> None:
        if running and sweep.finished:
            st.rerun()  # the whole page once, so that the clock stops
        with st.container():  # always there, so that what follows keeps its place
            _state(sweep, running)
        for scheduler, problem in dict(sweep.errors).items():
            st.error(f"{plain(scheduler)}: {plain(problem)}", icon=":material/error:")
        runs = sweep.runs()
        if runs:
            draw(runs)
        else:
            idle()

    guarded(board)()


def _wait_first(sweep: Sweep) -> None:
    """Wait in short naps: touching the session lets a newer click end this run."""
    until = time.monotonic() + _FIRST_WAIT
    while not sweep.wait_first(_NAP) and time.monotonic() < until:
        st.session_state.get("sweep")


def _state(sweep: Sweep, running: bool) -> None:
    """The progress of a sweep that runs, a way on for one that was ended, else nothing."""
    if not running and not sweep.cancelled:
        return
    left, right = st.columns([5, 1])
    if sweep.cancelled:
        left.warning("Ended before all points were simulated; what is there is shown.")
        if right.button("Go on", width="stretch"):
            again()
            st.rerun()
        return
    text = f"{sweep.done} of {len(sweep.steps)} simulations; what is shown sharpens as they end"
    if sweep.compiling:
        text = "Compiling the simulator's inner loops, once on this machine (about 15 s)"
    left.progress(sweep.done / max(1, len(sweep.steps)), text)
    right.button("Stop", key="stop", on_click=sweep.cancel, width="stretch")
