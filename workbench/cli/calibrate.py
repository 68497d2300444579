"""``workbench calibrate``: temperatures that make a drafter's confidences honest."""

from __future__ import annotations

import math
from collections.abc import Sequence

import click
import numpy as np
from rich import box
from rich.table import Table

from workbench.calibration import fit_calibration
from workbench.calibration.document import CalibrationDocument, Requests, sglang_table
from workbench.calibration.evaluate import PositionReport, evaluate, mean_known
from workbench.calibration.sample import split
from workbench.cli.console import make_console, write_json
from workbench.cli.values import Number
from workbench.files import check_outputs, resolve
from workbench.traces import Trace, read_trace
from workbench.traces.reading import SUFFIXES

REPORT_FORMAT = "workbench.calibrate/1"
WORSE = 2e-3  # of a Brier score; less is a slip of the grid or the split


@click.command()
@click.option(
    "--trace",
    "names",
    multiple=True,
    required=True,
    metavar="T",
    help="Trace file or name of a shipped one; may be repeated, for traces of one drafter.",
)
@click.option("--out", metavar="FILE.json", help="Write the calibration, for simulate.")
@click.option("--sglang", metavar="OUT.json", help="Write it as the STS table that SGLang reads.")
@click.option("--plot", metavar="OUT.png", help="Draw reliability diagrams (.png, .svg, .pdf).")
@click.option(
    "--split",
    "share",
    type=Number(0, 1, min_open=True, max_open=True),
    default=0.5,
    show_default=True,
    help="Share of the requests to fit on; the rest is held out and reported on.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the split.")
@click.option("--json", "json_out", metavar="OUT", help="Write the report as JSON; - is stdout.")
def command(names, out, sglang, plot, share, seed, json_out):
    """Fit sequential temperature scaling, and say on held-out requests what it does.

    From the first draft position to the last, the temperature of 41 in 0.1..10 is taken that
    minimises the expected calibration error of the survival a_k = c_1·…·c_k.
    """
    names = list(dict.fromkeys(names))
    paths = [resolve(name, "traces", SUFFIXES) for name in names]
    outputs = {"--out": out, "--sglang": sglang, "--plot": plot, "--json": json_out}
    check_outputs(outputs, paths, streams=("--json",))
    if plot is not None:
        from workbench.report.frontier_plot import check_suffix

        check_suffix(plot)
    traces = [read_trace(name) for name in names]
    fit_half, held_out = split(traces, share, np.random.default_rng(seed))
    calibration = fit_calibration(fit_half, fitted_on=", ".join(t.name for t in traces))
    reports = evaluate(held_out, calibration)
    document = CalibrationDocument(
        temperatures=list(calibration.temperatures),
        at_edge=[report.at_edge for report in reports],
        traces=[trace.name for trace in traces],
        target=_all(trace.header.target for trace in traces),
        drafter=_all(trace.header.drafter for trace in traces),
        requests=Requests(fit=fit_half.requests, held_out=held_out.requests),
        split=share,
        seed=seed,
        ece_before=[report.before.survival_ece for report in reports],
        ece_after=[report.after.survival_ece for report in reports],
    )
    if out is not None:
        write_json(out, document)
    if sglang is not None:
        write_json(sglang, sglang_table(calibration, reports, fit_half.rows))
    if plot is not None:
        _draw(plot, document, reports)
    notes = _notes(traces, reports)
    if json_out is not None:
        report = {
            "format": REPORT_FORMAT,
            "calibration": document,
            "mean_ece_before": mean_known(document.ece_before),
            "mean_ece_after": mean_known(document.ece_after),
            "positions": reports,
            "notes": notes,
        }
        write_json(json_out, report)
    if json_out != "-":
        _print(document, reports, notes)


def _draw(path: str, document: CalibrationDocument, reports: list[PositionReport]) -> None:
    # drawing libraries take longest to load
    from workbench.calibration.diagram import reliability_diagram
    from workbench.report.frontier_plot import write_plot

    title = f"{', '.join(document.traces)}: {document.requests.held_out:,} held-out requests"
    write_plot(path, reliability_diagram(reports, title))


def _all(values) -> str:
    return ", ".join(dict.fromkeys(value for value in values if value))


def _notes(traces: Sequence[Trace], reports: list[PositionReport]) -> list[str]:
    notes = []
    for what in ("target", "drafter", "confidence_sees"):
        found = dict.fromkeys(getattr(trace.header, what) for trace in traces)
        if len(found) > 1:
            names = ", ".join(name or "not named" for name in found)
            notes.append(f"the traces differ in {what} ({names}): one calibration is for one")
    labels = {trace.name: trace.header.confidence for trace in traces}
    notes += [
        f"{name}: its confidences are not raw but '{label}'; apply the result to such ones"
        for name, label in labels.items()
        if label not in ("", "raw")
    ]
    edge = ", ".join(str(report.position) for report in reports if report.at_edge)
    if edge:
        notes.append(
            f"position {edge}: the temperature ends at the edge of the grid, so it is no "
            "measurement"
        )
    worse = [r.position for r in reports if r.after.brier > r.before.brier + WORSE]
    if worse:
        named = ", ".join(map(str, worse))
        notes.append(
            f"position {named}: the Brier score of c_k got worse on the held-out half, "
            "whatever the ECE says"
        )
    blind = [report.position for report in reports if not report.rows]
    if blind:
        notes.append(f"no block tells of position {blind[0]} and later")
    return notes


def _print(document: CalibrationDocument, reports: list[PositionReport], notes: list[str]) -> None:
    console = make_console(wide=80)
    requests = document.requests
    table = Table(box=box.SIMPLE)
    for label in ("k", "T", "judged", "ECE a_k", "after", "AUC c_k", "after", "Brier", "after"):
        table.add_column(label, justify="right")
    for r in reports:
        table.add_row(
            str(r.position),
            f"{r.temperature:.3f}" + "!" * r.at_edge,
            f"{r.judged:,}",
            _percent(r.before.survival_ece),
            _percent(r.after.survival_ece),
            *(_number(value) for value in (r.before.auc, r.after.auc)),
            *(_number(value) for value in (r.before.brier, r.after.brier)),
        )
    console.print(
        f"{', '.join(document.traces)}: fitted on {requests.fit:,} requests, "
        f"reported on {requests.held_out:,} held out",
        style="bold",
    )
    console.print(table)
    for note in notes:
        console.print(f"note: {note}")
    console.print(
        "c_k → σ(logit(c_k) / T). ECE of a_k = c_1·…·c_k over all blocks; AUC and Brier\n"
        "score of c_k over the judged: tokens 1..k-1 passed. !: edge of the grid.",
        style="dim",
    )
    console.print(
        f"mean ECE of survival: {_percent(mean_known(document.ece_before))} before, "
        f"{_percent(mean_known(document.ece_after))} after"
    )


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3f}"


def _percent(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2%}"
