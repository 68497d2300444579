"""A study as one self-contained HTML page: nothing is fetched, the same study is the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from workbench.report.advice import Advice, advise, stretches
from workbench.report.colours import style, tint
from workbench.report.frontier_plot import frontier_plot
from workbench.report.frontier_table import (
    band_text,
    best_lines,
    load_text,
    points_sheet,
    shown_name,
    sla_notes,
    sla_sheet,
)
from workbench.report.inline_svg import inline_svg
from workbench.report.inputs_sheet import fit_words, inputs_sheet
from workbench.report.load_plot import load_plot
from workbench.report.losslessness import audited
from workbench.report.sentences import (
    at_the_sla,
    how_sure,
    loads_words,
    question,
    what_it_gives,
    what_would_change_it,
    which_k,
)
from workbench.report.sheet import Section, Sheet
from workbench.report.study import ReportStudy, StudyGroup

DARK = "#14191E"  # the dark page, as in templates/report.html


@dataclass(frozen=True)
class Stretch:
    """What is recommended for some neighbouring loads."""

    loads: str
    best: str
    gives: str
    k: str
    sure: list[str]
    change: list[str]


@dataclass(frozen=True)
class Part:
    """A group's part of the page."""

    name: str
    question: str
    stretches: list[Stretch]
    advice: Sheet
    sla_advice: list[str]
    best: list[str]
    frontier: Markup
    load: Markup
    points: Sheet
    sla: Sheet
    inputs: Sheet
    losslessness: Sheet
    fit: str


def render(study: ReportStudy, *, run_files: bool = False) -> str:
    """The page. ``run_files``: schedulers in files may be loaded, for their audit."""
    environment = Environment(
        loader=PackageLoader("workbench.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    parts = [_part(group, f"g{n}", run_files) for n, group in enumerate(study.groups, start=1)]
    return environment.get_template("report.html").render(
        names=" and ".join(part.name for part in parts),
        parts=parts,
        study=study,
        version=study.groups[0].inputs.version,
        sla_notes=sla_notes([group.frontier for group in study.groups]),
        report_command=study.command.replace("sweep", "report report.html", 1),
        dark=DARK,
    )


def _part(group: StudyGroup, name: str, run_files: bool) -> Part:
    frontier, inputs = group.frontier, group.inputs
    advices = advise(group.runs, frontier.baseline)
    colours = {
        style(one.scheduler).colour: tint(one.scheduler, DARK) for one in frontier.schedulers
    }
    draw = partial(inline_svg, colours=colours)
    names = ", ".join(one.scheduler for one in frontier.schedulers)
    return Part(
        name=frontier.name,
        question=question(group),
        stretches=_stretches(group, advices),
        advice=advice_sheet(advices, frontier.baseline),
        sla_advice=at_the_sla(frontier),
        best=best_lines(frontier),
        frontier=Markup(
            draw(
                lambda: frontier_plot([frontier]),
                f"{name}f",
                f"Throughput per GPU against speed per user of {names}; the tables have the values",
            )
        ),
        load=Markup(
            draw(
                lambda: load_plot(frontier),
                f"{name}l",
                f"Throughput and verification budget against the load of {names}",
            )
        ),
        points=points_sheet(frontier),
        sla=sla_sheet(frontier),
        inputs=inputs_sheet(inputs),
        losslessness=Sheet(
            ("scheduler", "verdict for this study", "audit by exact enumeration", "replay"),
            [
                Section(
                    "",
                    [
                        (
                            shown_name(one),
                            "lossless" if one.lossless else "changes the output",
                            audited(one, inputs, frontier.baseline, run_files),
                            one.replay,
                        )
                        for one in frontier.schedulers
                    ],
                )
            ],
        ),
        fit=fit_words(inputs),
    )


def _stretches(group: StudyGroup, advices: Sequence[Advice]) -> list[Stretch]:
    return [
        Stretch(
            loads_words([one.load for one in stretch]),
            stretch[0].best,
            what_it_gives(stretch, group.frontier.baseline),
            which_k(stretch),
            how_sure(stretch, group.inputs.profile_file.fit_error),
            what_would_change_it(advices, stretch),
        )
        for stretch in stretches(advices)
    ]


def recommendations(study: ReportStudy) -> list[str]:
    """What the page recommends, a line per stretch of loads."""
    lines = []
    for group in study.groups:
        where = f"{group.frontier.name}, " if len(study.groups) > 1 else ""
        found = _stretches(group, advise(group.runs, group.frontier.baseline))
        lines += [f"{where}{one.loads}: {one.best}. {one.gives}" for one in found]
    return lines


def advice_sheet(advices: Sequence[Advice], baseline: str) -> Sheet:
    """A row per load: the best lossless scheduler, what it gives and its leads."""
    rows = [
        (
            load_text(one.load),
            one.best,
            band_text(one.throughput, 0),
            band_text(one.speed, 1),
            "–" if one.drafts is None else f"{one.drafts:.2f}",
            _lead(one.baseline, False),
            _lead(one.plain, False),
            _lead(one.second, True),
            f"{one.ahead} of {one.seeds}",
        )
        for one in advices
    ]
    heads = (
        "load",
        "best",
        "tok/s/GPU",
        "tok/s/user",
        "drafts verified",
        f"over {baseline}",
        "over no speculation",
        "over the next best",
        "best in seeds",
    )
    return Sheet(heads, [Section("", rows)])


def _lead(gain, named: bool) -> str:
    if gain is None:
        return "–"
    text = f"{gain.band.mean:+.1%}"
    if f"{gain.band.min:+.1%}" != f"{gain.band.max:+.1%}":
        text += f" ({gain.band.min:+.1%} to {gain.band.max:+.1%})"
    return f"{text} ({gain.over})" if named else text
