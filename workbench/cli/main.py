"""Entry point: finds the subcommand, turns every input error into one line and exit code 2."""

from __future__ import annotations

import importlib
import os
import sys

import click

from workbench import __version__
from workbench.errors import InputError

# name -> module holding a click command called ``command``; imported when used, so start-up is fast
COMMANDS = {
    "simulate": ("workbench.cli.simulate", "replay traces through schedulers on a profile"),
    "audit": ("workbench.cli.audit", "prove or refute that a scheduler is lossless"),
    "trace": ("workbench.cli.trace", "look at recorded traces"),
    "profile": ("workbench.cli.profile", "look at measured step costs"),
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
    """Run a click command; returns the exit code. Bad input is one line on stderr and 2."""
    try:
        code = command.main(args=args, prog_name=prog_name, standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help())
        return 2
    except click.ClickException as error:
        ctx = getattr(error, "ctx", None)
        path = ctx.command_path if ctx else prog_name
        message = " ".join(error.format_message().split())
        click.echo(f"{path}: {message} (see {path} --help)", err=True)
        return 2
    except InputError as error:
        click.echo(f"{prog_name}: {error}", err=True)
        return 2
    except (click.Abort, KeyboardInterrupt):
        click.echo(f"{prog_name}: interrupted", err=True)
        return 130
    except BrokenPipeError:
        # the reader (head, less) has gone: not an error, and nothing more may be flushed to it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def main() -> None:
    sys.exit(run(cli, "workbench"))


if __name__ == "__main__":
    main()
