"""``workbench tune``: the best scheduler and engine limits for a load, found by Optuna."""

from __future__ import annotations

import time
from types import ModuleType

import click

from workbench.cli.options import as_simulate, simulation_options
from workbench.cli.parallel import cache_options, job_count, open_cache, progress_bar
from workbench.cli.setup import Setup
from workbench.cli.study_storage import shown, storage_errors, storage_file, storage_url
from workbench.cli.tune_output import check_folder, report
from workbench.cli.values import Numbers, Pairs, weighted
from workbench.engines import ENGINES
from workbench.errors import InputError
from workbench.files import check_outputs
from workbench.frontier.interrupts import held_interrupts
from workbench.frontier.objectives import LIMITS, OBJECTIVES
from workbench.frontier.pool import Pool
from workbench.frontier.problem import Problem
from workbench.frontier.space import (
    MEASURED,
    Configuration,
    Deployments,
    Space,
    check_families,
    default_families,
    drafts_blocks,
)
from workbench.schedulers import spelled_out
from workbench.serving import require_confidence
from workbench.traces import read_trace

DEFAULT_CONCURRENCY = 64
_TUNED = ("schedulers", "block_size", "max_running", "token_budget", "graph_sizes", "lag")
_OWN = (*_TUNED, "concurrency", "rate", "stagger", "slo")
_RUNNING = (8, 16, 32, 64, 128, 256, 512, 1024)
_BUDGETS = (512, 1024, 2048, 4096, 8192, 16384)
_LONGEST_NAME = 512  # of a study, in Optuna's tables
_positive = click.IntRange(min=1, max=1 << 24)


class Names(click.ParamType):
    """A comma-separated list of some of these names, without repeats; case does not count."""

    name = "NAME[,…]"

    def __init__(self, names):
        self.names = tuple(names)

    def convert(self, value, param, ctx):
        """Parse into a tuple, refusing other names."""
        if isinstance(value, tuple):
            return value
        known = {name.lower(): name for name in self.names}
        chosen = dict.fromkeys(value.split(","))
        for one in chosen:
            if one.lower() not in known:
                self.fail(f"'{one}' is not one of {', '.join(self.names)}", param, ctx)
        return tuple(dict.fromkeys(known[one.lower()] for one in chosen))


@click.command("tune", context_settings={"show_default": True, "max_content_width": 100})
@simulation_options(leave_out=_OWN)
@click.option(
    "--concurrency", type=_positive, help="Users in a closed loop.  [default: 64]", metavar="N"
)
@click.option(
    "--rate", type=Numbers(float, 1), help="Random arrivals, requests per second.", metavar="X"
)
@click.option(
    "--stagger/--no-stagger",
    default=None,
    help="Spread the users' starts over a first request.  [default: stagger]",
)
@click.option(
    "--objective",
    "objectives",
    type=Names(OBJECTIVES),
    default="throughput,speed",
    help=f"What is to be good, the winner's first: {', '.join(OBJECTIVES)}.",
)
@click.option(
    "--slo",
    type=Pairs(LIMITS, positive=True),
    help="What must hold: ttft and tpot (p99, seconds), speed (mean, tok/s/user).",
)
@click.option(
    "--scheduler",
    "schedulers",
    multiple=True,
    metavar="S",
    help="What may be chosen; static, threshold and topk without a value are tuned.  [default: "
    "none, static, threshold, greedy, topk]",
)
@click.option(
    "--block-size",
    type=Numbers(int, most=1 << 16),
    help="Drafts per round to choose from, for schedulers that draft whole blocks.  [default: "
    "1,2,…,γ]",
)
@click.option(
    "--max-running",
    type=Numbers(int, most=1 << 16),
    help="Limits to choose from.  [default: 8,16,…,1024]",
)
@click.option(
    "--token-budget",
    type=Numbers(int, most=1 << 24),
    help="Budgets to choose from.  [default: 512,1024,…,16384]",
)
@click.option(
    "--graph-sizes",
    multiple=True,
    metavar="LADDER",
    help="Ladders to choose from, as simulate takes them, or 'profile'.  [default: profile]",
)
@click.option("--trials", type=click.IntRange(1, 100_000), default=100, help="Trials to add.")
@click.option("--no-pruning", is_flag=True, help="Simulate every trial in full.")
@click.option(
    "--storage",
    metavar="FILE|URL",
    help="SQLite file or database URL of the study, to go on with it or to share it.  "
    "[default: tune.db in the user's data folder]",
)
@click.option("--study", metavar="NAME", help="The study's name.  [default: by its content]")
@cache_options
@click.option(
    "--engine",
    "engines",
    type=Names(ENGINES),
    default=",".join(ENGINES),
    help="Engines whose settings for the winner are printed.",
)
@click.option(
    "--export", metavar="DIR", help="Write these settings, a folder per engine, with their tables."
)
@click.option("--json", "json_path", metavar="OUT", help="Write workbench.tune/1; - is stdout.")
def command(**given):
    """Search schedulers, their parameters and engine limits for the best at one load.

    Prints the configurations that no other beats, and the best by the first objective as engines'
    settings and as a simulate command. The same study goes on where it ended, also from other
    machines.
    """
    tuner_module = _tuner_module()
    if given["study"] is not None and not 0 < len(given["study"]) <= _LONGEST_NAME:
        raise InputError(
            f"is a name of 1 to {_LONGEST_NAME} letters", place="--study", mend="give another"
        )
    setup, families = _setup(given)
    storage = storage_url(given["storage"])
    outputs = {"--storage": storage_file(storage), "--json": given["json_path"]}
    check_outputs(outputs, setup.files(), streams=("--json",))
    if given["export"] is not None:
        check_folder(given["export"], outputs)
    problem = _problem(given, setup, families)
    cache = open_cache(given)
    began, complete = time.perf_counter(), True
    kinds = []
    with (
        progress_bar(given["trials"], "tuning") as advance,
        Pool(problem.demands(setup.demand), jobs=job_count(given), cache=cache) as pool,
    ):
        with held_interrupts(), storage_errors(storage):
            tuner = tuner_module.Tuner(problem, pool, storage=storage, name=given["study"])
        try:
            tuner.run(given["trials"], on_trial=advance)
            kinds = tuner.by_family()
        except KeyboardInterrupt:
            complete = False
            pool.close(at_once=True)
    counts = tuner.counts()
    click.echo(
        f"study {tuner.name} in {shown(storage)}: {counts['complete']} finished, "
        f"{counts['pruned']} pruned, {counts['fail']} failed; {time.perf_counter() - began:.1f} s",
        err=True,
    )
    report(given, setup, problem, tuner, kinds, complete)
    return 0 if complete else 130


def _tuner_module() -> ModuleType:
    try:
        from workbench.frontier import tuner
    except ImportError as error:
        raise InputError(
            f"needs Optuna ({error})", place="tune", mend="pip install '.[tune]'"
        ) from error
    return tuner


def _setup(given: dict) -> tuple[Setup, tuple[str, ...]]:
    rate = given["rate"][0] if given["rate"] else None
    concurrency = given["concurrency"]
    if not (concurrency or rate or given["arrivals"]):
        concurrency = DEFAULT_CONCURRENCY
    stagger = given["stagger"]
    if stagger is None:
        stagger = concurrency is not None

    def setup(schedulers):
        return Setup(
            as_simulate(
                given,
                schedulers=schedulers,
                concurrency=(concurrency,) if concurrency else None,
                rate=(rate,) if rate else None,
                stagger=stagger,
                slo=None,
                lag=None,
                graph_sizes=None,
                block_size=None,
                max_running=256,
                token_budget=8192,
            )
        )

    families = tuple(spelled_out(given["schedulers"]))
    if not given["traces"]:
        families = families or ("none",)
        return setup(families), families
    if not families:
        traces = [read_trace(weighted(name)[0]) for name in given["traces"]]
        families = default_families(
            all(trace.confidence is not None for trace in traces),
            max(trace.header.confidence_sees for trace in traces),  # token, if any does
            max(trace.header.temperature for trace in traces),
        )
    examples = Space(families, 1, (), (), ()).examples()
    return setup(examples), families


def _blocks(given: dict, families: tuple[str, ...], gamma: int) -> tuple[int, ...]:
    """Drafts per round to choose from; empty where no scheduler drafts whole blocks."""
    asked = given["block_size"]
    if not any(drafts_blocks(family) for family in families):
        if asked:
            raise InputError(
                "no scheduler here drafts a whole block",
                place="--block-size",
                mend="leave it out: static chooses its own k",
            )
        return ()
    if asked and max(asked) > gamma:
        raise InputError(
            f"{max(asked)} drafts cannot be used of blocks of {gamma}",
            place="--block-size",
            mend=f"give 1 to {gamma}",
        )
    return tuple(sorted(asked)) if asked else tuple(range(1, gamma + 1))


def _problem(given: dict, setup: Setup, families: tuple[str, ...]) -> Problem:
    for scheduler in check_families(families, setup.gamma):
        require_confidence(setup.population, scheduler)
    ladders = tuple(dict.fromkeys(given["graph_sizes"])) or (MEASURED,)
    space = Space(
        families,
        setup.gamma,
        given["max_running"] or _RUNNING,
        given["token_budget"] or _BUDGETS,
        ladders,
        _blocks(given, families, setup.gamma),
    )
    deployments = Deployments(setup.arms[0], setup.profile, setup.gamma)
    for sizes in ladders:  # a wrong ladder is said right here
        deployments.arm(Configuration(space.examples()[0], 1, 1, sizes))
    objectives = given["objectives"]
    if "energy" in objectives and setup.profile.power is None:
        raise InputError(
            "has no power curve", file=setup.profile.name, place="--objective energy",
            mend="choose other objectives or a profile with power",
        )  # fmt: skip
    if "usd" in objectives and given["gpu_hour_usd"] is None:
        raise InputError("needs a price", place="--objective usd", mend="give --gpu-hour-usd")
    load = setup.loads[0]
    return Problem(
        space,
        deployments,
        load,
        given["seed"],
        setup.demand.count(load),
        objectives,
        given["slo"] or {},
        given["gpu_hour_usd"],
        not given["no_pruning"],
    )
