"""The losses of DSpark: cross-entropy, total variation and confidence, weighted by position.

0.1·CE + 0.9·Σ w_k‖p_d − p_t‖₁ + 1.0·BCE(c, c*), w_k = exp(−(k−1)/γ), c*_k = 1 − ½‖p_d − p_t‖₁; each
term is the weighted mean over the drafts that have a label (arXiv 2607.05147 and DeepSpec).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from workbench.drafting.dspark import Drafter


@dataclass(frozen=True)
class Weights:
    """Factors of the terms; DFlash as its authors train it is cross-entropy alone."""

    cross_entropy: float = 0.1
    total_variation: float = 0.9
    confidence: float = 1.0
    decay: float | None = None  # tokens; None: γ


@dataclass
class Losses:
    """Weighted means, differentiable; ``acceptance`` is Σ min(p_d, p_t), for reports."""

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
    target_logits,
    valid: Tensor,
    weights: Weights = Weights(),
    *,
    blocks_per_chunk: int | None = None,
) -> Losses:
    """Losses over N blocks.

    states: h_1..h_γ [N, γ, hidden]; previous: x_0..x_{γ−1} [N, γ]; labels: x_1..x_γ [N, γ];
    target_logits: callable (first, last) → the target's logits [n, γ, V] of those blocks, without
    gradient; valid: bool [N, γ]. With ``blocks_per_chunk`` the logits of a chunk are thrown away
    and computed again in the backward pass: memory for one chunk, the same numbers.
    """
    count, gamma = labels.shape
    w = position_weights(gamma, weights.decay).to(states.device) * valid
    size = blocks_per_chunk or max(count, 1)
    sums, accepted = states.new_zeros(3, dtype=torch.float32), torch.zeros_like(w).sum(0)
    for first in range(0, count, size):
        part = slice(first, min(first + size, count))

        def terms(states_part, part=part):
            p_t_logits = target_logits(part.start, part.stop)
            return _terms(
                drafter, states_part, previous[part], labels[part], p_t_logits, w[part], valid[part]
            )

        if blocks_per_chunk:
            part_sums, part_accepted = checkpoint(terms, states[part], use_reentrant=False)
        else:
            part_sums, part_accepted = terms(states[part])
        sums, accepted = sums + part_sums, accepted + part_accepted
    means = sums / w.sum().clamp_min(1e-6)
    factors = (weights.cross_entropy, weights.total_variation, weights.confidence)
    total = sum(factor * mean for factor, mean in zip(factors, means, strict=True))
    return Losses(total, *means, accepted.detach() / valid.sum(0))


def _terms(drafter, states, previous, labels, target_logits, w, valid):
    """Weighted sums [3] of the terms, and the sums [γ] of Σ min(p_d, p_t)."""
    logits, confidence = drafter.teacher_forced(states, previous)
    log_p = torch.log_softmax(logits.float(), dim=-1)
    p_t = torch.softmax(target_logits.float(), dim=-1)
    cross_entropy = F.nll_loss(log_p.flatten(0, 1), labels.flatten(), reduction="none")
    distance = (log_p.exp() - p_t).abs().sum(dim=-1)
    overlap = (1 - distance.detach() / 2).clamp(0, 1)
    sums = [(cross_entropy.view_as(w) * w).sum(), (distance * w).sum()]
    if confidence is None:
        sums.append(torch.zeros_like(sums[0]))
    else:
        bce = F.binary_cross_entropy_with_logits(confidence.float(), overlap, reduction="none")
        sums.append((bce * w).sum())
    return torch.stack(sums), (overlap * valid).sum(0)
