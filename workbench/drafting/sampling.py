"""Speculative sampling: acceptance with min(1, p_t/p_d), residual on rejection, bonus token.

Temperature 0 is the same rule on distributions that hold one token each. Every random choice goes
through ``Choices``, so that a test may enumerate them.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor


class Choices(Protocol):
    """Where randomness comes from."""

    def draw(self, probabilities: Tensor) -> Tensor:
        """One index [...] from each row of ``probabilities`` [..., n] that add up to 1."""

    def accept(self, chance: Tensor) -> Tensor:
        """True [...] with the given chances [...]."""


class RandomChoices:
    """Seeded draws on one device."""

    def __init__(self, rng: np.random.Generator, device: torch.device | str = "cpu"):
        self._generator = torch.Generator(device=device)
        self._generator.manual_seed(int(rng.integers(2**63)))

    def draw(self, probabilities: Tensor) -> Tensor:
        # the first of exponential clocks to ring; torch.multinomial would wait for the device
        clocks = torch.empty_like(probabilities).exponential_(generator=self._generator)
        return (probabilities / clocks).argmax(dim=-1)

    def accept(self, chance: Tensor) -> Tensor:
        # rand is below 1: what is certain is accepted always
        uniform = torch.rand(chance.shape, generator=self._generator, device=chance.device)
        return uniform < chance


def probabilities(logits: Tensor, temperature: float) -> Tensor:
    """Distribution [..., V] sampled from; at temperature 0 all on the first of the largest."""
    if temperature == 0:
        best = logits.argmax(dim=-1)
        dtype = torch.promote_types(logits.dtype, torch.float32)
        return F.one_hot(best, logits.shape[-1]).to(dtype)
    exact = torch.promote_types(logits.dtype, torch.float32)
    return torch.softmax(logits.to(exact) / temperature, dim=-1)


def residual(wanted: Tensor, other: Tensor) -> Tensor:
    """max(0, wanted − other), renormalised, [..., V]; ``wanted`` where they are the same."""
    excess = (wanted - other).clamp_min(0)
    total = excess.sum(dim=-1, keepdim=True)
    return torch.where(total > 0, excess / total, wanted)


def verify(
    target: Tensor, draft: Tensor, tokens: Tensor, lengths: Tensor, choices: Choices
) -> tuple[Tensor, Tensor]:
    """Accepted drafts n [B] and the token after them [B].

    target: p_t [B, m + 1, V], of position j given the anchor and drafts before it; draft: p_d
    [B, m, V]; tokens: [B, m] drafts; lengths: ℓ [B] ≤ m. Token n + 1 is the residual's where draft
    n + 1 was rejected, the target's own (the bonus token) where all ℓ were accepted.
    """
    most = tokens.shape[1]
    rows = torch.arange(len(tokens), device=tokens.device)
    accepted = torch.zeros_like(lengths)
    alive = torch.ones_like(lengths, dtype=torch.bool)
    for k in range(most):
        alive = alive & (k < lengths)
        p_t, p_d = target[rows, k, tokens[:, k]], draft[rows, k, tokens[:, k]]
        chance = torch.where(alive, (p_t / p_d).clamp(max=1.0), 0.0)
        alive = alive & choices.accept(chance)
        accepted += alive
    following = target[rows, accepted]
    if most:
        rejected = accepted < lengths
        left = residual(following, draft[rows, accepted.clamp(max=most - 1)])
        following = torch.where(rejected[:, None], left, following)
    return accepted, choices.draw(following)
