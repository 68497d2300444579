"""One table that compares schedulers at each load, and the sentence that names the winner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table
from rich.text import Text


@dataclass(frozen=True)
class Column:
    """A column of the comparison: where its value lies in a run and which value is best."""

    head: str
    value: Callable[[dict], float | None]
    digits: int  # after the point; numbers below 10 get one more
    best: Callable = max
    scale: float = 1.0
    rank: int = 0  # on narrow terminals the highest ranks are left out first

    def text(self, run: dict) -> str | None:
        """The value as printed; None where there is none."""
        value = self.value(run)
        if value is None:
            return None
        value *= self.scale
        return format(value, f",.{self.digits + (abs(value) < 10 and self.digits < 2)}f")


def _goodput(name: str) -> Callable[[dict], float | None]:
    return lambda run: run["goodput"][name]


COLUMNS = (
    Column("tok/s\n/GPU", lambda run: run["throughput_tok_s_gpu"], 0),
    Column("tok/s/user\nmean", lambda run: run["speed_tok_s_user"]["mean"], 1),
    Column("\np10", lambda run: run["speed_tok_s_user"]["p10"], 1, rank=4),
    Column("TTFT ms\np50", lambda run: run["ttft_s"]["p50"], 1, min, 1e3, rank=2),
    Column("\np99", lambda run: run["ttft_s"]["p99"], 1, min, 1e3, rank=6),
    Column("TPOT ms\np50", lambda run: run["tpot_s"]["p50"], 2, min, 1e3, rank=5),
    Column("\np99", lambda run: run["tpot_s"]["p99"], 2, min, 1e3, rank=3),
    Column("accepted\nlength", lambda run: run["accepted_length"], 2, rank=1),
    Column("accept.\nrate %", lambda run: run["acceptance_rate"], 1, max, 1e2, rank=8),
    Column("verify\nbudget", lambda run: run["verification_budget"], 2, min, rank=7),
    Column("rejected\n% batch", lambda run: run["rejected_share"], 1, min, 1e2, rank=9),
)
# shown where a run has them
OPTIONAL = {
    "goodput": (
        Column("in SLO\n%", _goodput("attainment"), 1, max, 1e2),
        Column("goodput\nreq/s", _goodput("requests_per_s"), 2),
    ),
    "energy_j_token": (Column("J\n/token", lambda run: run["energy_j_token"], 2, min, rank=10),),
    "usd_per_million_tokens": (
        Column("$ per\nM tok", lambda run: run["usd_per_million_tokens"], 3, min),
    ),
}


def load_name(run: dict) -> str:
    """How a run's load is called: ``concurrency 64``, ``rate 3/s``, ``arrivals azure.csv``."""
    if "concurrency" in run:
        return f"concurrency {run['concurrency']}"
    if "rate" in run:
        return f"rate {run['rate']:g}/s"
    return f"arrivals {Path(run['arrivals']).name}"


def by_load(runs: list[dict]) -> dict[str, list[dict]]:
    """Runs grouped by load, in the order they came."""
    groups: dict[str, list[dict]] = {}
    for run in runs:
        groups.setdefault(load_name(run), []).append(run)
    return groups


def best_cells(runs: list[dict], column: Column) -> set[int]:
    """Indices of the runs that print the column's best value; none where there is no choice."""
    shown = {index: text for index, run in enumerate(runs) if (text := column.text(run))}
    if len(runs) < 2 or not shown:
        return set()
    values = {index: float(text.replace(",", "")) for index, text in shown.items()}
    best = column.best(values.values())
    return {index for index, value in values.items() if value == best}


def columns_of(runs: list[dict], width: int | None = None) -> tuple[list[Column], int]:
    """The columns to print and how many were left out to fit ``width`` characters."""
    columns = list(COLUMNS)
    for field, more in OPTIONAL.items():
        if field in runs[0]:
            columns += more

    def needed(chosen: list[Column]) -> int:
        names = max(len(_label(run)) for run in runs) + 2
        cells = [
            max(
                *(len(line) for line in column.head.split("\n")),
                *(len(column.text(run) or "–") + 1 for run in runs),
            )
            for column in chosen
        ]
        return max(names, 16) + 1 + sum(cell + 1 for cell in cells)

    left_out = 0
    while width is not None and needed(columns) > width and any(c.rank for c in columns):
        columns.remove(max(columns, key=lambda column: column.rank))
        left_out += 1
    return columns, left_out


def _label(run: dict) -> str:
    return run["scheduler"] + ("" if run["lossless"] else " (biased)")


def comparison_table(runs: list[dict], columns: list[Column] | None = None) -> Table:
    """The table: a section per load, a row per scheduler, the best value of a column marked *."""
    columns = columns_of(runs)[0] if columns is None else columns
    table = Table(box=None, padding=(0, 0, 0, 1), header_style="bold")
    table.add_column("\nscheduler", no_wrap=True)
    for column in columns:
        # a head that belongs to the column before it stands without a first line
        table.add_column(column.head, justify="right", no_wrap=True)
    for name, group in by_load(runs).items():
        table.add_row(Text(name, style="bold underline"))
        marks = [best_cells(group, column) for column in columns]
        for index, run in enumerate(group):
            cells = []
            for column, best in zip(columns, marks, strict=True):
                marked = index in best
                text = (column.text(run) or "–") + ("*" if marked else "\u00a0")
                cells.append(Text(text, "bold green" if marked else ""))
            table.add_row(f"  {_label(run)}", *cells)
    return table


@dataclass(frozen=True)
class Merit:
    """What decides at a kind of load, and how a winner's sentence says it."""

    name: str
    value: Callable[[dict], float]
    words: Callable[[dict], str]


def _speed(run: dict) -> float:
    return run["speed_tok_s_user"]["mean"] or 0.0


_THROUGHPUT = Merit(
    "tok/s/GPU",
    lambda run: run["throughput_tok_s_gpu"],
    lambda run: (
        f"{run['throughput_tok_s_gpu']:,.0f} tok/s/GPU"
        + (f" at {_speed(run):.1f} tok/s/user" if _speed(run) else "")
    ),
)
# in an open loop all schedulers that keep up have the throughput that is asked for
_SPEED = Merit(
    "tok/s/user",
    lambda run: _speed(run) if not run.get("overloaded") else 0.0,
    lambda run: f"{_speed(run):.1f} tok/s/user at {run['throughput_tok_s_gpu']:,.0f} tok/s/GPU",
)
_GOODPUT = Merit(
    "requests/s within the SLO",
    lambda run: run["goodput"]["requests_per_s"] or 0.0,
    lambda run: (
        f"{run['goodput']['requests_per_s']:,.2f} requests/s within the SLO "
        f"({run['goodput']['attainment']:.1%} of them)"
    ),
)


def merit_of(able: list[dict]) -> Merit:
    """What decides among runs under one load.

    Goodput if there is an SLO, else throughput in a closed loop and speed in an open one.
    """
    if any((run.get("goodput") or {}).get("requests_per_s") for run in able):
        return _GOODPUT
    if "concurrency" not in able[0] and any(_SPEED.value(run) for run in able):
        return _SPEED
    return _THROUGHPUT


def winner(runs: list[dict]) -> str:
    """One line on one load's runs: the best among the schedulers that could be deployed."""
    name = load_name(runs[0])
    able = [run for run in runs if run["throughput_tok_s_gpu"] and not run["hindsight"]]
    if not able:
        return f"{name}: no scheduler that could be deployed was run"
    merit = merit_of(able)
    best = max(able, key=lambda run: (merit.value(run), _speed(run)))  # ties go to the faster
    others = [run for run in able if run is not best]
    if not others:
        return f"{name}: {best['scheduler']} has {merit.words(best)}"
    second = max(others, key=merit.value)
    gains = [_gain(merit, best, second)]
    plain = next((run for run in others if run["scheduler"] == "none"), None)
    if plain and plain is not second:
        gains.append(_gain(merit, best, plain))
    biased = "" if best["lossless"] else ", but it biases the output"
    return f"{name}: {best['scheduler']} wins with {merit.words(best)} ({', '.join(gains)}){biased}"


def _gain(merit: Merit, best: dict, other: dict) -> str:
    value = merit.value(other)
    if not value:
        return f"{other['scheduler']} does not keep up"
    return f"{merit.value(best) / value - 1:+.1%} over {other['scheduler']}"
