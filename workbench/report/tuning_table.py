"""The configurations of a tuning study that no other beats, as a table."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from workbench.frontier.objectives import OBJECTIVES
from workbench.frontier.problem import Found


def pareto_table(objectives: Sequence[str], best: Sequence[Found]) -> Table:
    """A row per configuration, with its objectives and what a user feels."""
    table = Table(box=None, padding=(0, 0, 0, 1), header_style="bold")
    table.add_column("\nscheduler", no_wrap=True)
    shorter = any(one.chosen.block_size for one in best)
    heads = ["drafts\na block"] if shorter else []
    heads += ["max\nrunning", "token\nbudget", "graph\nsizes"]
    heads += [f"{name}\n{OBJECTIVES[name].unit}" for name in objectives]
    heads += ["TTFT ms\np99", "TPOT ms\np99", "accepted\nlength"]
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    for one in best:
        figures = one.figures
        name = one.chosen.scheduler + ("" if figures["lossless"] else " (biased)")
        table.add_row(
            name,
            *([str(one.chosen.block_size or "all")] if shorter else []),
            f"{one.chosen.max_running:,}",
            f"{one.chosen.token_budget:,}",
            one.chosen.graph_sizes,
            *(number(value) for value in one.values),
            *(
                "–" if figures[field] is None else f"{figures[field] * 1e3:.1f}"
                for field in ("ttft_p99_s", "tpot_p99_s")
            ),
            "–" if figures["accepted_length"] is None else f"{figures['accepted_length']:.2f}",
        )
    return table


def number(value: float) -> str:
    """Four digits, or all before the point."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
