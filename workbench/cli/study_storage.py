"""Where a tuning study lies: a SQLite file, or any database that Optuna takes by its URL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import platformdirs

from workbench.errors import InputError


def storage_url(given: str | None) -> str:
    """The database's URL for a URL, a file name, or None: a file in the user's data folder."""
    if given is not None and "://" in given:
        return given
    if given is not None:
        return f"sqlite:///{given}"
    path = platformdirs.user_data_path("workbench") / "tune.db"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"cannot be made ({error.strerror or error})",
            file=path.parent,
            place="--storage",
            mend="name a file",
        ) from error
    return f"sqlite:///{path}"


def storage_file(url: str) -> str | None:
    """The SQLite file of a database's URL; None for any other database."""
    path = url.removeprefix("sqlite:///").partition("?")[0]
    return path if url.startswith("sqlite:///") and path != ":memory:" else None


def shown(url: str) -> str:
    """A database URL without its password, a file by its path."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    if url.startswith("sqlite:///"):
        return url.removeprefix("sqlite:///")
    try:
        return make_url(url).render_as_string(hide_password=True)
    except ArgumentError:
        return "the database"


@contextmanager
def storage_errors(url: str) -> Iterator[None]:
    """What a database, its driver or Optuna refuses becomes an InputError that names it."""
    from optuna.exceptions import OptunaError
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (SQLAlchemyError, OptunaError, ImportError, ValueError, RuntimeError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise InputError(
            f"cannot hold a study: {lines[0]}",
            file=shown(url),
            place="--storage",
            mend="give a file, or the URL of a database whose driver is installed",
        ) from error
