"""``workbench sweep``: the Pareto frontier of every scheduler over load, and what an SLA buys."""

from __future__ import annotations

import time
from dataclasses import dataclass

import click

from workbench.cli.again import command_line
from workbench.cli.console import make_console, write_json
from workbench.cli.notes import notes as notes_on
from workbench.cli.options import simulation_options
from workbench.cli.parallel import cache_options, job_count, open_cache, progress_bar
from workbench.cli.setup import Setup
from workbench.cli.sweep_inputs import study_of, sweep_setups
from workbench.cli.values import Numbers
from workbench.compiled import why_slow
from workbench.files import check_outputs
from workbench.frontier import Cache, GroupFrontier, Pool, Study
from workbench.frontier.document import document
from workbench.frontier.rows import (
    RowStream,
    check_parquet,
    row,
    rows,
    write_csv,
    write_parquet,
)
from workbench.profiles import default_profile_name
from workbench.report.frontier_table import best_lines, points_table, sla_notes, sla_table

OUTPUTS = ("plot", "csv_path", "parquet_path", "stream", "json_path")
_OWN = ("profile", "concurrency", "stagger")  # declared anew below


@click.command("sweep", context_settings={"show_default": True, "max_content_width": 100})
@simulation_options(leave_out=_OWN)
@click.option(
    "--profile",
    "profiles",
    multiple=True,
    metavar="P",
    help="Step costs, a file or a shipped name; several are compared.  [default: "
    f"{default_profile_name}]",
)
@click.option(
    "--apart", is_flag=True, help="A frontier per --trace, where several would be mixed into one."
)
@click.option(
    "--concurrency",
    type=Numbers(int, most=1_000_000),
    help="Users in a closed loop.  [default: 1,2,4,…,256]",
)
@click.option(
    "--stagger/--no-stagger",
    default=None,
    help="Spread the users' starts over a first request.  [default: stagger]",
)
@click.option(
    "--sla",
    type=Numbers(float),
    help="Speeds to promise, tok/s/user.  [default: three inside the baseline's range]",
)
@click.option(
    "--baseline",
    metavar="S",
    help="What the SLA table compares with.  [default: static:1, without a trace none]",
)
@click.option(
    "--seeds",
    type=click.IntRange(1, 1000),
    default=1,
    help="Runs per point, seeds --seed and up: mean and range.",
)
@cache_options
@click.option("--plot", metavar="OUT", help="Draw the frontiers: .png, .svg or .pdf.")
@click.option("--csv", "csv_path", metavar="OUT", help="Write a row per simulation.")
@click.option("--parquet", "parquet_path", metavar="OUT", help="The same rows as Parquet.")
@click.option(
    "--stream",
    metavar="OUT",
    help="Write each simulation as a line of JSON as soon as it ends; - is stdout.",
)
@click.option("--json", "json_path", metavar="OUT", help="Write workbench.sweep/1; - is stdout.")
@click.pass_context
def command(ctx, **given):
    """Compare schedulers over a range of loads: which is best at which speed, and by how much.

    Simulates every scheduler under every load on all cores. Finished simulations are kept by
    content: what was interrupted goes on, and what has not changed is not simulated again.
    """
    setups = sweep_setups(given)
    _check_files(given, setups)
    swept = run_sweep(given, setups)
    _write(given, swept)
    if "-" not in (given["json_path"], given["stream"]):
        _print(swept.frontiers, swept.notes)
    return 0 if swept.complete else 130


@dataclass(frozen=True)
class Swept:
    """What a sweep found; ``report`` shows it too."""

    study: Study
    frontiers: list[GroupFrontier]
    config: dict  # the inputs
    notes: list[str]
    complete: bool  # not interrupted

    def document(self) -> dict:
        """``workbench.sweep/1``."""
        made = document(self.study, self.frontiers, self.config) | {"notes": self.notes}
        return made if self.complete else made | {"partial": True}


def run_sweep(given: dict, setups: dict[str, Setup]) -> Swept:
    """Simulate what is not in the cache; raises KeyboardInterrupt if nothing was simulated."""
    cache = open_cache(given)
    study = study_of(given, setups)
    complete = _simulate(study, job_count(given), cache, given.get("stream"))
    if not study.runs:
        raise KeyboardInterrupt
    frontiers = study.frontiers(given["sla"])
    notes = _notes(study, setups, frontiers, complete)
    return Swept(study, frontiers, _config(given, setups), notes, complete)


def _simulate(study: Study, jobs: int, cache: Cache | None, stream: str | None) -> bool:
    """Fill the study, each run to ``stream`` as it comes; whether it was not interrupted."""
    began, tasks = time.perf_counter(), study.tasks()
    demands = [group.demand for group in study.groups]
    complete = True
    with (
        RowStream(stream) as out,
        progress_bar(len(tasks), "simulating") as advance,
        Pool(demands, jobs=jobs, cache=cache) as pool,
    ):
        try:
            for run in study.simulate(pool, tasks):
                out.write(row(study, run))
                advance(_said(run))
        except KeyboardInterrupt:
            complete = False
            pool.close(at_once=True)
    seconds = time.perf_counter() - began
    click.echo(
        f"{len(study.runs)} of {len(tasks)} simulations: {pool.cached} from the cache, "
        f"{pool.simulated} simulated, {seconds:.1f} s",
        err=True,
    )
    return complete


def _said(run: dict) -> str:
    """A finished run in a few words, for the bar."""
    load = run.get("concurrency", run.get("rate"))
    speed, throughput = run["speed_tok_s_user"]["mean"], run["throughput_tok_s_gpu"]
    figures = f": {speed:.0f} tok/s/user, {throughput:,.0f} tok/s/GPU" if speed else ""
    return f"{run['scheduler']} at {load:g}{figures}"


def _notes(
    study: Study, setups: dict[str, Setup], frontiers: list[GroupFrontier], complete: bool
) -> list[str]:
    notes = [] if complete else ["interrupted: what follows is partial"]
    for index, setup in enumerate(setups.values()):
        notes += [note for note in notes_on(setup, study.ordered(index)) if note not in notes]
    notes += sla_notes(frontiers)
    if (slow := why_slow()) is not None:
        notes.append(slow)
    return notes


def _check_files(given: dict, setups: dict[str, Setup]) -> None:
    """Refuse, before anything is simulated, what could not be written after it."""
    outputs = {
        "--plot": given["plot"],
        "--csv": given["csv_path"],
        "--parquet": given["parquet_path"],
        "--stream": given["stream"],
        "--json": given["json_path"],
    }
    inputs = [path for setup in setups.values() for path in setup.files()]
    check_outputs(outputs, inputs, streams=("--stream", "--json"))
    if given["plot"]:
        from workbench.report.frontier_plot import check_suffix

        check_suffix(given["plot"])
    if given["parquet_path"]:
        check_parquet(given["parquet_path"])


def _config(given: dict, setups: dict[str, Setup]) -> dict:
    """The inputs, for the result file: what is common, then what differs by group."""
    own = {name: given[name] for name in ("seeds", "sla", "baseline", "apart")}
    does_not_matter = (*OUTPUTS, "jobs", "cache_folder", "no_cache")
    own["command"] = command_line(
        command, {name: value for name, value in given.items() if name not in does_not_matter}
    )
    return {**own, "groups": {name: setup.config() for name, setup in setups.items()}}


def _write(given: dict, swept: Swept) -> None:
    table = rows(swept.study, swept.frontiers)
    if given["csv_path"]:
        write_csv(given["csv_path"], table)
    if given["parquet_path"]:
        write_parquet(given["parquet_path"], table)
    if given["plot"]:
        from workbench.report.frontier_plot import frontier_plot, write_plot

        write_plot(given["plot"], frontier_plot(swept.frontiers))
    if given["json_path"]:
        write_json(given["json_path"], swept.document())


def _print(frontiers: list[GroupFrontier], notes: list[str]) -> None:
    console = make_console()
    for group in frontiers:
        console.rule(group.name, align="left")
        console.print(points_table(group))
        console.print("* on the scheduler's own frontier, ** on the frontier of all\n")
        if group.sla:
            console.print(sla_table(group))
    for note in notes:
        console.print(f"note: {note}", soft_wrap=not console.is_terminal)
    for group in frontiers:
        if len(frontiers) > 1:
            console.print(f"{group.name}:", soft_wrap=True)
        for line in best_lines(group):
            console.print(line, soft_wrap=True)
