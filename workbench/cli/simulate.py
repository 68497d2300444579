"""``workbench simulate``: replay traces through schedulers on a profile and compare them."""

from __future__ import annotations

import sys

import click
import msgspec
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from workbench import __version__
from workbench.errors import InputError
from workbench.files import atomic_write
from workbench.profiles import (
    StepCost,
    TruthBelief,
    default_profile_name,
    read_planner_table,
    read_profile,
)
from workbench.report.comparison import by_load, comparison_table, winner
from workbench.schedulers import create, default_schedulers
from workbench.serving import Load, Options, Run, build_population, stream
from workbench.traces import read_trace

DEFAULT_CONCURRENCY = (1, 16, 64, 256)


def weighted(spec: str) -> tuple[str, float | None]:
    """``code.jsonl:0.3`` → the name and its weight; None where no weight is given."""
    name, _, tail = spec.rpartition(":")
    try:
        weight = float(tail)
    except ValueError:
        return spec, None
    if not name:
        return spec, None
    if not (np.isfinite(weight) and weight > 0):
        raise InputError(
            f"weight {tail} is not a positive number",
            place=f"--trace {spec}",
            mend="as in code.jsonl:0.3",
        )
    return name, weight


def trace_weights(given: list[float | None]) -> np.ndarray:
    """Shares [traces] that sum to 1. Traces without a weight share what is left of 1 equally."""
    weights = np.array([np.nan if w is None else w for w in given])
    missing = np.isnan(weights)
    if missing.any():
        left = 1.0 - np.nansum(weights)
        if left <= 0:
            raise InputError(
                "the weights given leave nothing for the traces without one",
                place="--trace",
                mend="give every trace a weight, or weights that sum to less than 1",
            )
        weights[missing] = left / missing.sum()
    return weights / weights.sum()


class Numbers(click.ParamType):
    """A comma-separated list of positive numbers."""

    def __init__(self, kind: type):
        self.kind = kind
        self.name = "N[,N…]" if kind is int else "X[,X…]"

    def convert(self, value, param, ctx):
        """Parse, refusing what is not a positive number."""
        if isinstance(value, tuple):
            return value
        numbers = []
        for part in value.split(","):
            try:
                number = self.kind(part)
            except ValueError:
                number = 0
            if not (number > 0 and np.isfinite(number)):
                word = "whole number" if self.kind is int else "number"
                self.fail(f"'{part}' is not a positive {word}", param, ctx)
            numbers.append(number)
        return tuple(dict.fromkeys(numbers))


@click.command("simulate", context_settings={"show_default": True})
@click.option(
    "--trace",
    "traces",
    multiple=True,
    required=True,
    metavar="FILE[:WEIGHT]",
    help="Recorded trace, here or shipped; several are mixed by weight.",
)
@click.option(
    "--profile", default=default_profile_name, help="Step costs, a file or a shipped name."
)
@click.option(
    "--scheduler",
    "schedulers",
    multiple=True,
    metavar="S",
    help="none, static:3, threshold:0.7, greedy, topk, …, file.py:Class.  [default: six]",
)
@click.option(
    "--concurrency", type=Numbers(int), help="Users in a closed loop.  [default: 1,16,64,256]"
)
@click.option("--rate", type=Numbers(float), help="Poisson arrivals, requests per second.")
@click.option("--arrivals", type=click.Choice(["trace"]), help="Replay the trace's own arrival_s.")
@click.option(
    "--requests",
    type=click.IntRange(min=1),
    help="Requests to simulate.  [default: the trace, at least 8 per user]",
)
@click.option(
    "--max-running", type=click.IntRange(min=1), default=256, help="Requests that run at once."
)
@click.option(
    "--token-budget", type=click.IntRange(min=1), default=8192, help="Batch tokens of a step."
)
@click.option("--stagger", is_flag=True, help="Spread the users' starts over a first request.")
@click.option(
    "--planner-table", metavar="T", help="Costs that schedulers believe.  [default: the truth]"
)
@click.option(
    "--planner-lookup",
    type=click.Choice(["floor", "ceil", "linear", "cells"]),
    help="How the planner reads between its points.  [default: as the table's engine]",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Seed of all random streams.")
@click.option("--json", "json_path", metavar="OUT", help="Write workbench.result/1; - is stdout.")
def command(
    traces,
    profile,
    schedulers,
    concurrency,
    rate,
    arrivals,
    requests,
    max_running,
    token_budget,
    stagger,
    planner_table,
    planner_lookup,
    seed,
    json_path,
):
    """Compare verification schedulers on recorded traces and a measured profile.

    Prints a table with a section per load; the last lines name the winner at each load.
    """
    loads = _loads(concurrency, rate, arrivals, stagger)
    names, given = zip(*map(weighted, traces), strict=True)
    weights = trace_weights(list(given))
    recorded = [read_trace(name) for name in names]
    costs = read_profile(profile)
    cost = StepCost(costs)
    belief = TruthBelief(cost)
    if planner_table:
        belief = read_planner_table(planner_table, lookup=planner_lookup)
    elif planner_lookup:
        raise InputError(
            "has no table to read", place="--planner-lookup", mend="give --planner-table"
        )
    population = build_population(recorded, stream(seed, "densify"))
    gamma = population.block_size
    specs = list(dict.fromkeys(schedulers)) or default_schedulers(gamma)
    if not schedulers and population.confidence is None:
        specs = [spec for spec in specs if not create(spec, gamma).needs_confidence]
    for spec in specs:
        create(spec, gamma)  # a wrong name is said before anything is simulated
    options = Options(max_running=max_running, token_budget=token_budget)

    runs = []
    total = sum(requests or load.default_requests(len(population.output)) for load in loads)
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f} %"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    with progress:
        task = progress.add_task("", total=total * len(specs))
        for load in loads:
            for spec in specs:
                scheduler = create(spec, gamma)
                progress.update(
                    task,
                    description=f"{scheduler.name} {' '.join(map(str, load.label().values()))}",
                )
                run = Run(
                    population,
                    cost,
                    scheduler,
                    load,
                    weights=weights,
                    belief=belief,
                    options=options,
                    requests=requests,
                    seed=seed,
                    on_progress=lambda done: progress.advance(task, done),
                )
                runs.append(run.result())

    config = {
        "version": __version__,
        "traces": [
            {
                "name": name,
                "weight": weight,
                "target": trace.header.target,
                "drafter": trace.header.drafter,
                "requests": len(trace.ids),
            }
            for name, weight, trace in zip(names, weights.tolist(), recorded, strict=True)
        ],
        "profile": costs.name,
        "planner_table": planner_table,
        "planner_lookup": planner_lookup,
        "max_running": max_running,
        "token_budget": token_budget,
        "stagger": stagger,
        "seed": seed,
    }
    notes = _notes(recorded, costs, cost, runs)
    if json_path:
        report = {"format": "workbench.result/1", "config": config, "notes": notes, "runs": runs}
        text = msgspec.json.format(msgspec.json.encode(report), indent=1)
        if json_path == "-":
            click.echo(text.decode())
            return
        with atomic_write(json_path) as file:
            file.write(text + b"\n")
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    console.print(comparison_table(runs))
    for note in notes:
        console.print(f"note: {note}")
    for group in by_load(runs).values():
        console.print(winner(group))


def _loads(concurrency, rate, arrivals, stagger) -> list[Load]:
    given = [
        name
        for name, value in (
            ("--concurrency", concurrency),
            ("--rate", rate),
            ("--arrivals", arrivals),
        )
        if value
    ]
    if len(given) > 1:
        raise InputError(f"{' and '.join(given)} exclude each other", mend="give one kind of load")
    if stagger and (rate or arrivals):
        raise InputError(
            "spreads the users of a closed loop",
            place="--stagger",
            mend="use it with --concurrency",
        )
    if rate:
        return [Load(rate=value) for value in rate]
    if arrivals:
        return [Load(recorded=True)]
    return [
        Load(concurrency=value, stagger=stagger) for value in concurrency or DEFAULT_CONCURRENCY
    ]


def _notes(traces, profile, cost, runs) -> list[str]:
    """What a reader must know before believing the table."""
    notes = []
    targets = sorted({trace.header.target for trace in traces if trace.header.target})
    priced = profile.target.name if profile.target else None
    if targets and priced and targets != [priced]:
        notes.append(
            f"acceptance was recorded on {', '.join(targets)}, costs were measured on {priced}: "
            "a comparison of schedulers, not a forecast of this deployment"
        )
    drafted = profile.drafter.block_size if profile.drafter else None
    gamma = traces[0].header.block_size
    if drafted and drafted != gamma:
        notes.append(
            f"the traces draft {gamma} tokens a block, the profile was measured with {drafted}"
        )
    if cost.missing:
        notes.append(f"absent from the profile, so it costs nothing: {', '.join(cost.missing)}")
    whole = [run for run in runs if run["window"]["kind"] == "whole"]
    if whole:
        notes.append(
            f"{len(whole)} of {len(runs)} runs are too short for a steady window and count from "
            "start to end: more --requests would settle them"
        )
    if any(run["replay"] == "approximate" for run in runs):
        names = dict.fromkeys(run["scheduler"] for run in runs if run["replay"] == "approximate")
        notes.append(
            f"replay is approximate for {', '.join(names)} (exact for the others)"
            if len(names) < len({r["scheduler"] for r in runs})
            else "replay is approximate"
        )
    drawn = sum(run["drawn_rounds"] for run in runs)
    if drawn:
        notes.append(
            f"{drawn:,} of {sum(run['rounds'] for run in runs):,} rounds had an outcome that the "
            "engine did not record; it was drawn from the trace's own statistics"
        )
    return notes
