"""Points and frontiers of one study group, with their spread over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from workbench.frontier.pareto import Curve, non_dominated
from workbench.frontier.sla import SlaRow, sla_rows


@dataclass(frozen=True)
class Band:
    """A figure over seeds: mean, lowest and highest."""

    mean: float
    min: float
    max: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Band | None:
        """The band of these values, None without any."""
        if not len(values):
            return None
        return cls(float(np.mean(values)), float(np.min(values)), float(np.max(values)))


@dataclass(frozen=True)
class Point:
    """A scheduler under one load: its runs of all seeds."""

    load: dict  # {"concurrency": 8} or {"rate": 2.0}
    speed: Band | None  # tok/s/user, mean over requests
    throughput: Band | None  # tok/s/GPU
    ttft_p99_s: Band | None
    accepted_length: Band | None
    verification_budget: Band | None
    overloaded: bool  # in an open loop, requests piled up: not on a frontier
    on_frontier: bool = False  # no other load of this scheduler is better in both
    best: bool = False  # nor any load of any scheduler that could be deployed


@dataclass(frozen=True)
class SchedulerFrontier:
    """One scheduler over all loads."""

    scheduler: str
    lossless: bool
    hindsight: bool
    replay: str
    points: list[Point]
    curve: Curve  # through the means over seeds
    by_seed: list[Curve]


@dataclass(frozen=True)
class GroupFrontier:
    """All schedulers on one demand and one profile; what a table or a plot shows."""

    name: str
    baseline: str
    schedulers: list[SchedulerFrontier]
    sla: dict[float, list[SlaRow]]  # by anchor, tok/s/user


def group_frontier(
    name: str, runs: Sequence[dict], baseline: str, anchors: Sequence[float] | None = None
) -> GroupFrontier:
    """Frontiers of ``runs`` (entries of workbench.result/1, each with its ``seed``).

    anchors: tok/s/user of the SLA table; None: three that divide the baseline's range of speeds.
    """
    named: dict[str, list[dict]] = {}
    for run in runs:
        named.setdefault(run["scheduler"], []).append(run)
    schedulers = [_scheduler(spec, mine) for spec, mine in named.items()]
    schedulers = _marked(schedulers)
    if anchors is None:
        anchors = default_anchors(schedulers, baseline)
    curves = {one.scheduler: one.by_seed for one in schedulers}
    return GroupFrontier(
        name,
        baseline,
        schedulers,
        {anchor: sla_rows(curves, baseline, anchor) for anchor in anchors},
    )


def default_anchors(schedulers: Sequence[SchedulerFrontier], baseline: str) -> list[float]:
    """Speeds at a quarter, half and three quarters of the baseline's range.

    Of two digits; more where none of two lies in the range.
    """
    speeds = next((s.curve.speed for s in schedulers if s.scheduler == baseline), np.zeros(0))
    if not len(speeds):
        return []
    parts = np.interp([0.25, 0.5, 0.75], [0, 1], [speeds[0], speeds[-1]])
    return list(dict.fromkeys(_rounded(speed, speeds[0], speeds[-1]) for speed in parts))


def _rounded(speed: float, low: float, high: float) -> float:
    """With the fewest digits that keep it in low..high."""
    rounded = (float(f"{speed:.{digits}g}") for digits in range(2, 18))
    return next((value for value in rounded if low <= value <= high), float(speed))


def on_curve(run: dict) -> bool:
    """Whether a run is an operating point: it has both figures and, in an open loop, keeps up."""
    known = run["speed_tok_s_user"]["mean"] and run["throughput_tok_s_gpu"]
    return bool(known) and not run.get("overloaded")


def load_of(run: dict) -> tuple[str, float]:
    """The load of a run: its kind and number."""
    kind = "concurrency" if "concurrency" in run else "rate"
    return kind, run[kind]


def _curve(runs: Sequence[dict]) -> Curve:
    able = [run for run in runs if on_curve(run)]
    return Curve.through(
        [run["speed_tok_s_user"]["mean"] for run in able],
        [run["throughput_tok_s_gpu"] for run in able],
    )


def _scheduler(spec: str, runs: list[dict]) -> SchedulerFrontier:
    loads: dict[tuple, list[dict]] = {}
    seeds: dict[int, list[dict]] = {}
    for run in runs:
        loads.setdefault(load_of(run), []).append(run)
        seeds.setdefault(run["seed"], []).append(run)
    points = [_point(load, loads[load]) for load in sorted(loads)]
    able = [point for point in points if _able(point)]
    return SchedulerFrontier(
        scheduler=spec,
        lossless=all(run["lossless"] for run in runs),
        hindsight=runs[0]["hindsight"],
        replay=runs[0]["replay"],
        points=points,
        curve=Curve.through([p.speed.mean for p in able], [p.throughput.mean for p in able]),
        by_seed=[_curve(seeds[seed]) for seed in sorted(seeds)],
    )


def _able(point: Point) -> bool:
    return bool(point.speed and point.throughput and not point.overloaded)


def _point(load: tuple[str, float], runs: list[dict]) -> Point:
    def band(figure) -> Band | None:
        return Band.of([value for run in runs if (value := figure(run)) is not None])

    return Point(
        load=dict([load]),
        speed=band(lambda run: run["speed_tok_s_user"]["mean"]),
        throughput=band(lambda run: run["throughput_tok_s_gpu"]),
        ttft_p99_s=band(lambda run: run["ttft_s"]["p99"]),
        accepted_length=band(lambda run: run["accepted_length"]),
        verification_budget=band(lambda run: run["verification_budget"]),
        overloaded=any(run.get("overloaded") for run in runs),
    )


def _marked(schedulers: list[SchedulerFrontier]) -> list[SchedulerFrontier]:
    """The same with ``on_frontier`` and ``best`` set."""
    places = [
        (s, p)
        for s, one in enumerate(schedulers)
        for p, point in enumerate(one.points)
        if _able(point)
    ]

    def chosen(among: list[tuple[int, int]]) -> set[tuple[int, int]]:
        points = [schedulers[s].points[p] for s, p in among]
        kept = non_dominated([p.speed.mean for p in points], [p.throughput.mean for p in points])
        return {among[index] for index in kept}

    own: set[tuple[int, int]] = set()
    for s in range(len(schedulers)):
        own |= chosen([place for place in places if place[0] == s])
    best = chosen([place for place in places if not schedulers[place[0]].hindsight])
    return [
        replace(
            one,
            points=[
                replace(point, on_frontier=(s, p) in own, best=(s, p) in best)
                for p, point in enumerate(one.points)
            ],
        )
        for s, one in enumerate(schedulers)
    ]
