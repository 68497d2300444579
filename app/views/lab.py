"""Scheduler lab: one decode round, step by step."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app import widgets
from app.admission import Path, path_of
from app.batch import batch_at
from app.charts import lab as charts
from app.controls import allowed
from app.guard import plain
from app.rounds import Decision, decide, heat
from app.scene import Scene
from workbench.errors import InputError

_DEFAULT = ["static:3", "threshold:0.5", "greedy", "topk", "global"]


def page(scene: Scene) -> None:
    """Draw the page."""
    st.title("Scheduler lab")
    st.caption(
        "One decode round of recorded requests: the survivals of all drafts in the order of "
        "admission, what the step costs, and what each scheduler admits and why."
    )
    left, right = st.columns([3, 2])
    given = widgets.multiselect(
        left,
        "Schedulers",
        [*_DEFAULT, "none", "static:1", f"static:{scene.gamma}", "oracle"],
        _DEFAULT,
        key="lab scheduler",
        accept_new_options=True,
        max_selections=10,
    )
    schedulers = list(dict.fromkeys(allowed(spec, scene.gamma) for spec in given))
    if not schedulers:
        raise InputError("none is chosen", place="Schedulers", mend="choose at least one")
    requests = widgets.select_slider(
        right,
        "Decoding requests, R",
        [1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256],
        32,
        key="R",
    )
    step, prefill, seed = st.columns(3)
    number = widgets.number(
        step,
        "Decode round",
        0,
        200,
        6,
        key="round",
        help="Step forward and back. Before round 2 `topk` knows no survivals of two steps ago "
        "and counts each as 1.",
    )
    chunk = widgets.number(prefill, "Prompt tokens in the step", 0, 8192, 0, step=64, key="chunk")
    draw = widgets.number(seed, "Draw of requests", 0, 10_000, 0, key="draw")

    batch = batch_at(scene.demand, int(requests), int(number), int(draw))
    decisions = [decide(spec, batch, scene.cost, int(chunk)) for spec in schedulers]
    path = path_of(batch, scene.cost, int(chunk))
    st.subheader("Expected throughput along the admission path")
    best = max(decisions, key=lambda d: d.theta)
    at = widgets.slider(
        st,
        "Step along the path: drafts admitted, K",
        0,
        len(path.survival),
        min(best.drafts, len(path.survival)),
        key="K",
    )
    st.text(_step(path, at))
    st.altair_chart(charts.theta(path, decisions, at), key="theta")
    first, second = st.columns(2)
    with first:
        st.subheader("Survivals, sorted")
        st.altair_chart(charts.survivals(path, decisions, at), key="survivals")
    with second:
        st.subheader("Step time")
        st.altair_chart(charts.step_time(path, decisions, at), key="step time")
    st.caption(
        "The grey lines are for whole blocks with the host overlapped; markers are priced as each "
        "scheduler drafts and waits, so they may lie off the line. K best survivals lie on it, "
        "any other K drafts below."
    )
    st.subheader("What each admits and why")
    st.dataframe(_table(decisions), hide_index=True)
    st.markdown("\n".join(f"- **{plain(d.scheduler)}**: {plain(d.reason)}" for d in decisions))
    chosen = widgets.segmented(
        st,
        "Drafts, one by one, of",
        schedulers,
        best.scheduler,
        key="cells of",
    )
    shown = next(d for d in decisions if d.scheduler == chosen)
    st.altair_chart(charts.cells(heat(batch, shown)), key="cells")
    st.caption("The stronger the colour, the higher the survival.")


def _step(path: Path, at: int) -> str:
    """What the draft that makes K = ``at`` is, and what it does to the step."""
    runs = (
        f"{path.batch_tokens[at]:,} batch tokens run as {path.padded_tokens[at]:,} "
        f"in {path.seconds[at] * 1e3:.3f} ms"
    )
    if not at:
        return f"No draft: {runs}, Θ = {path.theta[0]:,.0f} tok/s."
    before, after = path.theta[at - 1], path.theta[at]
    word = "rises" if after > before else "falls" if after < before else "stays"
    return (
        f"Draft {at}: position {path.position[at - 1] + 1} of request {path.request[at - 1] + 1}, "
        f"survival {path.survival[at - 1]:.3f}. {runs}; Θ {word} from {before:,.0f} to "
        f"{after:,.0f} tok/s."
    )


def _table(decisions: list[Decision]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "scheduler": d.scheduler,
                "drafts K": d.drafts,
                "batch tokens": d.batch_tokens,
                "runs as": d.padded_tokens,
                "step (ms)": round(d.seconds * 1e3, 3),
                "expected tokens": round(d.expected_tokens, 1),
                "Θ (tok/s)": round(d.theta),
                "tokens in fact": d.kept_tokens,
            }
            for d in decisions
        ]
    )
