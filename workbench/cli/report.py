"""``workbench report``: a study as one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from workbench.cli.console import make_console
from workbench.cli.sweep import OUTPUTS, run_sweep, sweep_setups
from workbench.cli.sweep import command as sweep
from workbench.errors import InputError
from workbench.files import atomic_write, check_outputs

SUFFIXES = (".html", ".htm")


def _sweep_options(function: Callable) -> Callable:
    """Declare every option of ``sweep`` but its outputs."""
    chosen = [option for option in sweep.params if option.name not in OUTPUTS]
    # click reads what decorators have left here, the last declared first
    function.__click_params__ = [*getattr(function, "__click_params__", []), *chosen[::-1]]
    return function


@click.command("report", context_settings={"show_default": True, "max_content_width": 100})
@click.argument("out", metavar="OUT.html")
@click.option(
    "--sweep",
    "sweep_file",
    metavar="SWEEP.json",
    help="Report on what `workbench sweep --json` wrote, instead of the options below.",
)
@_sweep_options
@click.pass_context
def command(ctx, out, sweep_file, **given):
    """Write a study as one HTML file: question, recommendation, frontier, SLA table, inputs.

    Takes the options of sweep and simulates what is not in the cache, or reads a finished sweep.
    The file needs no network; the same study gives the same bytes.
    """
    if Path(out).suffix.lower() not in SUFFIXES:
        raise InputError("is no name of an HTML page", file=out, mend=f"end it in {SUFFIXES[0]}")
    study, complete = _read(ctx, out, sweep_file) if sweep_file is not None else _swept(out, given)
    # drawing libraries take longest to load
    from workbench.report.page import recommendations, render

    text = render(study, run_files=sweep_file is None)
    with atomic_write(out) as file:
        file.write(text.encode())
    console = make_console()
    for line in recommendations(study):
        console.print(line, soft_wrap=True)
    console.print(f"{out}: {len(text.encode()) / 1e3:,.0f} kB", soft_wrap=True)
    return 0 if complete else 130


def _read(ctx, out: str, sweep_file: str):
    own = ("out", "sweep_file")
    for option in ctx.command.params:
        source = ctx.get_parameter_source(option.name)
        if option.name not in own and source is click.core.ParameterSource.COMMANDLINE:
            raise InputError(
                f"is settled in {sweep_file} already",
                place=option.opts[0],
                mend="leave it out, or leave out --sweep",
            )
    check_outputs({"OUT.html": out}, [sweep_file])
    from workbench.report.study import read_study

    return read_study(sweep_file), True


def _swept(out: str, given: dict):
    setups = sweep_setups(given)
    check_outputs({"OUT.html": out}, [path for setup in setups.values() for path in setup.files()])
    swept = run_sweep(given, setups)
    from workbench.report.study import study_of

    return study_of(swept.document()), swept.complete
