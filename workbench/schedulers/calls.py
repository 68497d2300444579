"""Asking a scheduler, and holding its answer to the contract: one line for a faulty one."""

from __future__ import annotations

import traceback

import numpy as np

from workbench.errors import InputError
from workbench.schedulers.base import Scheduler, View


def checked(scheduler: Scheduler, view: View, survival: np.ndarray) -> np.ndarray:
    """ℓ [R] of ``scheduler.verify_lengths``: integers in 0..view.draft_length.

    Costs a few microseconds a call. Raises InputError naming the scheduler if it fails or answers
    anything else.
    """
    try:
        lengths = scheduler.verify_lengths(view, survival)
    except InputError:
        raise
    except Exception as error:
        raise _failed(scheduler, "verify_lengths", error) from error
    lengths = np.asarray(lengths)
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
    except InputError:
        raise
    except Exception as error:
        raise _failed(scheduler, "draft_length", error) from error
    if not isinstance(length, int | np.integer) or not 0 <= length <= view.block_size:
        raise InputError(
            f"scheduler {scheduler.name}: draft_length is {length!r}",
            mend=f"it has to be an integer, 0 to {view.block_size}",
        )
    return int(length)


def _wrong(scheduler: Scheduler, problem: str, wanted: str) -> InputError:
    return InputError(
        f"scheduler {scheduler.name}: the answer of verify_lengths {problem}",
        mend=f"it has to be {wanted}",
    )


def _failed(scheduler: Scheduler, method: str, error: Exception) -> InputError:
    place = traceback.extract_tb(error.__traceback__)[-1]
    return InputError(
        f"scheduler {scheduler.name}: {method} raised {type(error).__name__}: {error} "
        f"({place.filename}, line {place.lineno})"
    )
