"""A user's own scheduler: a class in a Python file, named on the command line."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import inspect
import re
import sys
import traceback
from pathlib import Path
from types import ModuleType

from workbench.errors import InputError
from workbench.schedulers.base import Scheduler

_SPEC = re.compile(r"(?P<file>.+?\.py)(?::(?P<cls>[^:]*))?(?::(?P<arguments>.*))?", re.DOTALL)
_READS = ("nothing", "prefix", "block", "outcomes")


def is_file_spec(spec: str) -> bool:
    """Whether ``spec`` names a Python file rather than a built-in scheduler."""
    return _SPEC.fullmatch(spec.strip()) is not None


def from_file(spec: str) -> Scheduler:
    """A new scheduler from ``path/to/file.py:Class[:key=value,…]``; the values are literals.

    Raises InputError naming the file: it is missing, fails to import, has no such class, the class
    does not subclass Scheduler or refuses the arguments.
    """
    match = _SPEC.fullmatch(spec.strip())
    path = Path(match["file"])
    if not path.is_file():
        raise InputError("no such file", file=path, mend="write path/to/file.py:Class")
    stat = path.stat()
    module = _load(path.resolve(), stat.st_mtime_ns, stat.st_size)
    cls = _class(module, path, match["cls"] or "")
    arguments = _arguments(match["arguments"] or "", path)
    try:
        scheduler = cls(**arguments)
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"{cls.__name__} could not be made: {type(error).__name__}: {error}", file=path
        ) from error
    if scheduler.reads not in _READS:
        raise InputError(
            f"{cls.__name__}.reads is {scheduler.reads!r}",
            file=path,
            mend=f"it has to be one of {', '.join(_READS)}",
        )
    written = match["arguments"]
    own = scheduler.name or cls.__name__
    # two settings of one class have to be told apart in a table
    scheduler.name = f"{own}:{written}" if written and not scheduler.name else own
    return scheduler


@functools.lru_cache(maxsize=32)
def _load(path: Path, modified: int, size: int) -> ModuleType:
    """The module in ``path``, executed once per state of the file."""
    name = f"user_scheduler_{hashlib.sha256(f'{path}{modified}'.encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look their module up
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        lines = [
            f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)
        ]
        line = getattr(error, "lineno", None) or (lines[-1] if lines else None)
        raise InputError(
            f"cannot be imported: {type(error).__name__}: {error}",
            file=path,
            place=f"line {line}" if line else None,
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
        try:
            arguments[key.strip()] = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError):
            arguments[key.strip()] = value.strip()
    return arguments
