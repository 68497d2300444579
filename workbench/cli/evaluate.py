"""``workbench evaluate``: how good a drafter is, from the traces recorded with it."""

from __future__ import annotations

import math

import click
from rich import box
from rich.table import Table

from workbench.cli.console import make_console, write_json
from workbench.drafting.evaluation import Evaluation, Group, evaluate
from workbench.files import check_outputs, resolve
from workbench.traces import read_trace
from workbench.traces.reading import SUFFIXES

FORMAT = "workbench.evaluation/1"


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="TRACE...")
@click.option("--json", "json_out", metavar="OUT", help="Write the numbers as JSON; - is stdout.")
@click.option("--plot", metavar="OUT.png", help="Draw acceptance by position (.png, .svg, .pdf).")
def command(files: tuple[str, ...], json_out: str | None, plot: str | None) -> None:
    """Accepted length by domain and benchmark, acceptance by position, threshold sweep.

    TRACE is a dense trace (`workbench record`) or the name of a shipped one.
    """
    paths = [resolve(name, "traces", SUFFIXES) for name in files]
    check_outputs({"--json": json_out, "--plot": plot}, paths, streams=("--json",))
    if plot is not None:
        from workbench.report.frontier_plot import check_suffix

        check_suffix(plot)
    found = [evaluate(read_trace(name)) for name in files]
    if plot is not None:
        # drawing libraries take longest to load
        from workbench.drafting.diagram import acceptance_diagram
        from workbench.report.frontier_plot import write_plot

        write_plot(plot, acceptance_diagram(found))
    if json_out is not None:
        write_json(json_out, {"format": FORMAT, "traces": found})
    if json_out != "-":
        for one in found:
            _print(one)


def _print(found: Evaluation) -> None:
    console = make_console()
    console.print(f"{found.trace}: {found.drafter or 'unnamed drafter'}, T = {found.temperature:g}")
    table = Table(box=box.SIMPLE_HEAD, header_style="bold")
    table.add_column("", overflow="fold")
    for column in ("requests", "rounds", "accepted length", "± s.e.", "all anchors"):
        table.add_column(column, justify="right")
    for k in range(found.block_size):
        table.add_column(f"P({k + 1})", justify="right")
    for group in found.domains:
        _add(table, group)
    # a trace of one benchmark would say everything twice
    if [g.name for g in found.benchmarks] != [g.name for g in found.domains]:
        table.add_section()
        for group in found.benchmarks:
            _add(table, group)
    console.print(table)
    for domain, sweep in found.sweep.items():
        table = Table(box=box.SIMPLE_HEAD, header_style="bold", title=domain, title_justify="left")
        for column in ("threshold", "accepted length", "verification budget", "acceptance rate"):
            table.add_column(column, justify="right")
        for one in sweep:
            rate = "–" if math.isnan(one.acceptance_rate) else f"{one.acceptance_rate:.1%}"
            figures = (_two(one.accepted_length), _two(one.verification_budget), rate)
            table.add_row(f"{one.threshold:.1f}", *figures)
        console.print(table)
    click.echo(
        "accepted length: tokens per round, bonus included, whole blocks verified; "
        "P(k): acceptance of draft k given that those before it passed"
    )


def _add(table: Table, group: Group) -> None:
    figures = (group.accepted_length, group.standard_error, group.all_anchors, *group.conditional)
    places = (_two, lambda x: "–" if math.isnan(x) else f"{x:.3f}") + (_two,) * 99
    texts = [place(x) for place, x in zip(places, figures, strict=False)]
    table.add_row(group.name, f"{group.requests:,}", f"{group.rounds:,}", *texts)


def _two(x: float) -> str:
    return "–" if math.isnan(x) else f"{x:.2f}"
