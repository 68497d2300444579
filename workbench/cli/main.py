"""Entry point: finds the subcommand; whatever goes wrong outside is one line and exit code 2."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import warnings

try:
    import click

    from workbench import __version__
    from workbench.errors import InputError
except KeyboardInterrupt:  # loading takes a moment, in which ``run`` is not there yet
    print("workbench: interrupted", file=sys.stderr)
    raise SystemExit(130) from None

# name -> module holding a click command called ``command``; imported when used, so start-up is fast
COMMANDS = {
    "simulate": ("workbench.cli.simulate", "replay traces through schedulers on a profile"),
    "sweep": ("workbench.cli.sweep", "frontier of every scheduler over load, and SLA table"),
    "tune": ("workbench.cli.tune", "search schedulers and limits for the best at one load"),
    "report": ("workbench.cli.report", "a sweep as one HTML file, with recommendations"),
    "figures": ("workbench.cli.figures", "the DSpark paper's figures from your own data"),
    "calibrate": ("workbench.cli.calibrate", "fit temperatures that make confidences honest"),
    "audit": ("workbench.cli.audit", "prove or refute that a scheduler is lossless"),
    "trace": ("workbench.cli.trace", "look at recorded traces"),
    "profile": ("workbench.cli.profile", "look at measured step costs"),
    "train": ("workbench.cli.train", "train a DFlash or DSpark drafter (torch)"),
    "record": ("workbench.cli.record", "record a dense trace with a drafter (torch)"),
    "evaluate": ("workbench.cli.evaluate", "accepted length and acceptance of recorded traces"),
}


class _Lazy(click.Group):
    def list_commands(self, ctx):
        return list(COMMANDS)

    def get_command(self, ctx, name):
        if name not in COMMANDS:
            return None
        return importlib.import_module(COMMANDS[name][0]).command

    def resolve_command(self, ctx, args):
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.UsageError(f"no command '{args[0]}'; there are {', '.join(COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx, formatter):
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="workbench")
def cli():
    """Which verification scheduler, at my load, on my GPU? Answered before deployment."""


def run(command: click.Command, prog_name: str, args: list[str] | None = None) -> int:
    """Run a click command; returns the exit code. Whatever ends it early is one line on stderr.

    2: bad input, no room for output, not enough memory; 130: interrupted. A reader of stdout that
    has gone (``| head``) is no error.
    """
    try:
        with warnings.catch_warnings():
            # a file's name may have letters that a plot's font lacks
            warnings.filterwarnings("ignore", r"Glyph .* missing from font", UserWarning)
            code = _invoke(command, prog_name, args)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        _discard_stdout()
        return 0
    except BaseException as error:
        said = _last_words(error, prog_name)
        if said is None:
            raise
        code, line = said
        _say(line)
        return code


def _invoke(command: click.Command, prog_name: str, args: list[str] | None) -> int:
    """The command's exit code. Not by ``main`` of click, which turns a closed pipe into 1."""
    args = sys.argv[1:] if args is None else list(args)
    variable = f"_{prog_name}_COMPLETE".replace("-", "_").upper()
    if instruction := os.environ.get(variable):
        from click.shell_completion import shell_complete

        return shell_complete(command, {}, prog_name, variable, instruction)
    try:
        with command.make_context(prog_name, args) as context:
            code = command.invoke(context)
    except click.exceptions.Exit as done:
        code = done.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help())
        code = 2
    return code if isinstance(code, int) else 0


def _last_words(error: BaseException, prog_name: str) -> tuple[int, str] | None:
    """Exit code and line for an error that is not the program's own fault; None for any other."""
    if isinstance(error, click.ClickException):
        context = getattr(error, "ctx", None)
        path = context.command_path if context else prog_name
        return 2, f"{path}: {error.format_message()} (see {path} --help)"
    if isinstance(error, InputError):
        return 2, f"{prog_name}: {error}"
    if isinstance(error, click.Abort | KeyboardInterrupt):
        return 130, f"{prog_name}: interrupted"
    if isinstance(error, MemoryError):
        what = f" ({error})" if str(error) else ""
        return 2, f"{prog_name}: not enough memory{what}; lower the sizes asked for"
    if isinstance(error, RecursionError):
        return 2, f"{prog_name}: the input is nested too deeply ({error}); make it flatter"
    if isinstance(error, UnicodeEncodeError):
        text = ascii(error.object[error.start : error.end][:20])
        mend = "set PYTHONIOENCODING=utf-8, or take it out of the names"
        return 2, f"{prog_name}: {text} cannot be written as {error.encoding}; {mend}"
    if isinstance(error, OSError):
        _discard_stdout()
        where = f"{error.filename}: " if error.filename is not None else "the output: "
        return 2, f"{prog_name}: {where}{error.strerror or error}"
    return None


def _say(line: str) -> None:
    """One line on stderr, where there is one."""
    with contextlib.suppress(OSError, ValueError):
        click.echo(" ".join(line.split()), err=True)


def _discard_stdout() -> None:
    """Let what Python still flushes to stdout at its end go nowhere, rather than fail again."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main() -> None:
    sys.exit(run(cli, "workbench"))


if __name__ == "__main__":
    main()
