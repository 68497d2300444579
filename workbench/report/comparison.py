"""One table that compares schedulers at each load, and the sentence that names the winner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text


@dataclass(frozen=True)
class Column:
    """A column of the comparison: where its value lies in a run and which value is best."""

    head: str
    value: Callable[[dict], float | None]
    form: str
    best: Callable | None = max
    scale: float = 1.0


COLUMNS = (
    Column("tok/s\n/GPU", lambda run: run["throughput_tok_s_gpu"], ",.0f"),
    Column("tok/s/user\nmean", lambda run: run["speed_tok_s_user"]["mean"], ".1f"),
    Column("\np10", lambda run: run["speed_tok_s_user"]["p10"], ".1f"),
    Column("TTFT ms\np50", lambda run: run["ttft_s"]["p50"], ",.1f", min, 1e3),
    Column("\np99", lambda run: run["ttft_s"]["p99"], ",.1f", min, 1e3),
    Column("TPOT ms\np50", lambda run: run["tpot_s"]["p50"], ".2f", min, 1e3),
    Column("\np99", lambda run: run["tpot_s"]["p99"], ".2f", min, 1e3),
    Column("accepted\nlength", lambda run: run["accepted_length"], ".2f"),
    Column("accept.\nrate %", lambda run: run["acceptance_rate"], ".1f", max, 1e2),
    Column("verify\nbudget", lambda run: run["verification_budget"], ".2f", min),
    Column("rejected\n% batch", lambda run: run["rejected_share"], ".1f", min, 1e2),
)


def load_name(run: dict) -> str:
    """How a run's load is called: ``concurrency 64``, ``rate 3/s``, ``arrivals trace``."""
    if "concurrency" in run:
        return f"concurrency {run['concurrency']}"
    return f"rate {run['rate']:g}/s" if "rate" in run else f"arrivals {run['arrivals']}"


def by_load(runs: list[dict]) -> dict[str, list[dict]]:
    """Runs grouped by load, in the order they came."""
    groups: dict[str, list[dict]] = {}
    for run in runs:
        groups.setdefault(load_name(run), []).append(run)
    return groups


def best_cells(runs: list[dict], column: Column) -> set[int]:
    """Indices of the runs that print the column's best value (ties as printed, not as stored)."""
    shown = {
        index: format(value * column.scale, column.form)
        for index, run in enumerate(runs)
        if (value := column.value(run)) is not None
    }
    if not shown or column.best is None:
        return set()
    best = column.best(float(text.replace(",", "")) for text in shown.values())
    return {index for index, text in shown.items() if float(text.replace(",", "")) == best}


def comparison_table(runs: list[dict]) -> Table:
    """The table: a section per load, a row per scheduler, the best value of a column marked *."""
    table = Table(box=None, padding=(0, 0, 0, 1), header_style="bold")
    table.add_column("\nscheduler", no_wrap=True)
    for column in COLUMNS:
        table.add_column(column.head, justify="right", no_wrap=True)
    for name, group in by_load(runs).items():
        table.add_row(Text(name, style="bold underline"))
        marks = [best_cells(group, column) for column in COLUMNS]
        for index, run in enumerate(group):
            cells = []
            for column, best in zip(COLUMNS, marks, strict=True):
                value = column.value(run)
                text = "–" if value is None else format(value * column.scale, column.form)
                marked = index in best
                cells.append(
                    Text(text + ("*" if marked else "\u00a0"), "bold green" if marked else "")
                )
            label = run["scheduler"] + ("" if run["lossless"] else " (biased)")
            table.add_row(f"  {label}", *cells)
    return table


def winner(runs: list[dict]) -> str:
    """One line on one load's runs: the best throughput among schedulers that could be deployed."""
    able = [run for run in runs if run["throughput_tok_s_gpu"] and not run["hindsight"]]
    if not able:
        return f"{load_name(runs[0])}: no scheduler that could be deployed was run"
    best = max(able, key=lambda run: run["throughput_tok_s_gpu"])
    parts = [
        f"{load_name(best)}: {best['scheduler']} wins with "
        f"{best['throughput_tok_s_gpu']:,.0f} tok/s/GPU"
    ]
    if (speed := best["speed_tok_s_user"]["mean"]) is not None:
        parts.append(f"at {speed:.1f} tok/s/user")
    others = [run for run in able if run is not best]
    if others:
        second = max(others, key=lambda run: run["throughput_tok_s_gpu"])
        parts.append(f"({_gain(best, second)}{_over_none(best, second, others)})")
    if not best["lossless"]:
        parts.append("but it biases the output")
    return " ".join(parts)


def _gain(best: dict, other: dict) -> str:
    gain = best["throughput_tok_s_gpu"] / other["throughput_tok_s_gpu"] - 1
    return f"{gain:+.1%} over {other['scheduler']}"


def _over_none(best: dict, second: dict, others: list[dict]) -> str:
    plain = next((run for run in others if run["scheduler"] == "none"), None)
    return f", {_gain(best, plain)}" if plain and plain is not second else ""
