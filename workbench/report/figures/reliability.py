"""Figure 6: what confidences promise against what happens, before and after calibration."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from workbench.calibration import Calibration, fit_calibration
from workbench.calibration.diagram import reliability_diagram
from workbench.calibration.evaluate import PositionReport, Quality, Reliability, evaluate
from workbench.calibration.sample import Sample, split
from workbench.report.figures import published
from workbench.report.figures.made import Made
from workbench.traces import Trace
from workbench.traces.statistics import roc_auc

POSITIONS = (1, 3, 5, 7)
_LEAST_ROWS = 30
_PAPER = {"before": "#D55E00", "after": "#0072B2"}  # as the diagram has them


def survival_auc(sample: Sample, calibration: Calibration, k: int) -> tuple[float, float]:
    """ROC-AUC of a_k for "the prefix 1..k passes", raw and calibrated."""
    known = sample.survival_rows(k)
    passed = sample.accepted[known] >= k
    raw = sample.confidence[known, :k].astype(np.float64)
    mended = calibration.apply(sample.confidence)[known, :k].astype(np.float64)
    return roc_auc(raw.prod(axis=1), passed), roc_auc(mended.prod(axis=1), passed)


def reliability_figure(traces: Mapping[str, Trace], shown: str, seed: int = 0) -> Made:
    """traces: by domain, of one drafter; ``shown``: the domain that is drawn.

    Each domain is calibrated on half of its requests and judged on the others. Bins of fewer than
    30 blocks are not drawn, but count in the errors. Dashed: the paper's Qwen3-4B on Alpaca.
    """
    numbers: dict = {}
    table = [
        ("", "k", "T", "ECE before", "after", "AUC of a_k", "paper: ECE before", "after", "AUC")
    ]
    for domain, trace in traces.items():
        fit_half, held_out = split([trace], 0.5, np.random.default_rng(seed))
        calibration = fit_calibration(fit_half, fitted_on=trace.name)
        reports = [one for one in evaluate(held_out, calibration) if one.position in POSITIONS]
        numbers[domain] = []
        for one in reports:
            raw, mended = survival_auc(held_out, calibration, one.position)
            numbers[domain].append(
                {
                    "position": one.position,
                    "temperature": one.temperature,
                    "at_edge": one.at_edge,
                    "rows": one.rows,
                    "ece_before": one.before.survival_ece,
                    "ece_after": one.after.survival_ece,
                    "auc_before": raw,
                    "auc_after": mended,
                    "before": _bins(one.before.reliability),
                    "after": _bins(one.after.reliability),
                    "paper": published.stated(one.position) if domain == shown else None,
                }
            )
            table.append(_row(domain, numbers[domain][-1]))
        if domain == shown:
            title = f"{domain}: {held_out.requests} held-out requests; dashed: the paper's"
            figure = reliability_diagram([_thick(one) for one in reports], title)
            for panel, one in zip(figure.axes, reports, strict=False):
                _add_paper(panel, one.position)
    return Made("figure-6-reliability", figure, numbers, table)


def _thick(report: PositionReport) -> PositionReport:
    """The report without bins of too few blocks to be a share."""

    def without(quality: Quality) -> Quality:
        bins = quality.reliability
        kept = [i for i, rows in enumerate(bins.rows) if rows >= _LEAST_ROWS]
        columns = {name: [getattr(bins, name)[i] for i in kept] for name in bins.__struct_fields__}
        return msgspec.structs.replace(quality, reliability=Reliability(**columns))

    return msgspec.structs.replace(
        report, before=without(report.before), after=without(report.after)
    )


def _bins(bins: Reliability) -> dict:
    return {"predicted": bins.predicted, "observed": bins.observed, "rows": bins.rows}


def _add_paper(panel, position: int) -> None:
    for when, colour in _PAPER.items():
        predicted, observed = published.reliability(position, when)
        panel.plot(predicted, observed, color=colour, linestyle=(0, (3, 2)), linewidth=1, alpha=0.6)


def _row(domain: str, one: dict) -> tuple[str, ...]:
    paper = one["paper"] or {}
    return (
        domain,
        str(one["position"]),
        f"{one['temperature']:.2f}" + ("!" if one["at_edge"] else ""),
        f"{one['ece_before']:.1%}",
        f"{one['ece_after']:.1%}",
        f"{one['auc_before']:.3f}",
        f"{paper['ece_before']:.1%}" if paper else "",
        f"{paper['ece_after']:.1%}" if paper else "",
        f"{paper['auc']:.3f}" if paper else "",
    )
