"""Frontier: which scheduler gives most, at the speed that is promised to a user."""

from __future__ import annotations

import math

import pandas as pd
import streamlit as st

from app import widgets
from app.charts import sweep as charts
from app.controls import Choices, choices, sweep_of
from app.estimate import estimate
from app.link import TEXT, choose, texts
from app.live import live
from app.scene import Scene
from workbench.frontier import GroupFrontier, group_frontier
from workbench.frontier.sla import Figure
from workbench.report.comparison import by_load, winner
from workbench.schedulers import create

_POINT = "point"  # its key in the link
_CLOSED = "points closed"  # in the session: how often


def page(scene: Scene) -> None:
    """Draw the page."""
    st.title("Frontier")
    st.caption(
        "Throughput of a GPU against the speed of a user, one line per scheduler, one point per "
        "load. Up and to the right is better."
    )
    chosen = choices(scene)
    sweep = sweep_of(scene, chosen)
    live(sweep, lambda runs: _board(scene, chosen, runs), lambda: _estimate(scene, chosen))
    for note in scene.notes():
        st.caption(f":material/info: {note}")


def _estimate(scene: Scene, chosen: Choices) -> None:
    frame = estimate(scene, chosen.schedulers, chosen.loads)
    if frame.empty:
        st.info("The first points are being simulated.")
        return
    st.altair_chart(charts.estimate(frame, chosen.schedulers), key="estimate")
    st.caption("A closed form for fixed draft lengths, until the first points are simulated.")


def _board(scene: Scene, chosen: Choices, runs: list[dict]) -> None:
    promised, patience = _promises(runs)
    kept = [run for run in runs if _in_time(run, patience)]
    frame = charts.table(runs)
    if not kept:
        st.warning(f"No point has a TTFT p99 up to {patience} ms: allow more.")
        return
    baseline = chosen.baseline if _has(kept, chosen.baseline) else kept[0]["scheduler"]
    group = group_frontier("", kept, baseline, [promised])
    shown = frame[frame["TTFT p99 (ms)"].fillna(0) <= (patience or math.inf)]
    logarithmic = widgets.toggle(st, "Logarithmic throughput", key="log")
    picked = _picked(shown)
    key = f"frontier {st.session_state.get(_CLOSED, 0)}"
    st.altair_chart(
        charts.frontier(shown, group, chosen.schedulers, promised, logarithmic, picked),
        key=key,
        on_select=lambda: _pick(st.session_state[key]["selection"].get(charts.PICK)),
        selection_mode=[charts.PICK],
    )
    st.caption(
        "Filled: on the scheduler's own frontier. Ringed: no point of any scheduler is better in "
        "both. Hover for the operating point, click to look into it; drag to "
        "move, Ctrl and wheel or pinch to zoom, double-click for all."
    )
    if picked:
        _drill(scene, chosen, shown, picked)
    _sla(group, promised, kept)
    with st.expander("Winner at each load", icon=":material/trophy:"):
        st.code("\n".join(winner(mine) for mine in by_load(kept).values()), language=None)
    with st.expander("All points", icon=":material/table:"):
        st.dataframe(frame, hide_index=True)
    st.download_button(
        "Points as CSV",
        frame.to_csv(index=False),
        "frontier.csv",
        "text/csv",
        icon=":material/download:",
        on_click="ignore",
    )


def _promises(runs: list[dict]) -> tuple[float, int]:
    """The sliders: tok/s/user promised, and the TTFT p99 that is allowed (ms, 0: any)."""
    speeds = [run["speed_tok_s_user"]["mean"] or 0 for run in runs]
    most = _round_up(max(speeds, default=100.0))
    left, right = st.columns(2)
    promised = widgets.slider(
        left,
        "Promised speed (tok/s/user)",
        1,
        most,
        max(1, round(0.35 * most)),
        key="sla",
        help="The SLA anchor: what can a GPU give while the mean user still has this speed?",
    )
    patience = widgets.slider(
        right, "TTFT p99 allowed (ms; 0: any)", 0, 2000, 0, key="ttft", step=10
    )
    return float(promised), int(patience)


def _round_up(value: float) -> int:
    """The next of 10, 20, 50, 100, …: so that the slider keeps its range while points come in."""
    size = 10 ** math.floor(math.log10(max(value, 10.0)))
    return next(int(step * size) for step in (1, 2, 5, 10) if step * size >= value)


def _in_time(run: dict, patience: int) -> bool:
    ttft = run["ttft_s"]["p99"]
    return not patience or ttft is None or ttft * 1e3 <= patience


def _has(runs: list[dict], scheduler: str) -> bool:
    return any(run["scheduler"] == scheduler for run in runs)


def _sla(group: GroupFrontier, anchor: float, runs: list[dict]) -> None:
    lossless = {run["scheduler"]: run["lossless"] for run in runs}
    base = group.baseline
    rows = [
        {
            "scheduler": row.scheduler,
            f"tok/s/GPU at {anchor:g} tok/s/user": _shown(row.throughput, ",.0f"),
            f"against {base}": _shown(row.throughput_gain, "+.1%", own=row.scheduler == base),
            f"tok/s/user at the throughput of {base}": _shown(row.matched, ",.1f"),
            f"faster than {base}": _shown(row.speed_gain, "+.1%", own=row.scheduler == base),
            "output": "lossless" if lossless[row.scheduler] else "biased",
        }
        for row in group.sla[anchor]
    ]
    st.subheader(f"At {anchor:g} tok/s/user")
    st.dataframe(pd.DataFrame(rows), hide_index=True)
    st.caption(
        "Interpolated on each scheduler's frontier. ≥: at the end of what was simulated, so at "
        "least that. –: not reachable by it or by the baseline."
    )


def _shown(figure: Figure | None, form: str, own: bool = False) -> str:
    if own:
        return "baseline"
    if figure is None:
        return "–"
    return ("≥ " if figure.edge else "") + format(figure.mean, form)


def _picked(frame: pd.DataFrame) -> tuple[str, float] | None:
    """The clicked point: its scheduler and load. It stands in the link as ``topk@64``."""
    scheduler, _, load = "".join(texts(_POINT)[-1:]).rpartition("@")
    places = zip(frame["scheduler"], frame["load"], strict=True)
    return next(((s, x) for s, x in places if s == scheduler and f"{x:g}" == load), None)


def _pick(points: list[dict] | None) -> None:
    """A click on a point picks it, one beside all points picks none."""
    one = points[0] if points else None
    choose(_POINT, TEXT, f"{one['scheduler']}@{one['load']:g}" if one else None)


def _close() -> None:
    _pick(None)
    # a new chart: the old one would take a click on the same point for no change
    st.session_state[_CLOSED] = st.session_state.get(_CLOSED, 0) + 1


def _drill(scene: Scene, chosen: Choices, frame: pd.DataFrame, picked: tuple[str, float]) -> None:
    """What one point is made of."""
    mine = frame[(frame["scheduler"] == picked[0]) & (frame["load"] == picked[1])]
    row = mine.iloc[0]
    with st.container(border=True):
        with st.container(horizontal=True, horizontal_alignment="distribute"):
            st.markdown(
                f"**{row['scheduler']}** at {row['load']:g} {row['load kind']}", width="content"
            )
            st.button("Close", icon=":material/close:", type="tertiary", on_click=_close)
        figures = (
            ("Throughput (tok/s/GPU)", row[charts.THROUGHPUT], ",.0f"),
            ("Speed (tok/s/user)", row[charts.SPEED], ",.1f"),
            ("TTFT p99 (ms)", row["TTFT p99 (ms)"], ",.1f"),
            ("Accepted length (tokens)", row["accepted length"], ".2f"),
            ("Verified per round (tokens)", row["verification budget"], ".2f"),
            ("Acceptance rate", row["acceptance rate"], ".1%"),
        )
        with st.container(horizontal=True, gap="medium"):
            for name, value, form in figures:
                shown = "–" if pd.isna(value) else f"{value:{form}}"
                st.metric(name, shown, width="content")
        if row["load kind"] == "users":
            _mean_step(scene, chosen, row)


def _mean_step(scene: Scene, chosen: Choices, row: pd.Series) -> None:
    scheduler = create(row["scheduler"], scene.gamma)
    requests = min(int(row["load"]), chosen.options.slots)
    budget = row["verification budget"] if pd.notna(row["verification budget"]) else 1.0
    batch = round(requests * budget)
    drafts = scene.gamma if scheduler.uniform is None else scheduler.uniform
    population = scene.population
    step = scene.cost.step_parts(
        requests=requests,
        batch_tokens=batch,
        mean_context=float(population.prompt.mean() + population.output.mean() / 2),
        draft_tokens=drafts,
        sync=scheduler.synchronous,
    )
    st.altair_chart(charts.parts(step._asdict()), key="step parts")
    padded = scene.cost.padded(batch)
    st.caption(
        f"A step without prefill: {requests} requests, {batch:,} batch tokens, run as {padded:,}: "
        f"{step.total * 1e3:.2f} ms."
    )
