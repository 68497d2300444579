"""Schedulers by name: ``static:3``, ``topk:lag=2``, ``my_rules.py:Mine:margin=0.1``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from workbench.errors import InputError
from workbench.schedulers.base import Scheduler
from workbench.schedulers.global_search import GlobalSearch
from workbench.schedulers.greedy import Greedy
from workbench.schedulers.oracle import Oracle
from workbench.schedulers.static import NoSpeculation, Static
from workbench.schedulers.threshold import Threshold
from workbench.schedulers.topk import TopK
from workbench.schedulers.user_file import from_file, is_file_spec


@dataclass(frozen=True)
class Entry:
    """One built-in scheduler: how it is written, made and described."""

    form: str  # as a user writes it
    summary: str
    make: Callable[..., Scheduler]  # make(block_size, **parameters)
    parameters: dict[str, Callable[[str], object]] = field(default_factory=dict)
    required: bool = False  # whether the first parameter has to be given


def _variant(text: str) -> bool:
    if text != "path":
        raise ValueError(text)
    return True


SCHEDULERS = {
    "none": Entry("none", "no speculation", lambda gamma: NoSpeculation(gamma)),
    "static": Entry(
        "static:k",
        "verify k drafts of every request (MTP-k)",
        lambda gamma, k: Static(k, gamma),
        {"k": int},
        required=True,
    ),
    "threshold": Entry(
        "threshold:h",
        "verify up to the first confidence below h",
        lambda gamma, h: Threshold(h),
        {"h": float},
        required=True,
    ),
    "greedy": Entry(
        "greedy", "admit by survival while throughput rises (Algorithm 1)", lambda gamma: Greedy()
    ),
    "topk": Entry(
        "topk[:lag]",
        "budget from survivals of lag (2) steps ago, tokens by current survival",
        lambda gamma, **lag: TopK(**lag),
        {"lag": int},
    ),
    "global": Entry(
        "global", "best throughput over current survivals", lambda gamma: GlobalSearch()
    ),
    "oracle": Entry(
        "oracle[:path]",
        "verify what will be accepted; path: fewest rounds",
        lambda gamma, **path: Oracle(**path),
        {"path": _variant},
    ),
}

_MOST_SPAN = 256  # draft lengths of one range
FILE_FORM = "path/to/file.py:Class[:key=value,…]"


def forms() -> list[str]:
    """How each scheduler is written on the command line, users' own included."""
    return [entry.form for entry in SCHEDULERS.values()] + [FILE_FORM]


def create(spec: str, block_size: int) -> Scheduler:
    """A fresh scheduler from its specification, for drafts of ``block_size`` γ tokens.

    ``name``, ``name:value`` or ``name:key=value,…``; ``path/to/file.py:Class[:key=value,…]`` loads
    a user's class. Schedulers may keep state between steps, so make one per run.
    Raises InputError for an unknown name or parameter, or a file that cannot be loaded.
    """
    if is_file_spec(spec):
        return from_file(spec, block_size)
    name, _, text = spec.strip().partition(":")
    if name not in SCHEDULERS:
        raise InputError(
            f"no scheduler '{name}'",
            place=f"--scheduler {spec}",
            mend=f"there are {', '.join(forms())}",
        )
    entry = SCHEDULERS[name]
    parameters = _parameters(spec, entry, text)
    if entry.required and next(iter(entry.parameters)) not in parameters:
        raise _bad(spec, entry, f"'{name}' needs a value")
    return entry.make(block_size, **parameters)


def spelled_out(specs: Iterable[str]) -> list[str]:
    """The specifications with ranges of k, as ``static:1-7``, in full; each once."""
    said: list[str] = []
    for spec in specs:
        span = re.fullmatch(r"static:(\d+)-(\d+)", spec.strip())
        if span is None:
            said.append(spec)
            continue
        first, last = int(span[1]), int(span[2])
        if not first <= last < first + _MOST_SPAN:
            raise InputError(
                "is no range of draft lengths",
                place=f"--scheduler {spec}",
                mend="write static:FIRST-LAST, as in static:1-7",
            )
        said += [f"static:{k}" for k in range(first, last + 1)]
    return list(dict.fromkeys(said))


def default_schedulers(block_size: int) -> list[str]:
    """The specifications compared by default: none, static:1, static:3, static:γ, greedy, topk."""
    static = sorted({min(k, block_size) for k in (1, 3, block_size)})
    return ["none", *(f"static:{k}" for k in static), "greedy", "topk"]


def _parameters(spec: str, entry: Entry, text: str) -> dict[str, object]:
    parameters: dict[str, object] = {}
    for index, part in enumerate(text.split(",") if text else []):
        key, equals, value = part.partition("=")
        key = key.strip()
        if not equals:  # a bare value is the first parameter
            key, value = (next(iter(entry.parameters), ""), part) if index == 0 else ("", part)
        if key not in entry.parameters or key in parameters:
            raise _bad(spec, entry, f"unexpected '{part}'")
        try:
            parameters[key] = entry.parameters[key](value.strip())
        except ValueError:
            raise _bad(spec, entry, f"'{value}' is no value for {key}") from None
    return parameters


def _bad(spec: str, entry: Entry, problem: str) -> InputError:
    return InputError(problem, place=f"--scheduler {spec}", mend=f"write {entry.form}")
