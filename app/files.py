"""The traces and profiles that a page can choose: shipped ones, and what users uploaded.

Uploads are data: they are read by the same readers as on the command line and never executed. They
lie in a folder of this server's process under their content's hash, the oldest leave first.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePath

from workbench.errors import InputError
from workbench.files import atomic_write, shipped
from workbench.profiles import default_profile_name, read_profile
from workbench.traces import read_trace
from workbench.traces.lines import read_lines

MOST_MB = 64  # of an upload, as .streamlit/config.toml has it
MOST_TEXT_MB = 512  # of an upload once decompressed
_KEPT = 40  # uploads
_READERS: dict[str, Callable] = {"traces": read_trace, "profiles": read_profile}
_FIRST = {"traces": "chat", "profiles": default_profile_name}


@dataclass(frozen=True)
class Choice:
    """A file as the pages call it: ``chat``, or ``mine.jsonl · 1f3a9c04`` for an upload."""

    label: str
    path: Path

    @property
    def version(self) -> int:
        """Changes when the file does."""
        return self.path.stat().st_mtime_ns


class Library:
    """All files of one kind (``traces`` or ``profiles``) that this server knows."""

    def __init__(self, kind: str):
        self.kind = kind
        self._lock = threading.Lock()
        self._uploads: OrderedDict[str, Choice] = OrderedDict()
        self._folder = tempfile.TemporaryDirectory(prefix=f"workbench-{kind}-")

    def choices(self) -> dict[str, Choice]:
        """By label: the usual one first, then the other shipped ones, then uploads."""
        found = {}
        for path in sorted(shipped(self.kind).glob("*.json*")):
            label = re.sub(r"\.jsonl?(\.gz|\.zst)?$", "", path.name)
            found[label] = Choice(label, path)
        first = _FIRST[self.kind]
        if first in found:
            found = {first: found.pop(first), **found}
        with self._lock:
            return found | self._uploads

    def add(self, name: str, data: bytes) -> Choice:
        """Keep an upload. Raises InputError as the command line would, naming the user's file."""
        name = re.sub(r"[^\w.\- ]", "_", PurePath(name).name)[-80:].lstrip(".") or "upload"
        if len(data) > MOST_MB << 20:
            raise InputError(
                f"is larger than {MOST_MB} MB",
                file=name,
                mend="upload a part of it, or use the command line, which has no limit",
            )
        key = hashlib.sha256(data).hexdigest()[:12]
        label = f"{name} · {key}"
        with self._lock:
            if label in self._uploads:
                return self._uploads[label]
        path = Path(self._folder.name) / key / name
        path.parent.mkdir(exist_ok=True)
        with atomic_write(path) as file:
            file.write(data)
        try:
            if self.kind == "traces":
                _refuse_bombs(path)
            _READERS[self.kind](path)
        except InputError as error:
            path.unlink()
            raise InputError(
                error.problem, file=name, place=error.place, mend=error.mend
            ) from error
        choice = Choice(label, path)
        with self._lock:
            self._uploads[label] = choice
            while len(self._uploads) > _KEPT:
                _, oldest = self._uploads.popitem(last=False)
                oldest.path.unlink(missing_ok=True)
        return choice


def _refuse_bombs(path: Path) -> None:
    """Raises InputError once a file's text is longer than an honest one of its size could be."""
    left = MOST_TEXT_MB << 20
    for line in read_lines(path):
        left -= len(line) + 1
        if left < 0:
            raise InputError(
                f"is larger than {MOST_TEXT_MB} MB once decompressed",
                file=path,
                mend="upload a part of it, or use the command line, which has no limit",
            )
