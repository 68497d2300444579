"""Export: what was found, as the settings of an engine."""

from __future__ import annotations

import streamlit as st

from app import widgets
from app.controls import Choices, choices, sweep_of
from app.engine_config import BY_BATCH, ENGINES, batch_table, export
from app.live import live
from app.scene import Scene
from workbench.report.comparison import by_load, winner
from workbench.schedulers import create


def page(scene: Scene) -> None:
    """Draw the page."""
    st.title("Export")
    st.caption("The winner at your load, as the flags and files of an engine.")
    chosen = choices(scene)
    live(
        sweep_of(scene, chosen),
        lambda runs: _board(scene, chosen, runs),
        lambda: st.info("The first points are being simulated."),
    )
    for note in scene.notes():
        st.caption(f":material/info: {note}")


def _board(scene: Scene, chosen: Choices, runs: list[dict]) -> None:
    groups = by_load(runs)
    names = list(groups)
    at = names[0]
    if len(names) > 1:
        at = widgets.select_slider(st, "Your load", names, names[len(names) // 2], key="my load")
    mine = [run for run in groups[at] if run["lossless"]] or groups[at]
    best = _best(mine, chosen)
    st.markdown(f":material/trophy: {winner(mine)}".replace("wins", "**wins**"))
    left, right = st.columns(2)
    engine = widgets.segmented(left, "Engine", ENGINES, ENGINES[0], key="engine")
    options = [spec for spec in chosen.schedulers if create(spec, scene.gamma).reads != "outcomes"]
    table = None
    fixed = {} if chosen.open_loop else _fixed(scene, runs)
    if fixed and engine == "vLLM":
        options.append(BY_BATCH)
        table = batch_table(fixed, chosen.options.max_running)
    if not options:
        st.info("Only schedulers that see the future are compared: none can be deployed.")
        return
    default = best if best in options else options[0]
    spec = widgets.selectbox(right, "Scheduler", options, default, key="export")
    population = scene.population
    context = float(population.prompt.mean() + population.output.mean() / 2)
    config = export(
        engine, spec, scene.cost, scene.gamma, chosen.options, context=context, table=table
    )
    st.code(config.command, language="bash", wrap_lines=True)
    for name, text in config.files.items():
        with st.expander(name, icon=":material/description:"):
            st.code(text, language="json", height=260)
        st.download_button(
            name, text, name, "application/json", icon=":material/download:", on_click="ignore"
        )
    st.download_button(
        "Command",
        f"#!/bin/sh\n{config.command}\n",
        "serve.sh",
        "text/x-sh",
        icon=":material/download:",
        on_click="ignore",
    )
    for note in config.notes:
        st.caption(f":material/info: {note}")


def _best(runs: list[dict], chosen: Choices) -> str | None:
    able = [run for run in runs if not run["hindsight"] and not run.get("overloaded")]
    if not able:
        return None
    if chosen.open_loop:
        return max(able, key=lambda run: run["speed_tok_s_user"]["mean"] or 0)["scheduler"]
    return max(able, key=lambda run: run["throughput_tok_s_gpu"] or 0)["scheduler"]


def _fixed(scene: Scene, runs: list[dict]) -> dict[int, int]:
    """The best fixed k by users at once."""
    best: dict[int, tuple[float, int]] = {}
    for run in runs:
        k = create(run["scheduler"], scene.gamma).uniform
        if k is not None:
            figure = (run["throughput_tok_s_gpu"] or 0.0, k)
            best[run["concurrency"]] = max(best.get(run["concurrency"], figure), figure)
    return {users: k for users, (_, k) in best.items()}
