"""A sweep's results as flat rows, one per simulation: CSV, Parquet, lines of JSON."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from workbench.errors import InputError
from workbench.files import atomic_write
from workbench.frontier.bands import GroupFrontier
from workbench.frontier.study import Study

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
            marked = {"on_frontier": point.on_frontier, "best": point.best}
            made.append({**_what(group.name, run), **marked, **_figures(run)})
    return made


def row(study: Study, run: dict) -> dict:
    """The row of one simulation while others are open: without ``on_frontier`` and ``best``."""
    return {**_what(study.groups[run["group"]].name, run), **_figures(run)}


def _what(group: str, run: dict) -> dict:
    """What was simulated."""
    return {
        "group": group,
        "scheduler": run["scheduler"],
        "concurrency": run.get("concurrency"),
        "rate": run.get("rate"),
        "seed": run["seed"],
        "lossless": run["lossless"],
        "replay": run["replay"],
    }


def _figures(run: dict) -> dict:
    """What came out, with flat names."""
    return {
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


class RowStream:
    """Rows as lines of JSON, each written at once; path ``-`` is stdout, None nowhere.

    A file is written in place, to be read while it grows. Raises InputError if it cannot be.
    """

    def __init__(self, path: str | None):
        self._path, self._file = path, None
        if path == "-":
            self._file = sys.stdout
        elif path is not None:
            with self._refused():
                self._file = open(path, "w", encoding="utf-8")  # noqa: SIM115

    def __enter__(self) -> RowStream:
        return self

    def __exit__(self, kind, error, trace) -> None:
        if self._file is not None and self._path != "-":
            with self._refused():
                self._file.close()

    def write(self, row: dict) -> None:
        """One more line."""
        if self._file is not None:
            with self._refused():
                self._file.write(msgspec.json.encode(row).decode() + "\n")
                self._file.flush()

    @contextmanager
    def _refused(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            raise InputError(
                f"cannot be written ({error.strerror or error})", file=self._path, place="--stream"
            ) from error


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
