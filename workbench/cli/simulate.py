"""``workbench simulate``: replay traces through schedulers on a profile and compare them."""

from __future__ import annotations

from pathlib import Path

import click
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from workbench.cli.console import make_console, write_json
from workbench.cli.notes import notes as notes_on
from workbench.cli.setup import Setup
from workbench.cli.values import Number, Numbers, Pairs
from workbench.compiled import is_cold, why_slow
from workbench.errors import InputError
from workbench.files import atomic_write, check_outputs
from workbench.profiles import default_profile_name
from workbench.report.comparison import by_load, columns_of, comparison_table, winner
from workbench.schedulers.calls import MOST_LAG
from workbench.serving import ROUTERS, kernels
from workbench.serving.options import QUEUES
from workbench.serving.requests_table import request_columns, write_requests
from workbench.serving.timeline import chrome_trace

_positive = click.IntRange(min=1, max=1 << 24)
_share = Number(min=0, max=1)


@click.command("simulate", context_settings={"show_default": True, "max_content_width": 100})
@click.option(
    "--trace",
    "traces",
    multiple=True,
    metavar="FILE[:WEIGHT]",
    help="Recorded trace, here or shipped; several are mixed by weight.",
)
@click.option(
    "--profile",
    default=default_profile_name,
    metavar="P",
    help="Step costs, a file or a shipped name.",
)
@click.option(
    "--scheduler",
    "schedulers",
    multiple=True,
    metavar="S",
    help="none, static:3, static:1-7, threshold:0.7, greedy, topk, …, file.py:Class.  [default: "
    "six]",
)
@click.option(
    "--concurrency",
    type=Numbers(int, most=1_000_000),
    help="Users in a closed loop.  [default: 1,16,64,256]",
)
@click.option("--rate", type=Numbers(float), help="Random arrivals, requests per second.")
@click.option(
    "--burstiness",
    type=Number(min=0.01, max=1000),
    metavar="CV",
    help="With --rate: gamma gaps of this coefficient of variation.  [default: Poisson]",
)
@click.option(
    "--on-off",
    type=Numbers(float, 2),
    help="With --rate: bursts and silence of these mean seconds.",
)
@click.option(
    "--arrivals",
    metavar="F",
    help="Replay a file's arrivals and lengths; 'trace': the trace's own arrival_s.",
)
@click.option(
    "--speedup",
    type=Number(min=0, min_open=True),
    default=1.0,
    help="With --arrivals: play so many times faster.",
)
@click.option(
    "--from",
    "start",
    type=Number(),
    metavar="S",
    help="With --arrivals: from this second of the file on.",
)
@click.option(
    "--to",
    "stop",
    type=Number(),
    metavar="S",
    help="With --arrivals: up to this second of the file.",
)
@click.option(
    "--requests",
    type=_positive,
    help="Requests to simulate.  [default: the trace or file, at least 8 per user]",
)
@click.option(
    "--block-size",
    type=click.IntRange(min=1),
    metavar="N",
    help="Draft only so many tokens a round.  [default: the trace's whole block]",
)
@click.option("--stagger", is_flag=True, help="Spread the users' starts over a first request.")
@click.option(
    "--max-running", type=click.IntRange(1, 1 << 16), default=256, help="Requests that run at once."
)
@click.option("--token-budget", type=_positive, default=8192, help="Batch tokens of a step.")
@click.option(
    "--kv-tokens",
    type=click.IntRange(1, 1 << 40),
    help="KV cache capacity in tokens.  [default: the profile's]",
)
@click.option(
    "--prefill",
    type=click.Choice(["mixed", "first"]),
    default="mixed",
    help="Prompts beside decoding (vLLM) or in steps of their own first (SGLang).",
)
@click.option(
    "--queue", type=click.Choice(QUEUES), default="fcfs", help="Order of the waiting queue."
)
@click.option(
    "--priority",
    type=Pairs(),
    help="With --queue priority: of each domain, lowest first, 0 if unnamed.",
)
@click.option(
    "--prefix-caching", is_flag=True, help="Keep finished sessions' KV for their next request."
)
@click.option(
    "--undrafted-loss",
    type=Number(min=0),
    help="With --prefix-caching: acceptance lost per share of the context restored.  [default: 0]",
)
@click.option(
    "--pipeline",
    type=click.Choice(["auto", "sync", "async"]),
    default="auto",
    help="Scheduling on the critical path, or overlapped.",
)
@click.option(
    "--lag",
    type=click.IntRange(1, MOST_LAG),
    help="Steps that lagged schedulers look back.  [default: their own]",
)
@click.option(
    "--new-survival", type=_share, help="What they assume of requests without a past.  [default: 1]"
)
@click.option(
    "--host-sync",
    type=Number(min=0),
    metavar="S",
    help="Host seconds of a synchronous step.  [default: the profile's]",
)
@click.option(
    "--host-async",
    type=Number(min=0),
    metavar="S",
    help="Host seconds of an overlapped step.  [default: the profile's]",
)
@click.option(
    "--graph-sizes",
    metavar="LADDER",
    help="Captured sizes: vllm, sglang, none or 1,2,4,8-256:8.  [default: the profile's]",
)
@click.option(
    "--uniform-width",
    is_flag=True,
    help="The padded verifier runs all drafts, whatever is trimmed.",
)
@click.option(
    "--align-tier", is_flag=True, help="Fill the padded graph with the next most likely drafts."
)
@click.option(
    "--replicas", type=click.IntRange(1, 1024), default=1, help="Replicas behind the router."
)
@click.option(
    "--router",
    type=click.Choice(list(ROUTERS)),
    help="Which replica a request goes to.  [default: round-robin]",
)
@click.option(
    "--planner-table", metavar="T", help="Costs that schedulers believe.  [default: the truth]"
)
@click.option(
    "--planner-lookup",
    type=click.Choice(["floor", "ceil", "linear", "cells"]),
    help="How the planner reads between its points.  [default: as the table's engine]",
)
@click.option(
    "--calibration",
    metavar="C",
    help="Temperatures by which schedulers see the confidences.  [default: as recorded]",
)
@click.option(
    "--slo",
    type=Pairs(("ttft", "tpot"), positive=True),
    help="Goodput under these seconds, as in ttft=0.5,tpot=0.02.",
)
@click.option(
    "--gpu-hour-usd",
    type=Number(min=0),
    help="Price of a GPU's hour, for $ per million tokens.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0, max=2**63 - 1),
    default=0,
    help="Seed of all random streams.",
)
@click.option("--json", "json_path", metavar="OUT", help="Write workbench.result/1; - is stdout.")
@click.option("--requests-out", metavar="OUT", help="Write every request, .csv or .parquet.")
@click.option(
    "--timeline", metavar="OUT", help="Write every step of a single run as a Chrome/Perfetto trace."
)
@click.pass_context
def command(ctx, **given):  # fmt: skip
    """Compare verification schedulers on recorded traces and a measured profile.

    Prints a table with a section per load; the last lines name the winner at each load. With
    --arrivals and no --trace, plain decoding with the file's lengths is simulated.
    """
    setup = Setup(given)
    _check_outputs(setup, given)
    cold = is_cold(kernels.commit_rounds)
    runs, tables, timeline, complete = _simulate(setup, given)
    if not runs:
        raise KeyboardInterrupt
    notes = notes_on(setup, runs)
    if (slow := why_slow()) is not None:
        notes.append(slow)
    if not complete:
        notes.insert(0, "interrupted: what follows is partial")
    if given["requests_out"]:
        write_requests(given["requests_out"], tables)
    if timeline is not None:
        with atomic_write(given["timeline"]) as file:
            file.write(timeline)
    if given["json_path"]:
        report = {"format": "workbench.result/1", "config": setup.config(), "notes": notes}
        report |= {"runs": runs} if complete else {"partial": True, "runs": runs}
        write_json(given["json_path"], report)
    if given["json_path"] != "-":
        if cold:
            notes.append("this run also compiled the inner loops, once on this machine")
        _print(runs, notes)
    return 0 if complete else 130


def _check_outputs(setup: Setup, given: dict) -> None:
    """Refuse before anything is simulated what could not be written after it."""
    outputs = {
        "--json": given["json_path"],
        "--requests-out": given["requests_out"],
        "--timeline": given["timeline"],
    }
    check_outputs(outputs, setup.files(), streams=("--json",))
    table = given["requests_out"]
    if table is not None and Path(table).suffix not in (".csv", ".parquet"):
        raise InputError(
            "is neither .csv nor .parquet", file=table, place="--requests-out", mend="choose one"
        )
    runs = len(setup.loads) * len(setup.arms)
    if given["timeline"] and runs > 1:
        raise InputError(
            f"holds one run, and {runs} are asked for",
            place="--timeline",
            mend="choose one --scheduler and one load",
        )


def _simulate(setup: Setup, given: dict):
    """All runs; on Ctrl-C the finished ones and the broken one as far as it came."""
    runs, tables, timeline = [], [], None
    total = sum(setup.demand.count(load) for load in setup.loads) * len(setup.arms)
    console = make_console(stderr=True)
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f} %"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with progress:
        task = progress.add_task("", total=total)
        for load in setup.loads:
            workload = setup.demand.workload(load, given["seed"])
            for arm in setup.arms:
                label = " ".join(str(part) for item in load.label().items() for part in item)
                progress.update(task, description=f"{arm.scheduler}, {label}")
                run = arm.run(
                    setup.demand,
                    load,
                    seed=given["seed"],
                    workload=workload,
                    on_progress=lambda done: progress.advance(task, done),
                )
                complete = True
                try:
                    run.run()
                except KeyboardInterrupt:
                    complete = False
                if run.recorder.completed_count or complete:
                    runs.append(run.result(slo=given["slo"], gpu_hour_usd=given["gpu_hour_usd"]))
                    runs[-1]["notes"] = list(workload.notes)
                    if given["requests_out"]:
                        tables.append(request_columns(run))
                    if given["timeline"]:
                        timeline = chrome_trace(run)
                if not complete:
                    return runs, tables, timeline, False
    return runs, tables, timeline, True


def _print(runs: list[dict], notes: list[str]) -> None:
    console = make_console()
    width = console.width if console.is_terminal else None
    columns, left_out = columns_of(runs, width)
    console.print(comparison_table(runs, columns))
    if left_out:
        console.print(f"({left_out} columns left out: widen the terminal or use --json)")
    for note in notes:
        console.print(f"note: {note}", soft_wrap=not console.is_terminal)
    for group in by_load(runs).values():
        console.print(winner(group), soft_wrap=True)
