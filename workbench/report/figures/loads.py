"""Figures 7 and 8: the frontier by domain, and throughput and budget against concurrency."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.frontier import GroupFrontier
from workbench.frontier.sla import SlaRow
from workbench.report.figures.made import Made
from workbench.report.frontier_plot import frontier_plot
from workbench.report.load_plot import load_plot


def frontier_figure(groups: Sequence[GroupFrontier]) -> Made:
    """A panel per group; the table has the best lossless scheduler at each SLA anchor."""
    numbers = {group.name: _frontier_numbers(group) for group in groups}
    base = groups[0].baseline
    table = [
        (
            "",
            "tok/s/user",
            "best",
            "tok/s/GPU",
            f"over {base}",
            "tok/s/user at its throughput",
            f"over {base}",
        )
    ]
    for group in groups:
        able = {one.scheduler for one in group.schedulers if one.lossless and not one.hindsight}
        for anchor, rows in group.sla.items():
            reached = [row for row in rows if row.throughput and row.scheduler in able]
            if not reached:
                table.append((group.name, f"{anchor:g}", "not reachable", "", "", "", ""))
                continue
            best = max(reached, key=lambda row: row.throughput.mean)
            table.append((group.name, f"{anchor:g}", best.scheduler, *_sla_cells(best)))
    return Made("figure-7-frontier", frontier_plot(groups), numbers, table)


def _sla_cells(row: SlaRow) -> tuple[str, ...]:
    def gain(figure) -> str:
        return "–" if figure is None else ("~" if figure.edge else "") + f"{figure.mean:+.1%}"

    matched = "–" if row.matched is None else f"{row.matched.mean:.1f}"
    edge = "≥" if row.throughput.edge else ""
    throughput = f"{edge}{row.throughput.mean:,.0f}"
    return throughput, gain(row.throughput_gain), matched, gain(row.speed_gain)


def _frontier_numbers(group: GroupFrontier) -> dict:
    return {
        "baseline": group.baseline,
        "schedulers": {
            one.scheduler: {
                "points": _points(one),
                "frontier": {
                    "speed_tok_s_user": one.curve.speed.tolist(),
                    "throughput_tok_s_gpu": one.curve.throughput.tolist(),
                },
            }
            for one in group.schedulers
        },
    }


def _points(one) -> list[dict]:
    def mean(band) -> float | None:
        return None if band is None else band.mean

    return [
        {
            **point.load,
            "speed_tok_s_user": mean(point.speed),
            "throughput_tok_s_gpu": mean(point.throughput),
            "verification_budget": mean(point.verification_budget),
            "accepted_length": mean(point.accepted_length),
        }
        for point in one.points
    ]


def load_figure(group: GroupFrontier) -> Made:
    """One group; the table has throughput of every scheduler, and the budgets of adaptive ones."""
    numbers = {one.scheduler: _points(one) for one in group.schedulers}
    chosen = [name for name in numbers if name != "none" and not name.startswith("static:")]
    heads = [f"{name}, tok/s/GPU" for name in numbers]
    table = [("users", *heads, *(f"{name}, budget" for name in chosen))]
    for index, point in enumerate(group.schedulers[0].points):
        throughput = [_cell(numbers[name][index]["throughput_tok_s_gpu"], 0) for name in numbers]
        budget = [_cell(numbers[name][index]["verification_budget"], 2) for name in chosen]
        table.append((str(point.load["concurrency"]), *throughput, *budget))
    return Made("figure-8-load", load_plot(group), numbers, table)


def _cell(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"
