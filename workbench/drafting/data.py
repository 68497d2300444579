"""Training data: prompts with the answers that the target itself gave them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save
from torch import Tensor

from workbench.drafting.decode import Decoder, Request
from workbench.drafting.sampling import Choices, RandomChoices
from workbench.drafting.target import Target
from workbench.errors import InputError
from workbench.files import atomic_write
from workbench.schedulers import create


@dataclass(frozen=True)
class Sequences:
    """N token sequences, flat; in each, the prompt comes first and the answer after it."""

    tokens: np.ndarray  # int32 [total]
    start: np.ndarray  # int64 [N + 1], sequence i is tokens[start[i]:start[i + 1]]
    prompt: np.ndarray  # int64 [N] tokens of the prompt

    @classmethod
    def of(cls, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Sequences:
        """From (prompt, answer) pairs of token ids."""
        lengths = [len(prompt) + len(answer) for prompt, answer in pairs]
        flat = [token for prompt, answer in pairs for token in (*prompt, *answer)]
        return cls(
            np.array(flat, np.int32),
            np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            np.array([len(prompt) for prompt, _ in pairs], np.int64),
        )

    @classmethod
    def joined(cls, parts: Sequence[Sequences]) -> Sequences:
        """All sequences of ``parts``, in order."""
        sizes = np.concatenate([np.diff(part.start) for part in parts])
        return cls(
            np.concatenate([part.tokens for part in parts]),
            np.concatenate([[0], np.cumsum(sizes)]),
            np.concatenate([part.prompt for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.prompt)

    def batch(
        self,
        count: int,
        rng: np.random.Generator,
        device: torch.device | str = "cpu",
        length: int | None = None,
    ) -> tuple[Tensor, Tensor]:
        """``count`` random sequences: tokens [count, S] padded at the end, answer mask [count, S].

        S is ``length``, to which longer sequences are cut, or that of the longest drawn.
        """
        chosen = rng.integers(0, len(self), count)
        sizes = self.start[chosen + 1] - self.start[chosen]
        width = int(length or sizes.max())
        tokens, answer = np.zeros((count, width), np.int64), np.zeros((count, width), bool)
        for row, (i, size) in enumerate(zip(chosen, np.minimum(sizes, width), strict=True)):
            tokens[row, :size] = self.tokens[self.start[i] : self.start[i] + size]
            answer[row, self.prompt[i] : size] = True
        return torch.from_numpy(tokens).to(device), torch.from_numpy(answer).to(device)


def generate(
    target: Target,
    prompts: Sequence[Sequence[int]],
    choices: Choices,
    *,
    temperature: float = 1.0,
    max_new_tokens: int = 512,
    max_running: int = 64,
    on_finish: Callable[[int, Request], None] = lambda index, request: None,
) -> Sequences:
    """The target's own answers to ``prompts`` (token ids), sampled at ``temperature``."""
    decoder = Decoder(
        target,
        None,
        create("none", 1),
        choices,
        temperature=temperature,
        max_new_tokens=max_new_tokens,
        max_running=max_running,
        on_finish=on_finish,
    )
    return Sequences.of([(r.prompt, r.tokens) for r in decoder.decode(prompts)])


def answers(
    path: Path,
    target: Target,
    prompts: Sequence[Sequence[int]],
    seed: int | tuple[int, ...],
    **options,
) -> Sequences:
    """``generate``, or what an earlier run with the same prompts and options kept in ``path``.

    Raises InputError if ``path`` holds something else.
    """
    settings = {name: str(value) for name, value in options.items()} | {
        "seed": str(seed),
        "target": target.config.name,
        "prompts": hashlib.sha256(msgspec.json.encode([list(p) for p in prompts])).hexdigest(),
    }
    if path.is_file():
        kept = read_sequences(path)
        if _settings(path) != settings:
            raise InputError(
                "holds answers to other prompts or settings",
                file=path,
                mend="remove the folder or name another --out",
            )
        return kept
    choices = RandomChoices(np.random.default_rng(seed), target.device)
    sequences = generate(target, prompts, choices, **options)
    write_sequences(path, sequences, settings)
    return sequences


def _settings(path: Path) -> dict[str, str]:
    with safe_open(path, framework="np") as file:
        return file.metadata() or {}


def write_sequences(
    path: str | os.PathLike, sequences: Sequences, settings: dict[str, str] | None = None
) -> None:
    """One safetensors file with ``tokens``, ``start`` and ``prompt``."""
    with atomic_write(path) as file:
        file.write(save(vars(sequences), settings))


def read_sequences(path: str | os.PathLike) -> Sequences:
    """What ``write_sequences`` wrote. Raises InputError."""
    try:
        arrays = load_file(Path(path))
        sequences = Sequences(arrays["tokens"], arrays["start"], arrays["prompt"])
    except (OSError, SafetensorError, KeyError) as error:
        raise InputError(
            f"is no training data ({error})", file=path, mend="generate it again"
        ) from error
    sizes = np.diff(sequences.start)
    if not len(sequences) or len(sizes) != len(sequences) or (sizes < sequences.prompt).any():
        raise InputError("holds no sequences", file=path, mend="generate it again")
    return sequences
