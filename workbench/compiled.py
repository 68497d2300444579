"""Compiled inner loops: numba where it can be imported, else the same functions in plain Python.

The plain form gives the same results, tens of times slower; ``why_slow`` says so to the user.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

try:
    import numba

    _MISSING = ""
except ImportError as error:  # a Python or platform without numba's wheels
    numba = None
    _MISSING = str(error)


def njit(function: Callable) -> Callable:
    """Compile ``function`` on first use and keep the machine code on disk for the next process."""
    if numba is None:
        return function
    return numba.njit(cache=True, nogil=True)(function)


def why_slow() -> str | None:
    """One line for the user if inner loops run uncompiled; None if they are compiled."""
    if numba is None:
        return f"numba cannot be imported ({_MISSING}): inner loops run in plain Python, far slower"
    if numba.config.DISABLE_JIT:
        return "NUMBA_DISABLE_JIT is set: inner loops run in plain Python, far slower"
    return None


def is_cold(function: Callable) -> bool:
    """Whether no machine code of ``function`` lies on disk, so that its first call compiles it."""
    if numba is None or numba.config.DISABLE_JIT:
        return False
    module = function.__module__.rpartition(".")[2]
    index = f"{module}.{function.__qualname__}-*.nbi"
    return not any(Path(function.stats.cache_path).glob(index))
