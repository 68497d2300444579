"""What ``tune`` found: a table, the winner as engines' settings and as a command, a result file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from workbench.cli.again import command_line
from workbench.cli.console import make_console, write_json
from workbench.cli.notes import notes as notes_on
from workbench.cli.setup import Setup
from workbench.cli.simulate import command as simulate
from workbench.compiled import why_slow
from workbench.engines import Deployment, export
from workbench.errors import InputError
from workbench.files import atomic_write
from workbench.frontier.objectives import OBJECTIVES
from workbench.frontier.problem import Found, Problem
from workbench.report.tuning_table import number, pareto_table

FORMAT = "workbench.tune/1"


def report(given: dict, setup: Setup, problem: Problem, tuner, kinds: list[Found], complete: bool):
    """Print and write what ``given`` asks for.

    tuner: a ``frontier.tuner.Tuner`` that ran; kinds: the best of each kind of scheduler.
    """
    best = tuner.pareto()
    commands = [_command(given, setup, problem, one) for one in best]
    engines = _engines(given["engines"], setup, problem, best[0]) if best else []
    notes = _notes(setup, problem, best, complete)
    if given["export"] is not None:
        _write(given["export"], engines)
    if given["json_path"]:
        write_json(
            given["json_path"],
            {
                "format": FORMAT,
                "study": tuner.name,
                "objectives": list(problem.objectives),
                "slo": problem.slo,
                **problem.load.label(),
                "requests": problem.requests,
                "seed": problem.seed,
                "trials": tuner.counts(),
                "pareto": [
                    {**_entry(one), "command": text}
                    for one, text in zip(best, commands, strict=True)
                ],
                "kinds": [_entry(one) for one in kinds],
                "engines": engines,
                "finished": [_entry(one) for one in tuner.found()],
                "notes": notes,
            }
            | ({} if complete else {"partial": True}),
        )
    if given["json_path"] != "-":
        _print(given, tuner, best, kinds, commands, engines, notes)


def _notes(setup: Setup, problem: Problem, best: list[Found], complete: bool) -> list[str]:
    """What to know before believing it."""
    notes = [] if complete else ["interrupted: what was found is partial"]
    notes += notes_on(setup, [])
    notes += setup.demand.workload(problem.load, problem.seed).notes
    if best and best[0].figures["replay"] == "approximate":
        notes.append(f"replay is approximate for {best[0].chosen.scheduler}")
    if (slow := why_slow()) is not None:
        notes.append(slow)
    return notes


def _print(given, tuner, best, kinds, commands, engines, notes) -> None:
    problem = tuner.problem
    console = make_console()
    if best:
        console.print(pareto_table(problem.objectives, best))
    _print_engines(console, given, engines)
    console.print()
    for note in notes:
        console.print(f"note: {note}", soft_wrap=not console.is_terminal)
    if not best:
        counts = tuner.counts()
        if counts["fail"] and not counts["complete"] + counts["pruned"]:
            needed = ", ".join(problem.objectives)
            console.print(f"no trial has a figure for {needed}: are all outputs one token long?")
        else:
            console.print("no configuration was found that keeps all limits")
        return
    first, unit = problem.objectives[0], OBJECTIVES[problem.objectives[0]].unit
    others = [
        f"{_called(one)} {number(one.values[0])} ({one.values[0] / best[0].values[0] - 1:+.1%})"
        for one in kinds
        if _kind(one) != _kind(best[0])
    ]
    if others:
        console.print(f"best {first} of other kinds: {', '.join(others)}", soft_wrap=True)
    console.print(
        f"best {first}: {number(best[0].values[0])} {unit} with {_called(best[0])} "
        f"(trial {best[0].number})",
        soft_wrap=True,
    )
    console.print(commands[0], soft_wrap=True)


def _print_engines(console, given: dict, engines: list[dict]) -> None:
    for one in engines:
        console.print()
        if "problem" in one:
            console.print(f"{one['engine']}: {one['problem']}", soft_wrap=True)
            continue
        console.print(f"{one['engine']}:")
        console.print(one["command"], soft_wrap=True)
        console.print("".join(f"# {note}\n" for note in one["notes"]), end="", soft_wrap=True)
        if one["files"] and given["export"] is None:
            names = " and ".join(one["files"])
            console.print(f"# give --export DIR for {names}", soft_wrap=True)


def _kind(one: Found) -> str:
    return one.chosen.scheduler.partition(":")[0]


def _called(one: Found) -> str:
    drafts = f" of blocks of {one.chosen.block_size}" if one.chosen.block_size else ""
    biased = "" if one.figures["lossless"] else " (biased)"
    return one.chosen.scheduler + biased + drafts


# A command ---------------------------------------------------------------------------------------


def _command(given: dict, setup: Setup, problem: Problem, one: Found) -> str:
    values = setup.given | one.chosen.flags()
    goodput = {name: limit for name, limit in problem.slo.items() if name != "speed"}
    values |= {"slo": goodput or None, "requests": given["requests"]}
    return command_line(simulate, _without_idle(values))


def _without_idle(values: dict) -> dict:
    """The same without options that this one scheduler would not notice and simulate refuses."""
    while True:
        try:
            Setup(values)
            return values
        except InputError as error:
            name = (error.place or "").removeprefix("--").replace("-", "_")
            if values.get(name) in (None, False):
                raise
            values = values | {name: None}


# Engines -----------------------------------------------------------------------------------------


def _engines(engines: tuple[str, ...], setup: Setup, problem: Problem, one: Found) -> list[dict]:
    """By engine its command, files and notes, or the problem with it."""
    arm = problem.deployments.arm(one.chosen)
    workload = setup.demand.workload(problem.load, problem.seed)
    deployment = Deployment(
        one.chosen.scheduler,
        arm.cost,
        setup.gamma,
        arm.options,
        context=float(workload.prompt.mean() + workload.output.mean() / 2),
        drafts=one.chosen.block_size,
    )
    more = [f"Settings of each of {arm.replicas} replicas."] if arm.replicas > 1 else []
    made = []
    for engine in engines:
        try:
            config = export(engine, deployment)
        except InputError as error:
            made.append({"engine": engine, "problem": str(error)})
            continue
        made.append(
            {
                "engine": engine,
                "command": config.command,
                "files": config.files,
                "notes": [*more, *config.notes],
            }
        )
    return made


def check_folder(path: str, outputs: Mapping[str, str | None]) -> None:
    """Raises InputError, before anything is simulated, if settings cannot be written there.

    outputs: option → file that is written too.
    """
    if not path:
        raise InputError("no folder is named", place="--export", mend="name one")
    there = Path(path)
    above = {there.resolve(), *there.resolve().parents}
    for option, file in outputs.items():
        if file and file != "-" and Path(file).resolve() in above:
            raise InputError(
                f"is written by {option} too", file=path, place="--export", mend="name another"
            )
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise InputError(
            "no folder can be written there", file=path, place="--export", mend="name another"
        )


def _write(folder: str, engines: list[dict]) -> None:
    for one in engines:
        if "problem" in one:
            continue
        place = Path(folder) / one["engine"].lower()
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"cannot be made ({error.strerror or error})", file=place, place="--export"
            ) from error
        notes = "".join(f"# {note}\n" for note in one["notes"])
        script = f'#!/bin/sh\n{notes}cd "$(dirname "$0")" || exit\n{one["command"]}\n'
        for name, text in {"serve.sh": script, **one["files"]}.items():
            with atomic_write(place / name, "w") as file:
                file.write(text)


def _entry(one: Found) -> dict:
    return {
        "trial": one.number,
        **{name: getattr(one.chosen, name) for name in one.chosen.__dataclass_fields__},
        "values": list(one.values),
        "violations": list(one.violations),
        "figures": one.figures,
    }
