"""A sweep's results as data: ``workbench.sweep/1``, and one flat row per simulation."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict

from workbench.errors import InputError
from workbench.files import atomic_write
from workbench.frontier.bands import GroupFrontier, SchedulerFrontier
from workbench.frontier.study import Study

FORMAT = "workbench.sweep/1"
_COUNTS = (
    "steps",
    "rounds",
    "requests",
    "requests_completed",
    "output_tokens",
    "prefill_tokens",
    "preemptions",
)
_SHARES = (
    "accepted_length",
    "acceptance_rate",
    "verification_budget",
    "rejected_share",
    "padded_share",
    "energy_j_token",
    "usd_per_million_tokens",
    "simulated_s",
)


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


def rows(study: Study, frontiers: Sequence[GroupFrontier]) -> list[dict]:
    """A flat row per simulation: group, scheduler, load, seed, then figures; None where absent."""
    marks = {
        (group.name, one.scheduler, *point.load.items()): point
        for group in frontiers
        for one in group.schedulers
        for point in one.points
    }
    made = []
    for index, group in enumerate(study.groups):
        for run in study.ordered(index):
            load = {kind: run[kind] for kind in ("concurrency", "rate") if kind in run}
            point = marks[(group.name, run["scheduler"], *load.items())]
            made.append(
                {
                    "group": group.name,
                    "scheduler": run["scheduler"],
                    "concurrency": load.get("concurrency"),
                    "rate": load.get("rate"),
                    "seed": run["seed"],
                    "lossless": run["lossless"],
                    "replay": run["replay"],
                    "on_frontier": point.on_frontier,
                    "best": point.best,
                    "overloaded": run.get("overloaded"),
                    "throughput_tok_s_gpu": run["throughput_tok_s_gpu"],
                    **{
                        f"{field}_{part}": value
                        for field in ("speed_tok_s_user", "ttft_s", "tpot_s")
                        for part, value in run[field].items()
                    },
                    **{name: run.get(name) for name in _SHARES},
                    **{name: run[name] for name in _COUNTS},
                    "attainment": (run.get("goodput") or {}).get("attainment"),
                    "window": run["window"]["kind"],
                }
            )
    return made


def write_csv(path: str, table: Sequence[dict]) -> None:
    """Write rows of one kind; an absent value is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(table[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    with atomic_write(path, "w") as file:
        file.write(text.getvalue())


def check_parquet(path: str) -> None:
    """Raises InputError if Parquet cannot be written here for want of pyarrow."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise InputError(
            "Parquet needs pyarrow", file=path, mend="pip install pyarrow, or give --csv"
        ) from error


def write_parquet(path: str, table: Sequence[dict]) -> None:
    """Write rows of one kind, with null where a value is absent. Needs pyarrow."""
    check_parquet(path)
    import pyarrow
    import pyarrow.parquet

    kinds = {bool: pyarrow.bool_(), int: pyarrow.int64(), str: pyarrow.string()}

    def kind(name: str):
        # stated, as a column without a single value would have no type of its own
        if name in ("overloaded", "lossless"):
            return pyarrow.bool_()
        if name == "concurrency":
            return pyarrow.int64()
        return kinds.get(type(table[0][name]), pyarrow.float64())

    schema = pyarrow.schema([(name, kind(name)) for name in table[0]])
    columns = {name: [row[name] for row in table] for name in table[0]}
    with atomic_write(path) as file:
        pyarrow.parquet.write_table(pyarrow.table(columns, schema=schema), file)
