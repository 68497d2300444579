"""Tune: search schedulers, their parameters and engine limits for the best at one load."""

from __future__ import annotations

import streamlit as st

from app import widgets
from app.charts import tuning as charts
from app.files import Choice
from app.guard import guarded, plain
from app.scene import Scene, library
from app.tuning import Study, command
from workbench.errors import InputError
from workbench.frontier.objectives import OBJECTIVES
from workbench.frontier.problem import Problem
from workbench.frontier.space import (
    MEASURED,
    Deployments,
    Space,
    default_families,
    drafts_blocks,
)
from workbench.serving import Arm, Load

_RUNNING = (8, 16, 32, 64, 128, 256, 512, 1024)
_BUDGETS = (512, 1024, 2048, 4096, 8192, 16384)
_MOST_LIMIT = 10**6
_EVERY = 1.0  # seconds between drawings


def page(scene: Scene) -> None:
    """Draw the page."""
    st.title("Tune")
    st.caption(
        "An Optuna study over schedulers, their parameters, drafts per block, running requests "
        "and token budget, at one load. For studies that are kept or shared between machines: "
        "`workbench tune`."
    )
    problem, trials = _problem(scene)
    study: Study | None = st.session_state.get("study")
    running = study is not None and not study.finished

    def start() -> None:
        st.session_state["study"] = Study(problem, scene.demand, trials, *_inputs(scene))

    st.button(
        "Start", type="primary", icon=":material/play_arrow:", disabled=running, on_click=start
    )
    if study is None:
        st.info(
            f"No study yet. Start simulates {trials} configurations, which goes on while you look "
            "at other pages."
        )
        return

    @st.fragment(run_every=_EVERY if running else None)
    def board() -> None:
        if running and study.finished:
            st.rerun()
        with st.container():
            _state(study, running)
        _results(study)

    guarded(board)()


def _problem(scene: Scene) -> tuple[Problem, int]:
    left, middle, right = st.columns(3)
    users = int(widgets.number(left, "Users at once", 1, 4096, 64, key="tune users"))
    trials = int(widgets.number(middle, "Trials", 1, 1000, 60, key="tune trials"))
    seed = int(widgets.number(right, "Seed", 0, 2**31, 0, key="tune seed"))
    able = [name for name in OBJECTIVES if name != "usd"]
    if scene.profile.power is None:
        able.remove("energy")
    objectives = widgets.multiselect(
        st, "To be good, the most important first", able, ["throughput", "speed"], key="objective"
    )
    if not objectives:
        raise InputError("no objective is chosen", place="Tune", mend="choose at least one")
    speed, ttft, tpot = st.columns(3)
    limits = {
        "speed": float(_limit(speed, "Mean speed ≥ (tok/s/user; 0: any)", 0, "at least")),
        "ttft": _limit(ttft, "TTFT p99 ≤ (ms; 0: any)", 0, "ttft limit") / 1e3,
        "tpot": _limit(tpot, "TPOT p99 ≤ (ms; 0: any)", 0.0, "tpot limit") / 1e3,
    }
    population, blocks = scene.population, tuple(range(1, scene.gamma + 1))
    families = default_families(
        population.confidence is not None, population.confidence_sees, population.temperature
    )
    if not any(drafts_blocks(family) for family in families):
        blocks = ()
    space = Space(families, scene.gamma, _RUNNING, _BUDGETS, (MEASURED,), blocks)
    load = Load(concurrency=users, stagger=True)
    problem = Problem(
        space,
        Deployments(Arm(families[0], scene.cost), scene.profile, scene.gamma),
        load,
        seed,
        scene.demand.count(load),
        tuple(objectives),
        {name: limit for name, limit in limits.items() if limit},
    )
    return problem, trials


def _limit(place, label: str, none, key: str):
    return widgets.number(place, label, none, type(none)(_MOST_LIMIT), none, key=key)


def _state(study: Study, running: bool) -> None:
    if study.error:
        st.error(plain(study.error), icon=":material/error:")
    counts = study.counts()
    said = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    if running:
        left, right = st.columns([5, 1])
        left.progress(study.done / study.trials, f"{study.done} of {study.trials} trials; {said}")
        right.button("Stop", key="stop study", on_click=study.cancel, width="stretch")
    else:
        st.caption(f"{'Ended early' if study.cancelled else 'Finished'}: {said or 'no trial'}.")


def _results(study: Study) -> None:
    found, best = study.found(), study.pareto()
    if not found:
        return
    objectives = study.problem.objectives
    st.altair_chart(charts.trials(objectives, found, best), key="trials")
    st.caption("Ringed: no trial is better in all objectives. Hollow: misses a limit.")
    if not best:
        st.warning("No configuration was found that keeps all limits.")
        return
    st.subheader("The best")
    st.dataframe(charts.table(objectives, best).drop(columns="limits"), hide_index=True)
    line = command(study.problem, best[0], study.traces, study.profile)
    st.code(line, language="bash", wrap_lines=True)
    st.caption(
        f"The best by {objectives[0]}, to simulate again. Give the file of a profile or trace that "
        "was uploaded."
    )


def _inputs(scene: Scene) -> tuple[list[str], str]:
    """Traces and profile as the command line takes them."""
    known, share = library("traces").choices(), scene.demand.weights
    traces = [
        _named(known[label]) + (f":{weight:g}" if len(share) > 1 else "")
        for label, weight in zip(scene.labels, share, strict=True)
    ]
    return traces, scene.profile.name


def _named(choice: Choice) -> str:
    return choice.label if " · " not in choice.label else choice.path.name
