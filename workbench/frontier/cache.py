"""A folder of finished simulations by content key; one small JSON file each."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import msgspec
import platformdirs

from workbench.errors import InputError
from workbench.files import atomic_write

FORMAT = "workbench.point/1"


def default_folder() -> Path:
    """The user's cache folder of this system, as ~/.cache/workbench/points."""
    return platformdirs.user_cache_path("workbench") / "points"


@dataclass(frozen=True)
class Cache:
    """Results by key. Several processes and machines may share the folder.

    A file is written beside its place and renamed, so it is whole or not there; a damaged one
    counts as absent and is written anew.
    """

    folder: Path

    def get(self, key: str) -> dict | None:
        """The run kept under ``key``, as ``serving.Run.result`` gives it; None if there is none."""
        try:
            entry = msgspec.json.decode(self._path(key).read_bytes())
        except (OSError, msgspec.DecodeError):
            return None
        if not isinstance(entry, dict) or entry.get("format") != FORMAT or entry.get("key") != key:
            return None
        run = entry.get("run")
        return run if isinstance(run, dict) else None

    def put(self, key: str, run: dict) -> None:
        """Keep ``run``. Raises InputError if the folder cannot be written."""
        path = self._path(key)
        _make(path.parent, self.folder)
        with atomic_write(path) as file:
            file.write(msgspec.json.encode({"format": FORMAT, "key": key, "run": run}))

    def prepare(self) -> None:
        """Make the folder, before anything is simulated. Raises InputError if that is refused."""
        _make(self.folder, self.folder)
        if not os.access(self.folder, os.W_OK | os.X_OK):
            raise InputError(
                "cannot be written", file=self.folder, place="--cache", mend="name another folder"
            )

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"


def _make(folder: Path, named: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"cannot be made ({error.strerror or error})",
            file=named,
            place="--cache",
            mend="name another folder, or give --no-cache",
        ) from error
