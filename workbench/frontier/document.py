"""A sweep's results as one document, ``workbench.sweep/1`` (docs/sweep.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from workbench.frontier.bands import GroupFrontier, SchedulerFrontier
from workbench.frontier.study import Study

FORMAT = "workbench.sweep/1"


def document(study: Study, frontiers: Sequence[GroupFrontier], config: dict) -> dict:
    """``workbench.sweep/1`` (docs/sweep.md). Same inputs, same bytes: no wall times in it."""
    position = {group.name: index for index, group in enumerate(study.groups)}
    return {
        "format": FORMAT,
        "config": config,
        "groups": [
            {
                "name": group.name,
                "baseline": group.baseline,
                "schedulers": [_scheduler(one) for one in group.schedulers],
                "sla": [
                    {"speed_tok_s_user": anchor, "rows": [asdict(row) for row in rows]}
                    for anchor, rows in group.sla.items()
                ],
                "runs": [_run(run) for run in study.ordered(position[group.name])],
            }
            for group in frontiers
        ],
    }


def _scheduler(one: SchedulerFrontier) -> dict:
    return {
        "scheduler": one.scheduler,
        "lossless": one.lossless,
        "hindsight": one.hindsight,
        "replay": one.replay,
        "points": [asdict(point) for point in one.points],
        "frontier": {
            "speed_tok_s_user": one.curve.speed.tolist(),
            "throughput_tok_s_gpu": one.curve.throughput.tolist(),
        },
    }


def _run(run: dict) -> dict:
    return {key: value for key, value in run.items() if key not in ("wall_s", "group", "notes")}
