"""Calibration: are the survivals honest, and what temperatures make them so."""

from __future__ import annotations

import msgspec
import numpy as np
import pandas as pd
import streamlit as st

from app import widgets
from app.charts import calibration as charts
from app.scene import Scene, library, trace_of
from workbench.calibration import Calibration, fit_calibration
from workbench.calibration.document import CalibrationDocument, Requests, sglang_table
from workbench.calibration.evaluate import PositionReport, evaluate
from workbench.calibration.sample import split

_SHARE = 0.5  # of the requests, to fit on


def page(scene: Scene) -> None:
    """Draw the page."""
    st.title("Calibration")
    st.caption(
        "Sequential temperature scaling (DSpark): per position, the temperature that makes the "
        "survival a_k = c_1·…·c_k honest. Fitted on half of the requests, judged on the other."
    )
    label = scene.labels[0]
    if len(scene.labels) > 1:
        label = widgets.segmented(st, "Trace", scene.labels, label, key="calibrated")
    seed = int(widgets.number(st, "Seed of the split", 0, 10_000, 0, key="split"))
    choice = library("traces").choices()[label]
    with st.spinner("Fitting"):
        calibration, reports, document, rows = _fitted(
            label, str(choice.path), choice.version, seed
        )
    left, right = st.columns(2)
    with left:
        st.subheader("Calibration error")
        st.altair_chart(charts.errors(reports), key="errors")
    with right:
        st.subheader("Reliability")
        position = (
            widgets.slider(st, "Draft position, k", 1, len(reports), 1, key="calibrated k")
            if len(reports) > 1
            else reports[0].position
        )
        st.altair_chart(charts.reliability(reports[position - 1]), key="reliability")
    st.dataframe(_table(reports), hide_index=True)
    edge = [str(report.position) for report in reports if report.at_edge]
    if edge:
        st.caption(
            f"At position {', '.join(edge)} the temperature ends at the edge of the grid, so it is "
            "no measurement: see by the Brier score whether it helps."
        )
    with st.container(horizontal=True):
        for text, value, name in (
            ("For simulate --calibration", document, "calibration.json"),
            ("STS table of SGLang", sglang_table(calibration, reports, rows), "sts.json"),
        ):
            data = msgspec.json.format(msgspec.json.encode(value), indent=1)
            st.download_button(
                text, data, name, "application/json", icon=":material/download:", on_click="ignore"
            )


@st.cache_resource(show_spinner=False, max_entries=16)
def _fitted(
    label: str, path: str, version: int, seed: int
) -> tuple[Calibration, list[PositionReport], CalibrationDocument, int]:
    trace = trace_of(library("traces").choices()[label])
    fit_half, held_out = split([trace], _SHARE, np.random.default_rng(seed))
    calibration = fit_calibration(fit_half, fitted_on=label)
    reports = evaluate(held_out, calibration)
    document = CalibrationDocument(
        temperatures=list(calibration.temperatures),
        at_edge=[report.at_edge for report in reports],
        traces=[label],
        target=trace.header.target,
        drafter=trace.header.drafter,
        requests=Requests(fit=fit_half.requests, held_out=held_out.requests),
        split=_SHARE,
        seed=seed,
        ece_before=[report.before.survival_ece for report in reports],
        ece_after=[report.after.survival_ece for report in reports],
    )
    return calibration, reports, document, fit_half.rows


def _table(reports: list[PositionReport]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "k": r.position,
                "temperature": round(r.temperature, 3),
                "judged": r.judged,
                "ECE before (%)": round(100 * r.before.survival_ece, 2),
                "ECE after (%)": round(100 * r.after.survival_ece, 2),
                "AUC before": round(r.before.auc, 3),
                "AUC after": round(r.after.auc, 3),
                "Brier before": round(r.before.brier, 4),
                "Brier after": round(r.after.brier, 4),
            }
            for r in reports
        ]
    )
