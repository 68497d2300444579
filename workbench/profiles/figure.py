"""The SPS staircase: steps per second against batch tokens, as data and as a drawing."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from workbench.errors import InputError
from workbench.files import atomic_write
from workbench.profiles.cost import StepCost

_SUFFIXES = (".png", ".svg", ".pdf")


@dataclass(slots=True)
class Staircase:
    """Arrays of the figure. Only the forward pass: no attention, draft pass or host."""

    name: str
    batch_tokens: np.ndarray  # [n] 1..n
    steps_per_second: np.ndarray  # [n] as charged: padded, past the last captured size eager
    captured: np.ndarray  # bool [n], whether a captured graph runs the step
    probe_tokens: np.ndarray  # [m] where the verify curve and the eager curve were measured
    probe_steps_per_second: np.ndarray  # [m]
    last_captured: int | None


def staircase(cost: StepCost, most: int | None = None) -> Staircase:
    """The staircase of a profile for 1..most batch tokens (default: the last measured point)."""
    verify, graphs = cost.profile.verify, cost.profile.graphs
    probes = list(zip(verify.batch_tokens, verify.seconds, strict=True))
    last = cost.last_captured
    if graphs is not None and graphs.beyond is not None:
        probes = [(n, s) for n, s in probes if n <= last]
        probes += zip(graphs.beyond.batch_tokens, graphs.beyond.seconds, strict=True)
    most = most or max([n for n, _ in probes] + [last or 1])
    tokens = np.arange(1, most + 1)
    shown = [(n, s) for n, s in probes if n <= most]
    return Staircase(
        name=cost.profile.name,
        batch_tokens=tokens,
        steps_per_second=1.0 / cost.verify_table(most)[1:],
        captured=tokens <= last if last is not None else np.zeros(most, bool),
        probe_tokens=np.array([n for n, _ in shown], np.int64),
        probe_steps_per_second=np.array([1.0 / s for _, s in shown]),
        last_captured=last,
    )


def draw_staircase(data: Staircase, path: str | os.PathLike) -> None:
    """Draw it into a .png, .svg or .pdf file. Raises InputError for another suffix."""
    suffix = Path(path).suffix.lower()
    if suffix not in _SUFFIXES:
        raise InputError(
            f"no plot format '{suffix}'", file=path, mend=f"end it in {', '.join(_SUFFIXES)}"
        )
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    x, y = data.batch_tokens, data.steps_per_second
    if data.captured.any():
        graph = data.captured
        axes.plot(x[graph], y[graph], drawstyle="steps-pre", label="CUDA graphs, padded")
        if not graph.all():
            axes.plot(x[~graph], y[~graph], "--", color="C3", label="past the last graph")
    else:
        axes.plot(x, y, label="verify curve (no graphs in the profile)")
    axes.plot(
        data.probe_tokens, data.probe_steps_per_second, "k.", markersize=3, label="measured points"
    )
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("batch tokens B")
    axes.set_ylabel("steps per second, forward pass only (1/s)")
    axes.set_title(data.name, parse_math=False)
    axes.grid(alpha=0.3)
    axes.legend()
    # fixed ids and no dates: the same profile gives the same bytes
    metadata = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    with rc_context({"svg.hashsalt": "workbench"}), atomic_write(path) as file:
        figure.savefig(file, format=suffix[1:], dpi=150, metadata=metadata[suffix])
