"""Load: what each scheduler does as users come, as figure 8 of the DSpark paper has it."""

from __future__ import annotations

import streamlit as st

from app import widgets
from app.charts import sweep as charts
from app.controls import Choices, choices, sweep_of
from app.live import live
from app.scene import Scene

_MORE = {
    "Speed": (charts.SPEED, "speed (tok/s/user)"),
    "TTFT p99": ("TTFT p99 (ms)", "time to first token, p99 (ms)"),
    "Accepted length": ("accepted length", "accepted length (tokens per round)"),
    "Rejected share": ("rejected share of batch", "share of batch tokens rejected"),
    "Energy": ("J/token", "energy (J per output token and GPU)"),
}


def page(scene: Scene) -> None:
    """Draw the page."""
    st.title("Load")
    st.caption(
        "Throughput and verification budget against the load (as figure 8 of the DSpark paper): "
        "an adaptive scheduler verifies more while the GPU idles and less as it fills. The budget "
        "counts the anchor and the drafts verified per request and round."
    )
    chosen = choices(scene)
    live(
        sweep_of(scene, chosen),
        lambda runs: _board(chosen, runs),
        lambda: st.info("The first points are being simulated."),
    )
    for note in scene.notes():
        st.caption(f":material/info: {note}")


def _board(chosen: Choices, runs: list[dict]) -> None:
    frame = charts.table(runs)
    for field, title in (
        (charts.THROUGHPUT, "throughput (tok/s/GPU)"),
        ("verification budget", "verification budget (tokens)"),
    ):
        st.altair_chart(charts.against_load(frame, chosen.schedulers, field, title), key=field)
    more = {name: place for name, place in _MORE.items() if frame[place[0]].notna().any()}
    name = widgets.segmented(st, "Another figure", list(more), "Speed", key="figure")
    field, title = more[name]
    st.altair_chart(charts.against_load(frame, chosen.schedulers, field, title), key="more")
    late = frame[frame["overloaded"]]
    if not late.empty:
        names = ", ".join(f"{s} at {x:g}/s" for s, x in zip(late.scheduler, late.load, strict=True))
        st.warning(f"Does not keep up, so its TTFT says how long was simulated: {names}.")
    st.download_button(
        "Points as CSV",
        frame.to_csv(index=False),
        "load.csv",
        "text/csv",
        icon=":material/download:",
        on_click="ignore",
    )
