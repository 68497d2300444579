"""Which scheduler to deploy at each load: by how much, over what, and in how many seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from workbench.frontier.bands import Band, load_of
from workbench.report.comparison import Merit, merit_of


@dataclass(frozen=True)
class Gain:
    """How much better ``of`` is than ``over``, relative (0.5: +50 %); paired by seed."""

    of: str
    over: str
    band: Band


@dataclass(frozen=True)
class Advice:
    """The best lossless scheduler that could be deployed, under one load."""

    load: dict  # {"concurrency": 8} or {"rate": 2.0}
    best: str
    merit: str  # what decided, with its unit
    value: Band
    speed: Band | None  # tok/s/user, mean over requests
    throughput: Band
    accepted_length: float | None
    drafts: float | None  # verified per request and round
    overloaded: bool  # in an open loop, requests pile up even so
    seeds: int
    ahead: int  # seeds under which it is the best
    second: Gain | None  # over the next best
    baseline: Gain | None
    plain: Gain | None  # over no speculation
    fixed: Gain | None  # over the best of none and static:k
    biased: Gain | None  # of a better scheduler that changes the output, over this one


def advise(runs: Sequence[dict], baseline: str) -> list[Advice]:
    """An entry per load at which a lossless scheduler ran, loads ascending.

    runs: entries of workbench.result/1 with their ``seed``. Judged as ``comparison.winner`` does:
    by goodput if there is an SLO, else by throughput in a closed loop and by speed in an open one.
    """
    loads: dict[tuple, list[dict]] = {}
    for run in runs:
        if run["throughput_tok_s_gpu"] and not run["hindsight"]:
            loads.setdefault(load_of(run), []).append(run)
    return [one for load in sorted(loads) if (one := _advice(loads[load], baseline)) is not None]


def _advice(runs: list[dict], baseline: str) -> Advice | None:
    if not any(run["lossless"] for run in runs):
        return None
    merit = merit_of(runs)
    named: dict[str, list[dict]] = {}
    for run in sorted(runs, key=lambda run: run["seed"]):
        named.setdefault(run["scheduler"], []).append(run)
    lossless = [name for name, mine in named.items() if all(run["lossless"] for run in mine)]
    means = {name: fmean(merit.value(run) for run in mine) for name, mine in named.items()}

    def place(name: str) -> tuple[float, float]:  # ties go to the faster
        return means[name], fmean(run["speed_tok_s_user"]["mean"] or 0.0 for run in named[name])

    best = max(lossless, key=place)
    others = [name for name in lossless if name != best]
    biased = [name for name in named if name not in lossless and means[name] > means[best]]
    fixed = [name for name in others if name == "none" or name.startswith("static:")]

    def over(chosen: Sequence[str]) -> Gain | None:
        return _gain(merit, named, best, max(chosen, key=place)) if chosen else None

    mine = named[best]
    budget = _mean(run["verification_budget"] for run in mine)
    return Advice(
        load=dict([load_of(mine[0])]),
        best=best,
        merit=merit.name,
        value=Band.of([merit.value(run) for run in mine]),
        speed=Band.of([v for run in mine if (v := run["speed_tok_s_user"]["mean"]) is not None]),
        throughput=Band.of([run["throughput_tok_s_gpu"] for run in mine]),
        accepted_length=_mean(run["accepted_length"] for run in mine),
        drafts=None if budget is None else budget - 1,
        overloaded=any(run.get("overloaded") for run in mine),
        seeds=len(mine),
        ahead=_ahead(merit, named, best, others),
        second=over(others),
        baseline=over([baseline] if baseline in others else []),
        plain=over(["none"] if "none" in others else []),
        fixed=over(fixed),
        biased=_gain(merit, named, max(biased, key=place), best) if biased else None,
    )


def _mean(values) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _gain(merit: Merit, named: dict[str, list[dict]], name: str, other: str) -> Gain | None:
    """Of ``name`` over ``other`` in the seeds that both have; None where the other has nothing."""
    values = {run["seed"]: merit.value(run) for run in named[other]}
    gains = [
        merit.value(run) / values[run["seed"]] - 1 for run in named[name] if values.get(run["seed"])
    ]
    band = Band.of(gains)
    return None if band is None else Gain(name, other, band)


def _ahead(merit: Merit, named: dict[str, list[dict]], best: str, others: list[str]) -> int:
    """Seeds under which nothing else is better."""
    rivals: dict[int, float] = {}
    for name in others:
        for run in named[name]:
            rivals[run["seed"]] = max(rivals.get(run["seed"], 0.0), merit.value(run))
    return sum(merit.value(run) >= rivals.get(run["seed"], 0.0) for run in named[best])


def stretches(advices: Sequence[Advice]) -> list[list[Advice]]:
    """Neighbouring loads with the same best scheduler, together."""
    made: list[list[Advice]] = []
    for one in advices:
        if made and made[-1][-1].best == one.best:
            made[-1].append(one)
        else:
            made.append([one])
    return made
