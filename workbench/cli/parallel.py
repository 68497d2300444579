"""Options and progress of commands that simulate many points: processes, cache, a bar."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from workbench.cli.console import make_console
from workbench.compiled import is_cold
from workbench.errors import InputError
from workbench.frontier import Cache, default_folder
from workbench.serving import kernels

_REDRAW = 0.1  # seconds between drawings of the bar


def cache_options(function):
    """--jobs, --cache and --no-cache."""
    for option in (
        click.option("--no-cache", is_flag=True, help="Simulate everything, and keep nothing."),
        click.option(
            "--cache",
            "cache_folder",
            metavar="DIR",
            help="Where finished simulations are kept by content.  [default: the user's cache]",
        ),
        click.option(
            "--jobs",
            type=click.IntRange(1, 1024),
            help="Processes that simulate.  [default: one per core]",
        ),
    ):
        function = option(function)
    return function


def open_cache(given: dict) -> Cache | None:
    """The cache that the options ask for, ready to be written; None for --no-cache."""
    if given["no_cache"]:
        if given["cache_folder"] is not None:
            raise InputError("exclude each other", place="--cache and --no-cache", mend="give one")
        return None
    folder = given["cache_folder"]
    if folder == "":
        raise InputError("no folder is named", place="--cache", mend="name one, or leave it out")
    cache = Cache(default_folder() if folder is None else Path(folder))
    cache.prepare()
    return cache


def job_count(given: dict) -> int:
    """Processes to use: as asked, else a core each."""
    if given["jobs"]:
        return given["jobs"]
    # the cores this process may use, where the system can tell (macOS cannot)
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


@contextmanager
def progress_bar(total: int, what: str) -> Iterator:
    """A bar on stderr, where that is a terminal; gives a function that advances it by one."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=make_console(stderr=True),
        transient=True,
        auto_refresh=False,  # by a thread, beside which processes could not be forked
        disable=sys.stderr is None or not sys.stderr.isatty(),
    )
    with bar:
        first = "compiling, once on this machine" if is_cold(kernels.commit_rounds) else what
        task, drawn = bar.add_task(first, total=total), 0.0
        bar.refresh()

        def advance(words: str = what) -> None:
            nonlocal drawn
            now = time.monotonic()
            bar.update(task, advance=1, description=words, refresh=now - drawn > _REDRAW)
            drawn = now if now - drawn > _REDRAW else drawn

        yield advance
