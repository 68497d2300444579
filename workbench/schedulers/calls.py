"""Asking a scheduler, and holding its answer to the contract: one line for a faulty one.

A user's scheduler may raise or answer anything; whatever it does, short of Ctrl-C, becomes an
InputError that names its file.
"""

from __future__ import annotations

import os
import traceback

import numpy as np

from workbench.errors import InputError
from workbench.schedulers.base import Scheduler, View

MOST_LAG = 1024  # steps that a scheduler may look back: the past is kept that long


def checked(scheduler: Scheduler, view: View, survival: np.ndarray) -> np.ndarray:
    """ℓ [R] of ``scheduler.verify_lengths``: integers in 0..view.draft_length.

    Costs a few microseconds a call. Raises InputError naming the scheduler and its file if it
    fails, leaves by ``sys.exit`` or answers anything else.
    """
    try:
        lengths = scheduler.verify_lengths(view, survival)
    except (InputError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise failed(scheduler, "verify_lengths", error) from error
    try:
        lengths = np.asarray(lengths)
    except Exception as error:
        raise _wrong(scheduler, f"is no array ({raised(error)})", "one ℓ per request") from error
    requests = len(view.request)
    if lengths.shape != (requests,):
        raise _wrong(
            scheduler, f"has shape {list(lengths.shape)}", f"one ℓ per request, [{requests}]"
        )
    if lengths.dtype.kind not in "iu":
        raise _wrong(scheduler, f"holds {lengths.dtype}", "integers")
    if requests and (lengths.min() < 0 or lengths.max() > view.draft_length):
        row = int(np.argmax((lengths < 0) | (lengths > view.draft_length)))
        raise _wrong(
            scheduler, f"is {lengths[row]} in row {row}", f"0 to {view.draft_length} drafts"
        )
    return lengths


def checked_draft_length(scheduler: Scheduler, view: View) -> int:
    """``scheduler.draft_length``: an integer in 0..view.block_size. Raises InputError otherwise."""
    try:
        length = scheduler.draft_length(view)
    except (InputError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise failed(scheduler, "draft_length", error) from error
    if not isinstance(length, int | np.integer) or not 0 <= length <= view.block_size:
        raise InputError(
            f"scheduler {scheduler.name}: draft_length is {shown(length)}",
            file=source_file(scheduler),
            mend=f"it has to be an integer, 0 to {view.block_size}",
        )
    return int(length)


def source_file(scheduler: Scheduler) -> str | None:
    """The Python file that a user's scheduler was loaded from; None for a built-in one."""
    file = getattr(scheduler, "source_file", None)
    return file if isinstance(file, str) else None


def shown(value: object) -> str:
    """``value`` for an error message: short, and whatever its own repr does."""
    try:
        text = repr(value)
    except Exception:
        return f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:79]}…"


def failed(scheduler: Scheduler, what: str, error: BaseException) -> InputError:
    """``what`` of ``scheduler`` raised ``error``: the InputError that says so, and where."""
    file, line = source_file(scheduler), line_in(source_file(scheduler), error)
    frames = traceback.extract_tb(error.__traceback__)
    where = ""
    if line is None and frames:
        where = f" ({frames[-1].filename}, line {frames[-1].lineno})"
    return InputError(
        f"scheduler {scheduler.name}: {what} raised {raised(error)}{where}",
        file=file,
        place=f"line {line}" if line else None,
        mend="mend it there" if file else None,
    )


def line_in(file: str | None, error: BaseException) -> int | None:
    """The innermost line of ``file`` that ``error`` came through; None if it did not."""
    if file is None:
        return None
    path = os.path.realpath(file)
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
    return lines[-1] if lines else None


def raised(error: BaseException) -> str:
    """``error`` as ``Type: text``, whatever its own str does."""
    try:
        text = str(error)
    except Exception:
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _wrong(scheduler: Scheduler, problem: str, wanted: str) -> InputError:
    return InputError(
        f"scheduler {scheduler.name}: the answer of verify_lengths {problem}",
        file=source_file(scheduler),
        mend=f"it has to be {wanted}",
    )
