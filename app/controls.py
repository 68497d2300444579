"""What a sweep compares, chosen once and kept in the URL: schedulers, loads, engine, requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import streamlit as st

from app import widgets
from app.scene import Scene
from app.sweeps import Sweep, Wanted, begin
from workbench.errors import InputError
from workbench.frontier import Task
from workbench.frontier.digest import arm_digest, point_key
from workbench.schedulers import create, default_schedulers
from workbench.schedulers.user_file import is_file_spec
from workbench.serving import Arm, Load, Options

CONCURRENCY = ("1", "2", "4", "8", "16", "32", "64", "128", "256")
MORE_CONCURRENCY = (*CONCURRENCY, "96", "192", "384", "512", "1024")
RATES = ("1", "2", "4", "8", "16", "32")
MORE_RATES = (*RATES, "0.5", "12", "24", "48", "64")
CLOSED, OPEN = "users", "requests/s"
_MOST_POINTS = 400
_MOST_REQUESTS = 100_000  # of one point


@dataclass(frozen=True)
class Choices:
    """A sweep as it was chosen."""

    schedulers: tuple[str, ...]
    baseline: str
    loads: tuple[Load, ...]
    options: Options
    requests: int | None
    seed: int

    @property
    def open_loop(self) -> bool:
        """Whether requests come at a rate, not from waiting users."""
        return self.loads[0].rate is not None


def allowed(spec: str, gamma: int, control: str = "Schedulers") -> str:
    """The name of the scheduler that ``control`` has.

    Raises InputError for one that is unknown, or that is a file of code: a server must
    not run code that a link or a text field names.
    """
    if is_file_spec(spec):
        raise InputError(
            "schedulers from files are not run here",
            place=f"{control}: {spec}",
            mend="compare them with `workbench simulate` or `sweep`",
        )
    try:
        return create(spec, gamma).name
    except InputError as error:
        raise error.at(f"{control}: {spec}") from error


def choices(scene: Scene) -> Choices:
    """Draw the controls. Raises InputError for what makes no sweep."""
    gamma = scene.gamma
    default = _usual(scene)
    left, right = st.columns([3, 2])
    given = widgets.multiselect(
        left,
        "Schedulers",
        list(dict.fromkeys([*default, *_others(gamma)])),
        default,
        key="scheduler",
        accept_new_options=True,
        max_selections=16,
        help="Type any other: static:5, threshold:0.65, topk:lag=1 …",
    )
    schedulers = tuple(dict.fromkeys(allowed(spec, gamma) for spec in given))
    if not schedulers:
        raise InputError("none is chosen", place="Schedulers", mend="choose at least one")
    loads = _loads(right)
    first = _baseline(schedulers)
    with st.expander("Baseline, engine and length of the simulation", icon=":material/tune:"):
        columns = st.columns(4)
        asked = widgets.text(
            columns[0],
            "Baseline",
            key="baseline",
            placeholder=first,
            help="Gains are against this scheduler, one of those compared.",
        )
        baseline = allowed(asked, gamma, "Baseline") if asked.strip() else first
        if baseline not in schedulers:
            raise InputError(
                f"{baseline} is not compared",
                place="Baseline",
                mend=f"choose one of {', '.join(schedulers)}",
            )
        running = widgets.number(columns[1], "Max running requests", 1, 1 << 16, 256, key="running")
        budget = widgets.number(
            columns[2], "Token budget of a step", 1, 1 << 20, 8192, key="budget"
        )
        requests = widgets.number(
            columns[3],
            "Requests per point",
            0,
            _MOST_REQUESTS,
            0,
            key="requests",
            help="0: all of the trace, and at least 8 per user.",
        )
        seed = widgets.number(columns[0], "Seed", 0, 2**31, 0, key="seed")
    if len(loads) * len(schedulers) > _MOST_POINTS:
        raise InputError(
            f"{len(loads) * len(schedulers)} points are asked for, more than {_MOST_POINTS}",
            place="Schedulers and loads",
            mend="choose fewer, or use `workbench sweep`",
        )
    options = Options(max_running=int(running), token_budget=int(budget))
    return Choices(schedulers, baseline, loads, options, int(requests) or None, int(seed))


def defaults(scene: Scene) -> Choices:
    """What is compared as long as nothing is chosen."""
    schedulers = tuple(_usual(scene))
    loads = tuple(Load(concurrency=int(n), stagger=True) for n in CONCURRENCY)
    return Choices(schedulers, _baseline(schedulers), loads, Options(), None, 0)


def _baseline(schedulers: Sequence[str]) -> str:
    return "static:1" if "static:1" in schedulers else schedulers[0]


def _usual(scene: Scene) -> list[str]:
    usable = scene.population.confidence is not None
    return [
        spec
        for spec in default_schedulers(scene.gamma)
        if usable or not create(spec, scene.gamma).needs_confidence
    ]


def _others(gamma: int) -> list[str]:
    static = [f"static:{k}" for k in range(1, gamma + 1)]
    return [*static, "threshold:0.3", "threshold:0.5", "threshold:0.7", "global", "oracle"]


def _loads(place) -> tuple[Load, ...]:
    kind = widgets.segmented(
        place,
        "Load comes from",
        [CLOSED, OPEN],
        CLOSED,
        key="load",
        help="Users who each wait for their answer (closed loop), or requests at a rate (Poisson).",
    )
    closed = kind == CLOSED
    given = widgets.multiselect(
        place,
        "Users at once" if closed else "Requests per second",
        MORE_CONCURRENCY if closed else MORE_RATES,
        CONCURRENCY if closed else RATES,
        key="concurrency" if closed else "rate",
        accept_new_options=True,
        max_selections=24,
    )
    if not given:
        raise InputError("none is chosen", place="Load", mend="choose at least one")
    if closed:
        users = sorted({_number(text, int, 10_000) for text in given})
        return tuple(Load(concurrency=n, stagger=True) for n in users)
    return tuple(Load(rate=x) for x in sorted({_number(text, float, 10_000) for text in given}))


def _number(text: str, kind: type, most: float):
    try:
        number = kind(text)
    except ValueError:
        number = 0
    if not 0 < number <= most:
        word = "whole number" if kind is int else "number"
        raise InputError(f"'{text}' is no {word} above 0", place="Load", mend=f"up to {most:,}")
    return number


def sweep_of(scene: Scene, chosen: Choices) -> Sweep:
    """The sweep of these choices, begun if it does not run already."""
    return begin(scene.demand, points(scene, chosen))


@lru_cache(maxsize=16)
def points(scene: Scene, chosen: Choices) -> tuple[Wanted, ...]:
    """The points of a sweep, each with what makes it known again."""
    arms = {spec: Arm(spec, scene.cost, options=chosen.options) for spec in chosen.schedulers}
    digests = {spec: arm_digest(arm) for spec, arm in arms.items()}

    def task(spec: str, load: Load, requests: int) -> Task:
        key = point_key(digests[spec], scene.digest, load, chosen.seed, requests)
        return Task(key, arms[spec], 0, load, chosen.seed, name=spec, requests=requests)

    wanted = []
    for load in chosen.loads:
        full = chosen.requests or load.default_requests(len(scene.population.output))
        few = _few(load)
        for spec in chosen.schedulers:
            quick = task(spec, load, few) if 2 * few <= full else None
            wanted.append(Wanted(task(spec, load, full), quick))
    return tuple(wanted)


def _few(load: Load) -> int:
    """Requests of the quick pass: enough for a steady window of about a request per user."""
    return max(60, 4 * load.concurrency) if load.concurrency else 120
