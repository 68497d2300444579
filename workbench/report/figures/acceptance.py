"""Figure 2: conditional acceptance by draft position, a panel per domain, a line per drafter."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from workbench.report.figures import published
from workbench.report.figures.made import Made, canvas
from workbench.traces import Trace
from workbench.traces.rounds import judged, rounds_of

_LOOKS = {"dspark": ("#D55E00", "D", "DSpark"), "dflash": ("#0072B2", "o", "DFlash")}
_OTHERS = ("#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def family(drafter: str) -> str:
    """``dspark-markov`` → ``dspark``: how the paper's values name it."""
    return drafter.partition("-")[0].lower()


def conditional_acceptance(trace: Trace) -> list[dict[str, float]]:
    """By position k: P(token k passes | 1..k−1 passed) over the rounds of full verification.

    ``judged`` counts such rounds; ``error`` is the standard error with requests as clusters (of a
    ratio of sums over requests), NaN for one request.
    """
    rounds = np.zeros(trace.rows, bool)
    rounds[rounds_of(trace).row] = True
    request = trace.row_request()
    found = []
    for k in range(1, trace.block_size + 1):
        rows = judged(trace, k) & rounds
        tried = np.bincount(request[rows], minlength=trace.requests)
        passed = np.bincount(request[rows & (trace.accepted >= k)], minlength=trace.requests)
        total, n = int(tried.sum()), int((tried > 0).sum())
        share = float(passed.sum() / total) if total else float("nan")
        scatter = float(((passed - share * tried) ** 2).sum())
        error = (scatter * n / (n - 1)) ** 0.5 / total if n > 1 else float("nan")
        found.append({"position": k, "judged": total, "acceptance": share, "error": error})
    return found


def acceptance_figure(traces: Mapping[str, Mapping[str, Trace]]) -> Made:
    """traces: by domain and drafter. Bars are two standard errors; dashed: the paper's Qwen3-4B."""
    figure = canvas(3.7 * len(traces) + 0.4, 3.6)
    panels = figure.subplots(1, len(traces), squeeze=False, sharey=True)[0]
    numbers: dict = {}
    most = max(trace.block_size for some in traces.values() for trace in some.values())
    table = [("", *(f"k = {k}" for k in range(1, most + 1)))]
    for panel, (domain, drafters) in zip(panels, traces.items(), strict=True):
        numbers[domain] = {}
        for index, (drafter, trace) in enumerate(drafters.items()):
            found = conditional_acceptance(trace)
            paper = published.acceptance(family(drafter), domain)
            numbers[domain][drafter] = {"positions": found, "paper": paper}
            other = (_OTHERS[index % len(_OTHERS)], "s", drafter)
            colour, marker, label = _LOOKS.get(family(drafter), other)
            panel.errorbar(
                [one["position"] for one in found],
                [one["acceptance"] for one in found],
                yerr=[2 * one["error"] for one in found],
                color=colour,
                marker=marker,
                markersize=4.5,
                label=label,
            )
            table.append(_row(f"{domain}, {label}", [one["acceptance"] for one in found], most))
            if paper:
                places = range(1, len(paper) + 1)
                panel.plot(places, paper, color=colour, linestyle=(0, (4, 3)), alpha=0.55)
                table.append(_row(f"{domain}, {label}, paper", paper, most))
        panel.set_title(domain, fontsize=10, parse_math=False)
        panel.set_xlabel("draft position k")
        panel.set_xticks(range(1, most + 1))
        panel.set_ylim(0, 1)
        panel.grid(alpha=0.25)
    panels[0].set_ylabel("P(k passes | 1..k−1 passed)")
    panels[0].plot([], [], color="#7F7F7F", linestyle=(0, (4, 3)), label="paper, Qwen3-4B")
    panels[0].legend(fontsize=8, frameon=False, loc="lower left")
    return Made("figure-2-acceptance", figure, numbers, table)


def _row(name: str, values: list[float], columns: int) -> tuple[str, ...]:
    cells = [f"{value:.3f}" for value in values]
    return (name, *cells, *[""] * (columns - len(cells)))
