"""What happened to every request of a run, as columns and as a file."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np

from workbench.errors import InputError
from workbench.files import atomic_write
from workbench.serving.simulate import Run


def request_columns(run: Run) -> dict[str, np.ndarray | list]:
    """Columns [N] in order of issue; times in seconds, NaN where a request is not that far.

    ``in_window`` says which requests the reported speed, TTFT and TPOT are made of.
    """
    recorder, workload, load = run.recorder, run.workload, run.load.label()
    start, stop, _ = recorder.window(run.end)
    count = len(workload)
    span = recorder.last - recorder.first
    with np.errstate(divide="ignore", invalid="ignore"):
        tpot = np.where(workload.output > 1, span / (workload.output - 1), np.nan)
    ids, domains = [""] * count, [""] * count
    if run.population is not None and workload.source is not None:
        names = [id_ for trace in run.population.traces for id_ in trace.ids]
        ids = [names[index] for index in workload.source.tolist()]
        codes = run.population.domain[workload.source].tolist()
        domains = [run.population.domain_names[code] for code in codes]
    return {
        "scheduler": [run.scheduler.name] * count,
        "load": [f"{name} {value}" for name, value in load.items()] * count,
        "request": np.arange(count),
        "id": ids,
        "domain": domains,
        "replica": recorder.replica,
        "prompt_tokens": workload.prompt,
        "output_tokens": workload.output,
        "issued_s": recorder.issued,
        "first_token_s": recorder.first,
        "last_token_s": recorder.last,
        "ttft_s": recorder.first - recorder.issued,
        "tpot_s": tpot,
        "in_window": (recorder.issued >= start.time) & (recorder.issued <= stop.time),
    }


def write_requests(path: str, runs: list[dict[str, np.ndarray | list]]) -> None:
    """Write the columns of several runs below each other: .csv, or .parquet with pyarrow."""
    suffix = Path(path).suffix
    if suffix == ".parquet":
        _write_parquet(path, runs)
        return
    if suffix != ".csv":
        raise InputError("is neither .csv nor .parquet", file=path, mend="choose one of them")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(runs[0])
    for run in runs:
        writer.writerows(zip(*(_cells(column) for column in run.values()), strict=True))
    with atomic_write(path, "w") as file:
        file.write(text.getvalue())


def _cells(column: np.ndarray | list) -> list:
    """Values as CSV has them: nothing where there is no number."""
    if not isinstance(column, np.ndarray):
        return column
    if column.dtype.kind != "f":
        return column.tolist()
    return [None if value != value else value for value in column.tolist()]


def _write_parquet(path: str, runs: list[dict]) -> None:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise InputError(
            "Parquet needs pyarrow", file=path, mend="pip install pyarrow, or write .csv"
        ) from error
    # types are stated: a column without a single number would have none of its own
    kinds = {"f": pyarrow.float64(), "i": pyarrow.int64(), "b": pyarrow.bool_()}
    schema = pyarrow.schema(
        [
            (name, kinds[column.dtype.kind] if isinstance(column, np.ndarray) else pyarrow.string())
            for name, column in runs[0].items()
        ]
    )
    tables = [
        pyarrow.table({name: _cells(column) for name, column in run.items()}, schema=schema)
        for run in runs
    ]
    with atomic_write(path) as file:
        pyarrow.parquet.write_table(pyarrow.concat_tables(tables), file)
