"""Calibration files: ``workbench.calibration/1``, and the STS table that SGLang reads."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from workbench.calibration.evaluate import PositionReport
from workbench.calibration.model import Calibration
from workbench.errors import InputError
from workbench.files import not_a_file
from workbench.validation import explain

FORMAT = "workbench.calibration/1"
_MOST_DRAFTS = 65535  # γ of a trace


class Requests(msgspec.Struct, kw_only=True):
    """Requests of the two sides of the split."""

    fit: int
    held_out: int


class CalibrationDocument(msgspec.Struct, kw_only=True):
    """The file ``workbench.calibration/1``. Lists are by draft position; ECE is on held-out rows.

    A reader needs ``format`` and ``temperatures``.
    """

    format: Literal["workbench.calibration/1"] = FORMAT
    temperatures: list[float]
    at_edge: list[bool]  # the best temperature may lie beyond the grid
    traces: list[str]
    target: str
    drafter: str
    requests: Requests
    split: float
    seed: int
    ece_before: list[float]  # of the survival a_k; null where no row tells
    ece_after: list[float]


class _Known(msgspec.Struct):
    """What is read of a file in either format."""

    temperatures: Annotated[list[float], msgspec.Meta(min_length=1, max_length=_MOST_DRAFTS)]
    format: str | None = None  # SGLang's table has none
    traces: list[str] = []
    dataset: str = ""


def sglang_table(
    calibration: Calibration, reports: list[PositionReport], rows: int
) -> dict[str, Any]:
    """The table for SGLang's --speculative-dspark-confidence-sts-path; rows: fitted on."""
    table: dict[str, Any] = {
        "temperatures": list(calibration.temperatures),
        "dataset": calibration.fitted_on,
        "num_samples": rows,
    }
    ece = {
        "ece_before": [report.before.survival_ece for report in reports],
        "ece_after": [report.after.survival_ece for report in reports],
    }
    # SGLang takes numbers only; it can do without these lists
    if not any(math.isnan(value) for values in ece.values() for value in values):
        table |= ece
    return table


def read_calibration(path: str | os.PathLike) -> Calibration:
    """Read a calibration in either format, told apart by the field ``format``.

    Raises InputError naming the file, the field, the problem and the mend.
    """
    known = _decode(path)
    if known.format not in (None, FORMAT):
        raise InputError(
            f"is '{known.format}', so this is no calibration",
            file=path,
            place="format",
            mend=f"need {FORMAT}, or SGLang's table, which has no format",
        )
    return Calibration(
        tuple(known.temperatures), path=path, fitted_on=", ".join(known.traces) or known.dataset
    )


def _decode(path: str | os.PathLike) -> _Known:
    mend = "name a file that `workbench calibrate --out` or `--sglang` has written"
    if (problem := not_a_file(path)) is not None:
        raise InputError(problem, file=path, mend=mend)
    try:
        # some editors begin the file with a byte order mark
        data = Path(path).read_bytes().removeprefix(b"\xef\xbb\xbf")
        return msgspec.json.decode(data, type=_Known)
    except msgspec.ValidationError as error:
        problem, place, mend = explain(error)
        raise InputError(problem, file=path, place=place or None, mend=mend) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"is not JSON ({error})", file=path, mend=mend) from error
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", file=path, mend=mend) from error
