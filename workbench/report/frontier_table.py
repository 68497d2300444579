"""Frontiers as text: operating points, which scheduler is best from which speed on, SLA tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from workbench.frontier.bands import Band, GroupFrontier, SchedulerFrontier
from workbench.frontier.sla import Figure, SlaRow

NOT_REACHABLE = "not reachable"


def _name(one: SchedulerFrontier) -> str:
    signs = (("biased", not one.lossless), ("hindsight", one.hindsight))
    marks = [word for word, applies in signs if applies]
    return one.scheduler + (f" ({', '.join(marks)})" if marks else "")


def _number(value: float, digits: int) -> str:
    return format(value, f",.{digits}f")


def _band(band: Band | None, digits: int, scale: float = 1.0) -> str:
    if band is None:
        return "–"
    text = _number(band.mean * scale, digits)
    if band.min == band.max:
        return text
    return f"{text} ({_number(band.min * scale, digits)}–{_number(band.max * scale, digits)})"


def load_text(load: dict) -> str:
    """A load's number as the first column shows it."""
    if "concurrency" in load:
        users = load["concurrency"]
        return f"{users} user{'' if users == 1 else 's'}"
    return f"{load['rate']:g} req/s"


def points_table(group: GroupFrontier) -> Table:
    """A section per scheduler, a row per load; * is on its own frontier, ** on that of all."""
    table = Table(box=None, padding=(0, 0, 0, 1), header_style="bold")
    table.add_column("scheduler\n  load", no_wrap=True)
    for head in (
        "tok/s/user\nmean",
        "tok/s/GPU\n",
        "frontier\n",
        "TTFT ms\np99",
        "accepted\nlength",
        "verify\nbudget",
    ):
        table.add_column(head, justify="right", no_wrap=True)
    for one in group.schedulers:
        table.add_row(Text(_name(one), style="bold underline"))
        for point in one.points:
            mark = "**" if point.best else "*" if point.on_frontier else ""
            mark = "piles up" if point.overloaded else mark
            table.add_row(
                f"  {load_text(point.load)}",
                _band(point.speed, 1),
                _band(point.throughput, 0),
                Text(mark, "bold green" if point.best else ""),
                _band(point.ttft_p99_s, 1, 1e3),
                _band(point.accepted_length, 2),
                _band(point.verification_budget, 2),
            )
    return table


def best_lines(group: GroupFrontier) -> list[str]:
    """The frontier of all schedulers that could be deployed, as a sentence per stretch.

    From the highest throughput to the highest speed; neighbours of one scheduler are one stretch.
    """
    best = sorted(
        (
            (point.speed.mean, point.throughput.mean, one, point)
            for one in group.schedulers
            for point in one.points
            if point.best
        ),
        key=lambda item: item[0],
    )
    lines = []
    start = 0
    for index in range(1, len(best) + 1):
        if index < len(best) and best[index][2] is best[start][2]:
            continue
        low, high = best[start], best[index - 1]
        ends = f"{low[0]:.1f}" if low is high else f"{low[0]:.1f}–{high[0]:.1f}"
        gives = f"{low[1]:,.0f}" if low is high else f"{low[1]:,.0f}–{high[1]:,.0f}"
        loads = load_text(low[3].load)
        if low is not high:
            loads = f"{load_text(low[3].load)} down to {load_text(high[3].load)}"
        lines.append(f"at {ends} tok/s/user {_name(low[2])} is best: {gives} tok/s/GPU ({loads})")
        start = index
    return lines


def sla_table(group: GroupFrontier) -> Table:
    """A section per anchor: throughput there, speed at the baseline's throughput, gains."""
    table = Table(box=None, padding=(0, 0, 0, 1), header_style="bold")
    table.add_column("SLA\n  scheduler", no_wrap=True)
    base = f"over {group.baseline}"
    for head in (
        "tok/s/GPU\nat the SLA",
        f"\n{base}",
        "tok/s/user at\nits throughput",
        f"\n{base}",
    ):
        table.add_column(head, justify="right", no_wrap=True)
    names = {one.scheduler: _name(one) for one in group.schedulers}
    for anchor, rows in group.sla.items():
        table.add_row(Text(f"{anchor:g} tok/s/user", style="bold underline"))
        for row in rows:
            own = row.scheduler == group.baseline
            table.add_row(
                f"  {names[row.scheduler]}",
                _figure(row.throughput, row, 0),
                "baseline" if own else _gain(row.throughput_gain, row),
                _figure(row.matched, row, 1),
                "" if own else _gain(row.speed_gain, row),
            )
    return table


def _figure(figure: Figure | None, row: SlaRow, digits: int) -> str:
    if figure is None:
        return NOT_REACHABLE
    text = ("≥" if figure.edge else "") + _number(figure.mean, digits)
    if figure.min != figure.max:
        text += f" ({_number(figure.min, digits)}–{_number(figure.max, digits)})"
    return text + _seeds(figure, row)


def _gain(figure: Figure | None, row: SlaRow) -> str:
    if figure is None:
        return "–"
    text = ("~" if figure.edge else "") + f"{figure.mean:+.1%}"
    if f"{figure.min:+.1%}" != f"{figure.max:+.1%}":
        text += f" ({figure.min:+.1%} to {figure.max:+.1%})"
    return text + _seeds(figure, row)


def _seeds(figure: Figure, row: SlaRow) -> str:
    return "" if figure.reached == row.seeds else f" in {figure.reached} of {row.seeds} seeds"


def sla_notes(groups: Sequence[GroupFrontier]) -> list[str]:
    """What the signs in the SLA tables mean, if they stand there."""
    rows = [row for group in groups for rows in group.sla.values() for row in rows]
    notes = []
    figures = [figure for row in rows for figure in (row.throughput, row.matched)]
    if any(figure and figure.edge for figure in figures):
        notes.append(
            "≥ and ~: beyond the loads that were simulated, the value at their end is given; more "
            "--concurrency or --rate would settle it"
        )
    for group in groups:
        base = {
            anchor: row
            for anchor, some in group.sla.items()
            for row in some
            if row.scheduler == group.baseline
        }
        lost = [f"{anchor:g}" for anchor, row in base.items() if row.throughput is None]
        if lost:
            notes.append(
                f"{group.baseline} does not reach {', '.join(lost)} tok/s/user on {group.name}, so "
                "there is nothing to compare with there"
            )
    return notes
