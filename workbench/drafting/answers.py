"""The target's answers on disk: files that survive an interruption and may be made in parallel."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import numpy as np
from safetensors import safe_open

from workbench.drafting.data import Sequences, read_sequences, write_sequences
from workbench.drafting.generate import Generator, random_choices
from workbench.drafting.target import Target
from workbench.errors import InputError

SHARD = 1024  # answers in a file


def answers(
    folder: Path,
    target: Target,
    prompts: Sequence[Sequence[int]],
    seed: int,
    *,
    samples: int = 1,
    part: int = 0,
    parts: int = 1,
    temperature: float = 1.0,
    max_new_tokens: int = 512,
    max_running: int = 64,
    on_progress: Callable[[int], None] = lambda answers: None,
) -> Sequences | None:
    """``samples`` answers to every prompt (token ids), kept in ``folder``; files there are reused.

    Of ``parts`` processes, this one makes files number ``part``, ``part`` + ``parts``, …. None if
    those of the others are still missing. ``on_progress`` hears how many answers came to be.
    Raises InputError if a file holds answers to other prompts or settings.
    """
    settings = {
        "temperature": str(temperature),
        "max_new_tokens": str(max_new_tokens),
        "seed": str(seed),
        "target": target.config.name,
    }
    # files of a sample are its own: more samples can be asked for later
    each = [prompts[first : first + SHARD] for first in range(0, len(prompts), SHARD)]
    shards = each * samples
    paths = [
        folder / f"{sample:02}-{number:05}.safetensors"
        for sample in range(samples)
        for number in range(len(each))
    ]
    missing = []
    for number, (path, shard) in enumerate(zip(paths, shards, strict=True)):
        if path.is_file():
            _check(path, settings | {"prompts": _digest(shard)})
            on_progress(len(shard))
        elif number % parts == part:
            missing.append(number)
    if missing:
        options = {
            "temperature": temperature,
            "max_new_tokens": max_new_tokens,
            "max_running": max_running,
        }
        # what is left after an interruption is drawn anew
        rng = np.random.default_rng((seed, missing[0]))
        writer = _Writer(shards, paths, missing, settings, on_progress)
        choices = random_choices(rng, target.device)
        longest = max(len(prompt) for prompt in writer.asked)
        generator = Generator(
            target,
            choices,
            longest_prompt=longest,
            **options | {"max_running": min(max_running, len(writer.asked))},
        )
        generator.run(writer.asked, writer.finished)
    if not all(path.is_file() for path in paths):
        return None
    return Sequences.joined([read_sequences(path) for path in paths])


class _Writer:
    """Collects answers in whatever order they end and writes each file when it is complete."""

    def __init__(self, shards, paths, missing, settings, on_progress):
        self._shards, self._paths, self._settings = shards, paths, settings
        self._on_progress = on_progress
        self._place = [(number, row) for number in missing for row in range(len(shards[number]))]
        self._answers = {number: {} for number in missing}

    @property
    def asked(self) -> list[Sequence[int]]:
        return [self._shards[number][row] for number, row in self._place]

    def finished(self, index: int, answer: np.ndarray) -> None:
        number, row = self._place[index]
        got, shard = self._answers[number], self._shards[number]
        got[row] = answer
        if len(got) == len(shard):
            pairs = [(prompt, got[row]) for row, prompt in enumerate(shard)]
            about = self._settings | {"prompts": _digest(shard)}
            write_sequences(self._paths[number], Sequences.of(pairs), about)
            del self._answers[number]
        self._on_progress(1)


def _digest(prompts: Sequence[Sequence[int]]) -> str:
    return hashlib.sha256(msgspec.json.encode([list(prompt) for prompt in prompts])).hexdigest()


def _check(path: Path, settings: dict[str, str]) -> None:
    read_sequences(path)  # refuses rubbish
    with safe_open(path, framework="np") as file:
        found = file.metadata() or {}
    if found != settings:
        raise InputError(
            "holds answers to other prompts or settings",
            file=path,
            mend="remove the folder or name another --out",
        )
