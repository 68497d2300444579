"""A command line that does again what was done: only what differs from the defaults."""

from __future__ import annotations

import shlex

import click


def command_line(command: click.Command, given: dict) -> str:
    """``workbench NAME --option value …`` for these values by parameter name.

    Options that are absent, unset or at their default are left out.
    """
    words = ["workbench", command.name]
    for option in command.params:
        value = given.get(option.name)
        if value is None or value == option.get_default(click.Context(command)) or value == ():
            continue
        flag = option.opts[0]
        if option.is_flag:
            words.append(flag if value else option.secondary_opts[0])
        elif option.multiple:
            words += [word for one in value for word in (flag, _text(one))]
        else:
            words += [flag, _text(value)]
    return shlex.join(words)


def _text(value: object) -> str:
    if isinstance(value, dict):
        return ",".join(f"{key}={_text(one)}" for key, one in value.items())
    if isinstance(value, tuple | list):
        return ",".join(_text(one) for one in value)
    return repr(value) if isinstance(value, float) else str(value)
