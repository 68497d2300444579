"""Frontiers as text: operating points, which scheduler is best from which speed on, SLA tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from workbench.frontier.bands import Band, GroupFrontier, SchedulerFrontier
from workbench.frontier.sla import Figure, SlaRow
from workbench.report.sheet import Section, Sheet, printed

NOT_REACHABLE = "not reachable"


def shown_name(one: SchedulerFrontier) -> str:
    """The scheduler's name, marked if it biases the output or knows the outcome."""
    signs = (("biased", not one.lossless), ("hindsight", one.hindsight))
    marks = [word for word, applies in signs if applies]
    return one.scheduler + (f" ({', '.join(marks)})" if marks else "")


def _number(value: float, digits: int) -> str:
    return format(value, f",.{digits}f")


def band_text(band: Band | None, digits: int, scale: float = 1.0) -> str:
    """``mean (lowest–highest)``, or the mean alone where all seeds agree."""
    if band is None:
        return "–"
    text, low, high = (_number(x * scale, digits) for x in (band.mean, band.min, band.max))
    return text if low == high else f"{text} ({low}–{high})"


def load_text(load: dict) -> str:
    """A load's number as the first column shows it."""
    if "concurrency" in load:
        users = load["concurrency"]
        return f"{users} user{'' if users == 1 else 's'}"
    return f"{load['rate']:g} req/s"


def points_sheet(group: GroupFrontier) -> Sheet:
    """A section per scheduler, a row per load; * is on its own frontier, ** on that of all."""
    heads = (
        "scheduler\n  load",
        "tok/s/user\nmean",
        "tok/s/GPU\n",
        "frontier\n",
        "TTFT ms\np99",
        "accepted\nlength",
        "verify\nbudget",
    )
    return Sheet(heads, [_points(one) for one in group.schedulers])


def _points(one: SchedulerFrontier) -> Section:
    rows = []
    for point in one.points:
        mark = "**" if point.best else "*" if point.on_frontier else ""
        rows.append(
            (
                load_text(point.load),
                band_text(point.speed, 1),
                band_text(point.throughput, 0),
                "piles up" if point.overloaded else mark,
                band_text(point.ttft_p99_s, 1, 1e3),
                band_text(point.accepted_length, 2),
                band_text(point.verification_budget, 2),
            )
        )
    best = frozenset(index for index, point in enumerate(one.points) if point.best)
    return Section(shown_name(one), rows, best)


def points_table(group: GroupFrontier) -> Table:
    """``points_sheet`` for a terminal."""
    return printed(points_sheet(group), strong=(3,))


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
        lines.append(
            f"at {ends} tok/s/user {shown_name(low[2])} is best: {gives} tok/s/GPU ({loads})"
        )
        start = index
    return lines


def sla_sheet(group: GroupFrontier) -> Sheet:
    """A section per anchor: throughput there, speed at the baseline's throughput, gains."""
    base = f"over {group.baseline}"
    heads = (
        "SLA\n  scheduler",
        "tok/s/GPU\nat the SLA",
        f"\n{base}",
        "tok/s/user at\nits throughput",
        f"\n{base}",
    )
    names = {one.scheduler: shown_name(one) for one in group.schedulers}
    sections = []
    for anchor, some in group.sla.items():
        rows = []
        for row in some:
            own = row.scheduler == group.baseline
            rows.append(
                (
                    names[row.scheduler],
                    _figure(row.throughput, row, 0),
                    "baseline" if own else gain_text(row.throughput_gain, row),
                    _figure(row.matched, row, 1),
                    "" if own else gain_text(row.speed_gain, row),
                )
            )
        sections.append(Section(f"{anchor:g} tok/s/user", rows))
    return Sheet(heads, sections)


def sla_table(group: GroupFrontier) -> Table:
    """``sla_sheet`` for a terminal."""
    return printed(sla_sheet(group))


def _figure(figure: Figure | None, row: SlaRow, digits: int) -> str:
    if figure is None:
        return NOT_REACHABLE
    text = ("≥" if figure.edge else "") + _number(figure.mean, digits)
    if figure.min != figure.max:
        text += f" ({_number(figure.min, digits)}–{_number(figure.max, digits)})"
    return text + _seeds(figure, row)


def gain_text(figure: Figure | None, row: SlaRow) -> str:
    """A relative gain in percent, with its range over seeds; ~ beyond what was simulated."""
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
