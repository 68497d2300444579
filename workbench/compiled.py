"""Compiled inner loops: numba where it can be imported, else the same functions in plain Python.

The plain form gives the same results, tens of times slower; ``why_slow`` says so to the user.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

try:
    import numba

    _MISSING = ""
except ImportError as error:  # a Python or platform without numba's wheels
    numba = None
    _MISSING = str(error)

# Files with compiled functions, and with the constants that they fold in.
SOURCES = (
    "compiled.py",
    "profiles/interpolate.py",
    "profiles/packed.py",
    "schedulers/admission.py",
    "serving/kernels.py",
    "serving/loop.py",
    "serving/state.py",
)


def njit(function: Callable) -> Callable:
    """Compile ``function`` on first use and keep the machine code on disk for the next process."""
    if numba is None:
        return function
    dispatcher = numba.njit(cache=True, nogil=True)(function)
    if not numba.config.DISABLE_JIT:
        for index in _indexes(dispatcher):
            # numba looks at this function's file alone, not at the functions that it calls
            with suppress(FileNotFoundError):  # another process may do the same
                if index.stat().st_mtime < _newest_source():
                    index.unlink()
    return dispatcher


def _indexes(dispatcher) -> list[Path]:
    """The files that list the machine code kept of a function."""
    module = dispatcher.__module__.rpartition(".")[2]
    kept = Path(dispatcher.stats.cache_path)
    return list(kept.glob(f"{module}.{dispatcher.__qualname__}-*.nbi"))


@cache
def _newest_source() -> float:
    """Time of the last change to any file that compiled functions are made of."""
    here = Path(__file__).parent
    return max((here / name).stat().st_mtime for name in SOURCES)


def why_slow() -> str | None:
    """One line for the user if inner loops run uncompiled; None if they are compiled."""
    if numba is None:
        return f"numba cannot be imported ({_MISSING}): inner loops run in plain Python, far slower"
    if numba.config.DISABLE_JIT:
        return "NUMBA_DISABLE_JIT is set: inner loops run in plain Python, far slower"
    return None


def is_cold(function: Callable) -> bool:
    """Whether no machine code of ``function`` lies on disk, so that its first call compiles it."""
    return why_slow() is None and not function.signatures and not _indexes(function)
