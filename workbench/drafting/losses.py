"""The losses of DSpark: cross-entropy, total variation and confidence, weighted by position.

0.1·CE + 0.9·Σ w_k‖p_d − p_t‖₁ + 1.0·BCE(c, c*), w_k = exp(−(k−1)/γ), c*_k = 1 − ½‖p_d − p_t‖₁; each
term is the weighted mean over the drafts that have a label (arXiv 2607.05147 and DeepSpec).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from workbench.drafting.dspark import Drafter
from workbench.drafting.head_loss import HeadLoss


@dataclass(frozen=True)
class Weights:
    """Factors of the terms; DFlash as its authors train it is cross-entropy alone."""

    cross_entropy: float = 0.1
    total_variation: float = 0.9
    confidence: float = 1.0
    decay: float | None = None  # tokens; None: γ


@dataclass
class Losses:
    """Weighted means, of which ``total`` is differentiable; ``acceptance`` is Σ min(p_d, p_t)."""

    total: Tensor
    cross_entropy: Tensor
    total_variation: Tensor  # of ‖p_d − p_t‖₁, 0..2
    confidence: Tensor
    acceptance: Tensor  # [γ], plain means by position; NaN where nothing has a label


def position_weights(block_size: int, decay: float | None = None) -> Tensor:
    """w_1..w_γ."""
    steps = torch.arange(block_size, dtype=torch.float32)
    return torch.exp(-steps / (decay or block_size))


def drafter_losses(
    drafter: Drafter,
    states: Tensor,
    previous: Tensor,
    labels: Tensor,
    target_logits: Callable[[int, int], Tensor],
    valid: Tensor,
    weights: Weights = Weights(),
    *,
    blocks_per_chunk: int | None = None,
) -> Losses:
    """Losses over N blocks.

    states: h_1..h_γ [N, γ, hidden]; previous: x_0..x_{γ−1} [N, γ]; labels: x_1..x_γ [N, γ];
    target_logits: callable (first, last) → the target's logits [n, γ, V] of those blocks, without
    gradient; valid: bool [N, γ]. Logits of ``blocks_per_chunk`` blocks are held at once (None: all
    of them); the gradient is computed with them, so that neither is ever kept. Products with
    the output head are in the head's precision.
    """
    w = position_weights(labels.shape[1], weights.decay).to(states.device) * valid
    share = w / w.sum().clamp_min(1e-6)
    latent = projection = None
    if drafter.markov_head is not None:
        latent = drafter.markov_head.block(previous, states)
        projection = drafter.markov_head.markov_w2.weight
    learned, cross_entropy, distance = HeadLoss.apply(
        states,
        latent,
        drafter.head,
        projection,
        labels,
        target_logits,
        weights.cross_entropy * share,
        weights.total_variation * share,
        blocks_per_chunk or max(len(labels), 1),
    )
    overlap = (1 - distance / 2).clamp(0, 1)
    logit = drafter.confidence(previous, states)
    if logit is None:
        confidence = torch.zeros_like(learned)
    else:
        bce = F.binary_cross_entropy_with_logits(logit.to(overlap), overlap, reduction="none")
        confidence = (bce * share).sum()
    return Losses(
        learned + weights.confidence * confidence,
        (cross_entropy * share).sum(),
        (distance * share).sum(),
        confidence.detach(),
        (overlap * valid).sum(0) / valid.sum(0),
    )
