"""Where files lie: the user's own, the shipped ones, and how results are written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from workbench.errors import InputError

_PACKAGE = Path(__file__).parent


def shipped(kind: str) -> Path:
    """Folder of the shipped ``profiles`` or ``traces``: in the wheel, else in the checkout."""
    inside = _PACKAGE / "data" / kind
    return inside if inside.is_dir() else _PACKAGE.parent / kind


def resolve(name: str | os.PathLike, kind: str, suffixes: tuple[str, ...]) -> Path:
    """Find ``name``: as a path from the working directory first, then among the shipped ``kind``.

    Every suffix of ``suffixes`` ("" included) is tried after the name in both places.
    Raises InputError naming what is shipped.
    """
    name = os.fspath(name)
    for folder in (Path(), shipped(kind)):
        for suffix in suffixes:
            path = folder / (name + suffix)
            if path.is_file():
                return path
    there = sorted(p.name for p in shipped(kind).glob("*") if ".json" in p.name)
    raise InputError(
        "no such file here and not among the shipped ones",
        file=name,
        mend=f"shipped {kind}: {', '.join(there) or 'none'}",
    )


@contextmanager
def atomic_write(path: str | os.PathLike, mode: str = "wb") -> Iterator[IO]:
    """Write beside ``path`` and rename on success, so that ``path`` is never half-written."""
    path = Path(path)
    if path.exists() and not path.is_file() and not path.is_dir():  # /dev/stdout, a pipe
        with path.open(mode) as file:
            yield file
        return
    if path.is_dir() or not path.parent.is_dir():
        problem = "is a folder" if path.is_dir() else "its folder does not exist"
        raise InputError(problem, file=path, mend="name a file in an existing folder")
    encoding = None if "b" in mode else "utf-8"
    try:
        fd, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise InputError(f"cannot be written ({error.strerror})", file=path) from error
    try:
        with os.fdopen(fd, mode, encoding=encoding) as file:
            yield file
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
