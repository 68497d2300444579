"""What one training step learns from: sequences and the anchors of their blocks."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from workbench.drafting.data import Sequences


class Batch(NamedTuple):
    """B sequences of S tokens, padded at the end, with A anchors each."""

    tokens: Tensor  # [B, S]
    answer: Tensor  # bool [B, S], what the target wrote
    anchors: Tensor  # [B, A], ascending
    real: Tensor  # bool [B, A]; a short answer has fewer anchors


def sample_anchors(answer: Tensor, count: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Anchors [B, count], ascending, and which of them are real.

    answer: bool [B, S] on the CPU. An anchor is one whose successor is in the answer too; each is
    as likely as any other of its sequence, and none is drawn twice.
    """
    possible = (answer[:, :-1] & answer[:, 1:]).numpy()
    width = possible.shape[1]
    order = np.where(possible, rng.random(possible.shape, np.float32), np.float32(2))
    drawn = np.argsort(order, axis=1)[:, :count]
    real = np.take_along_axis(possible, drawn, axis=1)
    anchors = np.sort(np.where(real, drawn, width), axis=1)
    short = ((0, 0), (0, count - anchors.shape[1]))
    anchors = np.pad(anchors, short, constant_values=width)
    real = anchors < width
    return torch.from_numpy(np.where(real, anchors, 0)), torch.from_numpy(real)


class Batches:
    """The batch of every step, which follows from (seed, step) alone."""

    def __init__(
        self,
        data: Sequences,
        sequences: int,
        anchors: int,
        length: int | None,
        seed: int,
        device: torch.device,
    ):
        """``length``: every sequence is padded or cut to it; None: to the longest drawn."""
        self._data, self._sequences, self._anchors = data, sequences, anchors
        self._length, self._seed, self._device = length, seed, device
        self._pool = ThreadPoolExecutor(1) if device.type == "cuda" else None
        self._ahead: tuple[int, Future] | None = None

    def get(self, step: int) -> Batch:
        """On the device. On a GPU the next step's is made meanwhile."""
        if self._pool is None:
            return self._make(step)
        if self._ahead is None or self._ahead[0] != step:
            self._ahead = step, self._pool.submit(self._make, step)
        batch = self._ahead[1].result()
        self._ahead = step + 1, self._pool.submit(self._make, step + 1)
        return Batch(*(part.to(self._device, non_blocking=True) for part in batch))

    def _make(self, step: int) -> Batch:
        rng = np.random.default_rng((self._seed, step))
        tokens, answer = self._data.batch(self._sequences, rng, length=self._length)
        batch = Batch(tokens, answer, *sample_anchors(answer, self._anchors, rng))
        return batch if self._pool is None else Batch(*(part.pin_memory() for part in batch))
