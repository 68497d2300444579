"""Prompt files: JSON lines, plain, gzip or zstd."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from workbench.errors import InputError
from workbench.traces.lines import read_lines
from workbench.validation import explain


class Prompt(msgspec.Struct, kw_only=True, frozen=True):
    """One line: ``prompt``, or ``turns`` of which the first is asked."""

    id: str
    domain: str = ""
    benchmark: str = ""
    prompt: str = ""
    turns: list[str] = []

    @property
    def text(self) -> str:
        """What is asked."""
        return self.turns[0] if self.turns else self.prompt


def read_prompts(
    path: str | os.PathLike, domain: str | None = None, limit: int | None = None
) -> list[Prompt]:
    """The prompts of ``path``: those of ``domain`` if it is given, at most ``limit``.

    Raises InputError naming the line, or the domains there are if none fits.
    """
    prompts, domains, ids = [], set(), set()
    decoder = msgspec.json.Decoder(Prompt)
    for number, line in enumerate(read_lines(Path(path)), start=1):
        if not line.strip():
            continue
        try:
            prompt = decoder.decode(line)
        except msgspec.ValidationError as error:
            problem, field, mend = explain(error)
            place = f"line {number}" + (f": {field}" if field else "")
            raise InputError(problem, file=path, place=place, mend=mend) from error
        except msgspec.DecodeError as error:
            raise InputError(
                f"is not JSON ({error})", file=path, place=f"line {number}",
                mend="correct or delete the line",
            ) from error  # fmt: skip
        if not prompt.text or prompt.id in ids:
            problem = f"id {prompt.id!r} twice" if prompt.text else "no prompt and no turns"
            raise InputError(problem, file=path, place=f"line {number}", mend="correct it there")
        ids.add(prompt.id)
        domains.add(prompt.domain)
        if domain is None or prompt.domain == domain:
            prompts.append(prompt)
    if not prompts:
        raise InputError(
            "holds no prompts" + (f" of domain {domain!r}" if domain else ""),
            file=path,
            mend=f"there are {', '.join(sorted(domains))}" if domains else "give another file",
        )
    return prompts[:limit]
