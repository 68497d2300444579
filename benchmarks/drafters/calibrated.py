"""Table of docs/calibration.md: what sequential temperature scaling does to the shipped traces."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.drafters.settings import DOMAINS, RECORDED, trace_name
from workbench.calibration import fit_calibration
from workbench.calibration.evaluate import PositionReport, evaluate, mean_known
from workbench.calibration.model import Calibration
from workbench.calibration.sample import split
from workbench.traces import Trace, read_trace

SHARPENED = 0.4  # of the overconfident copies


def half_and_half(traces: Sequence[Trace]) -> list[PositionReport]:
    """Fitted on one half of the requests, reported on the other: as `workbench calibrate` does."""
    fit_half, held_out = split(traces, 0.5, np.random.default_rng(0))
    return evaluate(held_out, fit_calibration(fit_half))


def sharpened(trace: Trace) -> Trace:
    """Its confidences become σ(logit(c) ÷ 0.4)."""
    copy = Calibration((SHARPENED,) * trace.block_size).apply(trace.confidence)
    return dataclasses.replace(trace, confidence=copy)


def calibrated() -> Iterator[tuple[str, ...]]:
    """Mean over positions of the ECE of a_k, held out, raw and after; overconfident copies too."""
    yield ("traces", "raw", "after", "overconfident", "after", "T at the edge")
    for kind, temperature in RECORDED:
        names = [trace_name(domain, kind, temperature) for domain in DOMAINS]
        for some in (*([name] for name in names), names):
            traces = [read_trace(name) for name in some]
            raw, copy = half_and_half(traces), half_and_half([sharpened(t) for t in traces])
            edges = ", ".join(f"{r.position}" for r in raw if r.at_edge)
            edges = f"k = {edges}" if edges else "–"
            yield (", ".join(some), *_means(raw), *_means(copy), edges)


def _means(reports: Sequence[PositionReport]) -> tuple[str, str]:
    before = mean_known([report.before.survival_ece for report in reports])
    after = mean_known([report.after.survival_ece for report in reports])
    return f"{before:.2%}", f"{after:.2%}"
