"""What a study recommends, in plain words: which scheduler, how sure, what would change it."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.frontier import GroupFrontier, SchedulerFrontier
from workbench.frontier.bands import load_of
from workbench.report.advice import Advice, stretches
from workbench.report.frontier_table import load_text, shown_name
from workbench.report.study import FitErrors, StudyGroup

_TIE = 0.0005  # leads that print as +0.0%


def loads_words(loads: Sequence[dict]) -> str:
    """``16 users``, ``1 to 32 users``, ``0.5 to 4 req/s``."""
    first, last = load_text(loads[0]), load_text(loads[-1])
    if first == last:
        return first
    return f"{first.split()[0]} to {last}"


def _listed(loads: Sequence[dict]) -> str:
    """``1, 2, 4 users``."""
    unit = load_text(loads[-1]).split(maxsplit=1)[1]
    return f"{', '.join(load_text(load).split()[0] for load in loads)} {unit}"


def _between(values: Sequence[float], digits: int = 0) -> str:
    """From the first load to the last; one number if they print alike."""
    ends = list(dict.fromkeys(f"{value:,.{digits}f}" for value in (values[0], values[-1])))
    return " to ".join(ends)


def _percents(gains: Sequence[float]) -> str:
    low, high = f"{min(gains):+.1%}", f"{max(gains):+.1%}"
    return low if low == high else f"{low} to {high}"


def what_it_gives(stretch: Sequence[Advice], baseline: str) -> str:
    """What the best scheduler of a stretch gives, and over what."""
    throughput = _between([one.throughput.mean for one in stretch])
    text = f"{throughput} tok/s/GPU"
    speeds = [one.speed.mean for one in stretch if one.speed]
    if speeds:
        text += f" at {_between(speeds, 1)} tok/s/user"
    if stretch[0].merit.startswith("requests/s"):
        text += f", {_between([one.value.mean for one in stretch], 2)} {stretch[0].merit}"
    parts = []
    for name, field in ((baseline, "baseline"), ("no speculation", "plain"), (None, "second")):
        gains = [gain for one in stretch if (gain := getattr(one, field)) is not None]
        if field == "second":
            gains = [gain for gain in gains if gain.over not in (baseline, "none")]
            name = " or ".join(dict.fromkeys(gain.over for gain in gains)) + ", the next best"
        if field == "plain" and baseline == "none":
            continue
        if gains:
            parts.append(f"{_percents([gain.band.mean for gain in gains])} over {name}")
    if not parts:
        return f"{text}."
    of = "" if stretch[0].merit == "tok/s/GPU" else f"in {stretch[0].merit}, "
    return f"{text}: {of}{'; '.join(parts)}."


def which_k(stretch: Sequence[Advice]) -> str:
    """How many drafts that verifies, and what to set where the engine knows a fixed k only."""
    name = stretch[0].best
    fixed = _fixed_k(name)
    if fixed is not None:
        return "k = 0: no draft is made." if fixed == 0 else f"k = {fixed} always."
    drafts = [one.drafts for one in stretch if one.drafts is not None]
    text = f"It verifies {_between(drafts, 1)} drafts per request and round." if drafts else ""
    known = [one.fixed for one in stretch if one.fixed is not None]
    if known:
        best = dict.fromkeys(f"{_fixed_k(gain.over)}" for gain in known)
        behind = _percents([gain.band.mean for gain in known])
        text += (
            f" The best fixed k of those tried is {' or '.join(best)}; this is {behind} over it."
        )
    return text.strip()


def _fixed_k(scheduler: str) -> int | None:
    if scheduler == "none":
        return 0
    family, _, k = scheduler.partition(":")
    return int(k) if family == "static" and k.isdigit() else None


def how_sure(stretch: Sequence[Advice], fit: FitErrors | None) -> list[str]:
    """What speaks for and against it: seeds, and leads below what the profile can resolve."""
    lines = [
        f"At {load_text(one.load)} no scheduler keeps up: requests pile up, and only throughput "
        "was compared."
        for one in stretch
        if one.overloaded
    ]
    seeds = stretch[0].seeds
    if seeds == 1:
        lines.append("One seed: how much of it is chance was not measured; --seeds 5 would tell.")
    else:
        shaky = [one for one in stretch if one.ahead < one.seeds]
        for one in shaky:
            lines.append(
                f"At {load_text(one.load)} it is ahead in {one.ahead} of {one.seeds} seeds only."
            )
        if not shaky:
            lines.append(f"Ahead under every one of the {seeds} seeds at all of these loads.")
    tied = [one for one in stretch if _lead(one) is not None and _lead(one) < _TIE]
    if tied:
        rivals = " or ".join(dict.fromkeys(one.second.over for one in tied))
        lines.append(
            f"At {_listed([one.load for one in tied])} {rivals} gives as much; of equals the "
            "faster is named."
        )
    close = [one for one in stretch if one not in tied and _within(one, fit)]
    if close:
        where = _listed([one.load for one in close])
        rivals = " or ".join(dict.fromkeys(one.second.over for one in close))
        leads = _percents([_lead(one) for one in close])
        lines.append(
            f"At {where} the lead over {rivals} is {leads}, no more than the profile's typical "
            f"error of {fit.median:.1%} in a round's time: take them as equal there."
        )
    return lines


def _lead(one: Advice) -> float | None:
    return None if one.second is None else one.second.band.mean


def _within(one: Advice, fit: FitErrors | None) -> bool:
    """Whether the lead is less than the profile can tell; goodput is not in proportion to time."""
    known = fit is not None and fit.median is not None and one.second is not None
    return known and one.merit.startswith("tok/s") and _lead(one) <= fit.median


def what_would_change_it(advices: Sequence[Advice], stretch: Sequence[Advice]) -> list[str]:
    """The smallest lead as a condition, and where other loads have another best."""
    lines = []
    led = [one for one in stretch if one.second is not None]
    if led:
        least = min(led, key=_lead)
        lines.append(
            f"The smallest lead is {_lead(least):+.1%} over {least.second.over}, "
            f"at {load_text(least.load)}{_gone(least)}."
        )
    biased = dict.fromkeys(one.biased.of for one in stretch if one.biased)
    if biased:
        names = " or ".join(biased)
        lines.append(f"{names} would give more, but changes what the model says.")
    parts = stretches(advices)
    place = next(i for i, part in enumerate(parts) if part[0].load == stretch[0].load)
    if place:
        before = parts[place - 1]
        lines.append(f"Up to {load_text(before[-1].load)}, {before[0].best} is best instead.")
    if place + 1 < len(parts):
        after = parts[place + 1]
        lines.append(f"From {load_text(after[0].load)} on, {after[0].best} is best instead.")
    return lines


def _gone(least: Advice) -> str:
    """What would end the lead; of a queue, and of a tie, no simple rule says it."""
    lead = _lead(least)
    if least.merit != "tok/s/GPU" or lead < _TIE:
        return ""
    text = f": it is gone once steps of {least.best} alone cost {lead:.1%} more"
    if least.best != "none" and least.accepted_length:
        share = lead / (1 + lead)
        text += (
            f", or emit {share:.1%} fewer tokens (accepted length "
            f"{least.accepted_length * (1 - share):.2f} for {least.accepted_length:.2f})"
        )
    return text


def at_the_sla(group: GroupFrontier) -> list[str]:
    """Per anchor: the lossless scheduler with the highest throughput that keeps the promise."""
    by_name = {one.scheduler: one for one in group.schedulers}
    lines = []
    for anchor, rows in group.sla.items():
        able = [
            row
            for row in rows
            if row.throughput is not None
            and row.throughput.reached == row.seeds
            and by_name[row.scheduler].lossless
            and not by_name[row.scheduler].hindsight
        ]
        if not able:
            lines.append(f"{anchor:g} tok/s/user is not reachable at any load that was simulated.")
            continue
        best = max(able, key=lambda row: row.throughput.mean)
        one = by_name[best.scheduler]
        sign = "at least " if best.throughput.edge else ""
        text = (
            f"For {anchor:g} tok/s/user: {shown_name(one)}, "
            f"{sign}{best.throughput.mean:,.0f} tok/s/GPU"
        )
        if best.throughput_gain is not None:
            about = "about " if best.throughput_gain.edge else ""
            text += f", {about}{best.throughput_gain.mean:+.1%} over {group.baseline}"
        elif best.scheduler != group.baseline:
            text += f"; {group.baseline} does not reach it"
        text += _where(one, anchor)
        lines.append(text + ".")
    return lines


def _where(one: SchedulerFrontier, anchor: float) -> str:
    """Between which of the simulated loads the anchor lies on a scheduler's frontier."""
    points = [point for point in one.points if point.on_frontier]
    kept = [point for point in points if point.speed.mean >= anchor]
    lost = [point for point in points if point.speed.mean < anchor]
    if not kept:
        return ""
    last = min(kept, key=lambda point: point.speed.mean).load
    if not lost:
        return f", at {load_text(last)}, the highest load simulated"
    beyond = max(lost, key=lambda point: point.speed.mean).load
    return f", between {load_text(last).split()[0]} and {load_text(beyond)}"


def question(group: StudyGroup) -> str:
    """What was compared, on what, and under which loads, as one paragraph."""
    inputs, frontier = group.inputs, group.frontier
    names = ", ".join(one.scheduler for one in frontier.schedulers)
    points = [point for one in frontier.schedulers for point in one.points]
    numbers = {load_of(point.load): point.load for point in points}
    loads = [numbers[key] for key in sorted(numbers)]
    kind = "a closed loop of " if "concurrency" in loads[0] else "random arrivals at "
    listed = ", ".join(load_text(load).split()[0] for load in loads)
    unit = "users" if "concurrency" in loads[0] else "requests/s"
    drafters = ", ".join(dict.fromkeys(t.drafter for t in inputs.traces if t.drafter))
    drafted = f"the drafts of {drafters}" if drafters else "no drafts"
    text = (
        f"Which of {names} should verify {drafted}, under {kind}{listed} {unit}, on "
        f"{inputs.profile_file.gpu or inputs.profile_file.name}?"
    )
    if frontier.sla:
        anchors = ", ".join(f"{anchor:g}" for anchor in frontier.sla)
        text += f" Speeds to promise (SLA): {anchors} tok/s/user, against {frontier.baseline}."
    if inputs.slo:
        limits = ", ".join(f"{key.upper()} {value:g} s" for key, value in inputs.slo.items())
        text += f" Each request should keep to {limits}."
    return text
