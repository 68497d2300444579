"""Which replica a request goes to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Protocol

from workbench.errors import InputError


class Loaded(Protocol):
    """What a router may know of a replica."""

    @property
    def in_system(self) -> int:
        """Requests that wait or run."""

    @property
    def outstanding_tokens(self) -> int:
        """Prompt and output tokens of the requests in the system."""


Router = Callable[[int, int], int]
"""router(serial, session) -> replica index; session is −1 for a request without one."""


def _round_robin(replicas: Sequence[Loaded]) -> Router:
    turn = count()
    return lambda serial, session: next(turn) % len(replicas)


def _shortest_queue(replicas: Sequence[Loaded]) -> Router:
    return lambda serial, session: min(
        range(len(replicas)), key=lambda index: replicas[index].in_system
    )


def _least_loaded(replicas: Sequence[Loaded]) -> Router:
    return lambda serial, session: min(
        range(len(replicas)), key=lambda index: replicas[index].outstanding_tokens
    )


def _session_affinity(replicas: Sequence[Loaded]) -> Router:
    home: dict[int, int] = {}
    fallback = _shortest_queue(replicas)

    def route(serial: int, session: int) -> int:
        if session < 0:
            return fallback(serial, session)
        if session not in home:
            home[session] = fallback(serial, session)
        return home[session]

    return route


ROUTERS: dict[str, Callable[[Sequence[Loaded]], Router]] = {
    "round-robin": _round_robin,  # in turn
    "shortest-queue": _shortest_queue,  # fewest requests in the system, ties to the first
    "least-loaded": _least_loaded,  # fewest outstanding tokens, ties to the first
    "session": _session_affinity,  # a session's first replica; new ones as shortest-queue
}


def make_router(name: str, replicas: Sequence[Loaded]) -> Router:
    """A fresh router by name. Raises InputError listing the routers there are."""
    if name not in ROUTERS:
        raise InputError(
            f"no router '{name}'", place="--router", mend=f"there are {', '.join(ROUTERS)}"
        )
    return ROUTERS[name](replicas)
