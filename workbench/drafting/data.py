"""Training data: prompts with their answers, as flat arrays and as files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file, save
from torch import Tensor

from workbench.errors import InputError
from workbench.files import atomic_write


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
        flat = [np.asarray(part, np.int32) for pair in pairs for part in pair]
        return cls(
            np.concatenate([np.zeros(0, np.int32), *flat]),
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
        start, sizes = self.start[chosen], self.start[chosen + 1] - self.start[chosen]
        width = int(length or sizes.max())
        places = np.arange(width)
        inside = places < sizes[:, None]
        where = np.where(inside, start[:, None] + places, 0)
        tokens = np.where(inside, self.tokens[where], 0).astype(np.int64)
        answer = inside & (places >= self.prompt[chosen, None])
        return torch.from_numpy(tokens).to(device), torch.from_numpy(answer).to(device)


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
