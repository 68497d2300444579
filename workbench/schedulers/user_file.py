"""A user's own scheduler: a class in a Python file, named on the command line."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import inspect
import math
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np

from workbench.errors import InputError
from workbench.files import not_a_file
from workbench.schedulers.base import Scheduler
from workbench.schedulers.calls import MOST_LAG, line_in, raised, shown

_SPEC = re.compile(r"(?P<file>.+?\.py)(?::(?P<cls>[^:]*))?(?::(?P<arguments>.*))?", re.DOTALL)
_READS = ("nothing", "prefix", "block", "outcomes")


def file_of(spec: str) -> Path | None:
    """The Python file that a specification names; None for a built-in scheduler."""
    match = _SPEC.fullmatch(spec.strip())
    return Path(match["file"]) if match else None


def is_file_spec(spec: str) -> bool:
    """Whether ``spec`` names a Python file rather than a built-in scheduler."""
    return file_of(spec) is not None


def from_file(spec: str, block_size: int) -> Scheduler:
    """A new scheduler from ``path/to/file.py:Class[:key=value,…]``; the values are literals.

    It is for drafts of ``block_size`` γ tokens; its ``source_file`` is the path as written.
    Raises InputError naming the file: it is missing, fails to import, has no such class, the class
    does not subclass Scheduler, refuses the arguments or declares what cannot be.
    """
    match = _SPEC.fullmatch(spec.strip())
    path = Path(match["file"])
    problem = not_a_file(path)
    if problem is not None:
        raise InputError(problem, file=path, mend="write path/to/file.py:Class")
    stat = path.stat()
    module = _load(path.resolve(), stat.st_mtime_ns, stat.st_size)
    cls = _class(module, path, match["cls"] or "")
    written = match["arguments"] or ""
    arguments = _arguments(written, path)
    try:
        scheduler = cls(**arguments)
        own = scheduler.name or cls.__name__
        if isinstance(own, str):
            # two settings of one class have to be told apart in a table
            scheduler.name = f"{own}:{written}" if written and not scheduler.name else own
        scheduler.source_file = str(path)
        declared = {name: getattr(scheduler, name) for name in _rules(block_size)}
    except (InputError, KeyboardInterrupt):
        raise
    except BaseException as error:
        line = line_in(str(path), error)
        raise InputError(
            f"{cls.__name__} could not be made: {raised(error)}",
            file=path,
            place=f"line {line}" if line else None,
            mend="mend the class or the arguments",
        ) from error
    for name, (holds, wanted) in _rules(block_size).items():
        if not holds(declared[name]):
            raise InputError(
                f"{cls.__name__}.{name} is {shown(declared[name])}",
                file=path,
                mend=f"it has to be {wanted}",
            )
    return scheduler


def _rules(block_size: int) -> dict:
    """What a class may declare: attribute → (test, the values allowed in words)."""
    steps = (lambda value: _whole(value, MOST_LAG), f"a whole number of steps, 0 to {MOST_LAG}")
    flags = [name for name, value in vars(Scheduler).items() if isinstance(value, bool)]
    return {
        "name": (lambda value: isinstance(value, str), "text"),
        "reads": (
            lambda value: isinstance(value, str) and value in _READS,
            f"one of {', '.join(_READS)}",
        ),
        "lag": steps,
        "history": steps,
        "uniform": (
            lambda value: value is None or _whole(value, block_size),
            f"None or a number of drafts, 0 to {block_size}",
        ),
        "new_survival": (_share, "a number in 0..1"),
        **{name: (lambda value: isinstance(value, bool), "True or False") for name in flags},
    }


def _whole(value: object, most: int) -> bool:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return whole and 0 <= value <= most


def _share(value: object) -> bool:
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return number and math.isfinite(value) and 0 <= value <= 1


@functools.lru_cache(maxsize=32)
def _load(path: Path, modified: int, size: int) -> ModuleType:
    """The module in ``path``, executed once per state of the file."""
    name = f"user_scheduler_{hashlib.sha256(f'{path}{modified}'.encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look their module up
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, KeyboardInterrupt):
            raise
        line = getattr(error, "lineno", None) or line_in(str(path), error)
        raise InputError(
            f"cannot be imported: {raised(error)}",
            file=path,
            place=f"line {line}" if line else None,
            mend="mend the file so that Python can import it",
        ) from error
    return module


def _class(module: ModuleType, path: Path, name: str) -> type[Scheduler]:
    own = {
        key: value
        for key, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__
    }
    schedulers = [key for key, value in own.items() if issubclass(value, Scheduler)]
    mend = f"schedulers there: {', '.join(schedulers) or 'none'}"
    if name not in own:
        raise InputError(f"no class '{name}'" if name else "names no class", file=path, mend=mend)
    if name not in schedulers:
        raise InputError(
            f"class {name} does not subclass workbench.schedulers.Scheduler", file=path, mend=mend
        )
    return own[name]


def _arguments(text: str, path: Path) -> dict[str, object]:
    """``a=1,b=x`` as {"a": 1, "b": "x"}: Python literals, anything else is text."""
    arguments: dict[str, object] = {}
    for part in text.split(",") if text else []:
        key, equals, value = part.partition("=")
        if not equals or not key.strip().isidentifier():
            raise InputError(f"'{part}' is no argument", file=path, mend="write key=value,…")
        if key.strip() in arguments:
            raise InputError(f"'{key.strip()}' is given twice", file=path, mend="give it once")
        try:
            arguments[key.strip()] = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            arguments[key.strip()] = value.strip()
    return arguments
