"""The one error that a user's input can cause."""

from __future__ import annotations

import os


class InputError(Exception):
    """Bad input, said in one line: the file, the place in it, what is wrong and the mend.

    The command line prints ``str(error)`` on stderr and exits with code 2.
    """

    def __init__(
        self,
        problem: str,
        *,
        file: str | os.PathLike | None = None,
        place: str | None = None,
        mend: str | None = None,
    ):
        self.file = None if file is None else os.fspath(file)
        self.place = place
        self.problem = problem
        self.mend = mend
        where = ": ".join(part for part in (self.file, place) if part)
        text = f"{where}: {problem}" if where else problem
        if mend:
            text = f"{text}; {mend}"
        super().__init__(" ".join(text.split()))

    def at(self, place: str) -> InputError:
        """The same, said of another place: that by which its user knows it."""
        return InputError(self.problem, file=self.file, place=place, mend=self.mend)
