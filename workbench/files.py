"""Where files lie: the user's own, the shipped ones, and how results are written."""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from workbench.errors import InputError

_PACKAGE = Path(__file__).parent
_NEW_FILE = "name a file in an existing folder"
_OTHER_FILE = "name another file to write"
_DESCRIPTOR = re.compile(r"/(?:dev|proc/(?P<process>self|thread-self|\d+))/fd/(?P<number>\d+)")
_KINDS = (
    (stat.S_ISDIR, "is a folder"),
    (stat.S_ISFIFO, "is a pipe"),
    (stat.S_ISCHR, "is a device"),
    (stat.S_ISBLK, "is a device"),
    (stat.S_ISSOCK, "is a socket"),
)


def shipped(kind: str) -> Path:
    """Folder of the shipped ``profiles`` or ``traces``: in the wheel, else in the checkout."""
    inside = _PACKAGE / "data" / kind
    return inside if inside.is_dir() else _PACKAGE.parent / kind


def not_a_file(path: str | os.PathLike) -> str | None:
    """What keeps ``path`` from being read as a regular file, in words; None if nothing does."""
    try:
        mode = os.stat(path).st_mode
    except ValueError:
        return "is no file name (it holds a zero byte)"
    except OSError as error:
        absent = error.errno in (errno.ENOENT, errno.ENOTDIR)
        return "no such file" if absent else f"cannot be read ({error.strerror})"
    if stat.S_ISREG(mode):
        return None
    return next((words for test, words in _KINDS if test(mode)), "is no regular file")


def resolve(name: str | os.PathLike, kind: str, suffixes: tuple[str, ...]) -> Path:
    """Find ``name``: as a path from the working directory first, then among the shipped ``kind``.

    Every suffix of ``suffixes`` ("" included) is tried after the name in both places.
    Raises InputError that says what ``name`` is instead, or what is shipped.
    """
    name = os.fspath(name)
    there = sorted(p.name for p in shipped(kind).glob("*") if ".json" in p.name)
    mend = f"shipped {kind}: {', '.join(there) or 'none'}"
    if not name:
        raise InputError("no file is named", place=f"the name of one of the {kind}", mend=mend)
    for folder in (Path(), shipped(kind)):
        for suffix in suffixes:
            path = folder / (name + suffix)
            if not_a_file(path) is None:
                return path
    problem = not_a_file(name)
    if problem == "no such file":
        problem = "no such file here and not among the shipped ones"
    elif problem == "is a pipe":
        mend = "it is read more than once: save it to a file first"
    raise InputError(problem or "cannot be read", file=name, mend=mend)


def check_outputs(
    outputs: Mapping[str, str | os.PathLike | None],
    inputs: Iterable[str | os.PathLike | None] = (),
    *,
    streams: Collection[str] = (),
) -> None:
    """Refuse, before anything is computed, outputs that could not or must not be written after it.

    ``outputs``: option → path, None where it is not asked for. ``inputs``: paths that are read; an
    output that is one of them would destroy it. ``streams``: the options that may also be ``-``
    (which the command prints itself) or a pipe or device such as /dev/stdout.
    Raises InputError naming the file and the option.
    """
    sources = [os.fspath(path) for path in inputs if path is not None]
    taken: dict[str, str] = {}
    for option, given in outputs.items():
        if given is None:
            continue
        path = os.fspath(given)
        problem, mend = _unwritable(path, option in streams), _NEW_FILE
        same = None if problem else next((s for s in sources if _same(path, s)), None)
        if same is not None:
            problem, mend = f"is read too, as {same}" if same != path else "is read too", ""
        if problem is None and (path == "-" or not is_stream(path)):
            earlier = taken.setdefault("-" if path == "-" else os.path.realpath(path), option)
            if earlier != option:
                problem, mend = f"is written by {earlier} too", ""
        if problem is not None:
            raise InputError(problem, file=path, place=option, mend=mend or _OTHER_FILE)


def _unwritable(path: str, stream: bool) -> str | None:
    """Why ``path`` cannot be written, in words; None if it can."""
    if path == "-":
        if not stream:
            return "is no file name, and this output cannot go to stdout"
        return "is stdout, which is closed" if sys.stdout is None else None
    if not path:
        return "the file name is empty"
    if is_stream(path):
        if not stream:
            return "is no regular file, which this output needs"
        return None if os.access(path, os.W_OK) else "cannot be written"
    if path.endswith("/"):
        return "names a folder"
    problem = not_a_file(path)
    if problem not in (None, "no such file"):
        return problem.replace("be read", "be written")
    folder = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(folder):
        return "its folder does not exist"
    if not os.access(folder, os.W_OK | os.X_OK):
        return "cannot be written (Permission denied in its folder)"
    # a file made read-only is protected, though renaming over it would succeed
    if problem is None and not os.access(path, os.W_OK):
        return "cannot be written (Permission denied)"
    return None


def _same(path: str, other: str) -> bool:
    try:
        return os.path.samefile(path, other)
    except (OSError, ValueError):  # one of them does not exist
        return False


def _links(path: str) -> Iterator[str]:
    """``path`` and what it points to, link by link."""
    path = os.path.abspath(path)
    for _ in range(40):
        yield path
        try:
            target = os.readlink(path)
        except (OSError, ValueError):
            return
        path = os.path.normpath(os.path.join(os.path.dirname(path), target))


def _descriptor(path: str) -> int | None:
    """The open descriptor that ``path`` stands for, as /dev/stdout or /dev/fd/63 do."""
    own = (None, "self", "thread-self", str(os.getpid()))
    matches = (_DESCRIPTOR.fullmatch(link) for link in _links(path))
    return next((int(m["number"]) for m in matches if m and m["process"] in own), None)


def is_stream(path: str) -> bool:
    """Whether ``path`` is a pipe, a device or an open descriptor (/dev/stdout), not a file."""
    if _descriptor(path) is not None:
        return True
    return not_a_file(path) in ("is a pipe", "is a device", "is a socket")


@contextmanager
def atomic_write(path: str | os.PathLike, mode: str = "wb") -> Iterator[IO]:
    """Write beside ``path`` and rename on success, so that ``path`` is never half-written.

    Pipes, devices and open descriptors (/dev/stdout) are written directly; a link is followed.
    Whatever the system refuses, from the first byte to the last, is an InputError naming ``path``;
    a reader of stdout that has gone stays a BrokenPipeError.
    """
    path = os.fspath(path)
    stream = is_stream(path)
    if not stream and (problem := _unwritable(path, stream=False)) is not None:
        raise InputError(problem, file=path, mend=_NEW_FILE)
    try:
        with _direct(path, mode) if stream else _renamed(path, mode) as file:
            yield file
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(
            f"cannot be written ({error.strerror or error})", file=path, mend=_OTHER_FILE
        ) from error


def _encoding(mode: str) -> str | None:
    return None if "b" in mode else "utf-8"


@contextmanager
def _direct(path: str, mode: str) -> Iterator[IO]:
    number = _descriptor(path)
    target: str | int = path
    if number is not None:
        # opened by name, a redirected file would be cut off and written from its start
        if number == 1 and sys.stdout is not None:
            sys.stdout.flush()
        target = os.dup(number)
    with open(target, mode, encoding=_encoding(mode)) as file:
        yield file


@contextmanager
def _renamed(path: str, mode: str) -> Iterator[IO]:
    path = os.path.realpath(path)
    fd, name = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".workbench-")
    try:
        with os.fdopen(fd, mode, encoding=_encoding(mode)) as file:
            yield file
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
