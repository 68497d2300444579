"""What commands print with: one console for all, and JSON to a file or to stdout."""

from __future__ import annotations

import sys

import click
import msgspec
from rich.console import Console

from workbench.files import atomic_write

WIDE = 160  # columns where nothing says how wide the reader's page is


class _Console(Console):
    def on_broken_pipe(self) -> None:
        # rich would exit with code 1; `workbench … | head` is no error
        raise BrokenPipeError


def make_console(*, stderr: bool = False, wide: int = WIDE) -> Console:
    """A console on stdout or stderr: as wide as the terminal, else ``wide`` columns.

    Text is printed as it is: no colours by guess, no markup or emoji codes in names. A reader that
    has gone raises BrokenPipeError, which ends the program quietly. A closed stream takes
    everything and shows nothing. On stderr it is for progress, which only a terminal is shown.
    """
    stream = sys.stderr if stderr else sys.stdout
    terminal = stream is not None and stream.isatty()
    return _Console(
        stderr=stderr,
        width=None if terminal else wide,
        highlight=False,
        markup=False,
        emoji=False,
        quiet=stderr and not terminal,
    )


def write_json(path: str, document: object) -> None:
    """Write ``document`` (what msgspec encodes), indented by one, to a file or, for ``-``, stdout.

    Raises InputError if the file cannot be written.
    """
    text = msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"
    if path == "-":
        click.echo(text.decode(), nl=False)
        return
    with atomic_write(path) as file:
        file.write(text)
