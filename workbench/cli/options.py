"""The options of ``simulate`` for commands that simulate too, so that each has one meaning."""

from __future__ import annotations

from collections.abc import Callable

from workbench.cli.simulate import command as simulate

OUTPUTS = ("json_path", "requests_out", "timeline")  # of one simulate command only


def simulation_options(leave_out: tuple[str, ...] = ()) -> Callable:
    """Declare on a command every option of ``simulate`` but its outputs and ``leave_out``.

    leave_out: parameter names, as ``token_budget``.
    """
    chosen = [option for option in simulate.params if option.name not in (*OUTPUTS, *leave_out)]

    def declare(function: Callable) -> Callable:
        # click reads what decorators have left here, the last declared first
        function.__click_params__ = [*getattr(function, "__click_params__", []), *chosen[::-1]]
        return function

    return declare


def as_simulate(given: dict, **changes) -> dict:
    """What ``Setup`` takes, from the options of another command: its outputs unset."""
    names = [option.name for option in simulate.params]
    return {name: given.get(name) for name in names} | dict.fromkeys(OUTPUTS) | changes
