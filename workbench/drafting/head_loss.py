"""Cross-entropy and total variation through the output head, with the gradient made on the way.

Logits of N blocks × γ × V would not fit in memory: a chunk's are made, turned into their own
gradient, carried back to what they were made of, and thrown away.
"""

from __future__ import annotations

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable


def logits_gradient(
    logits: Tensor, target: Tensor, labels: Tensor, ce: Tensor, tv: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """d(ce·CE + tv·‖p_d − p_t‖₁)/d logits [n, V]; CE and ‖p_d − p_t‖₁, each [n].

    logits, target: [n, V] of drafter and target; labels, and the factors ce, tv: [n].
    ∂CE/∂z_j = p_j − [j = label]; ∂‖p − p_t‖₁/∂z_j = p_j(s_j − Σ_i s_i p_i), s = sign(p − p_t).
    """
    exact = torch.promote_types(logits.dtype, torch.float32)
    z, z_t = logits.to(exact), target.to(exact)
    normaliser = z.logsumexp(-1, keepdim=True)
    p = (z - normaliser).exp()
    difference = p - (z_t - z_t.logsumexp(-1, keepdim=True)).exp()
    sign = difference.sign()
    slope = ce[:, None] + tv[:, None] * (sign - (sign * p).sum(-1, keepdim=True))
    here = torch.arange(z.shape[-1], device=z.device) == labels[:, None]
    gradient = p * slope - torch.where(here, ce[:, None], 0.0)
    cross_entropy = normaliser[:, 0] - torch.where(here, z, 0.0).sum(-1)
    return gradient.to(logits.dtype), cross_entropy, difference.abs().sum(-1)


class HeadLoss(torch.autograd.Function):
    """Σ ce·CE + tv·‖p_d − p_t‖₁, and CE and ‖p_d − p_t‖₁ [N, γ] of each draft for information."""

    @staticmethod
    def forward(
        ctx,
        states: Tensor,
        latent: Tensor | None,
        head: Tensor,
        projection: Tensor | None,
        labels: Tensor,
        target_logits,
        ce: Tensor,
        tv: Tensor,
        blocks: int,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Logits are states·headᵀ, plus latent·projectionᵀ with a sequential head.

        states: [N, γ, hidden]; latent: [N, γ, r]; head: [V, hidden], frozen; projection: [V, r];
        target_logits: callable (first, last) → [n, γ, V]; labels, ce, tv: [N, γ]; ``blocks`` at
        once.
        """
        exact, kind = torch.promote_types(head.dtype, torch.float32), head.dtype
        terms = _compiled() if head.is_cuda else logits_gradient
        of_states = torch.empty_like(states)
        of_latent = None if latent is None else torch.empty_like(latent)
        of_projection = None if projection is None else torch.zeros_like(projection)
        bias = None if projection is None else projection.detach().to(kind)
        found = torch.zeros(2, *labels.shape, dtype=exact, device=states.device)
        ce, tv = ce.to(exact), tv.to(exact)
        for first in range(0, len(labels), blocks):
            part = slice(first, min(first + blocks, len(labels)))
            logits = F.linear(states[part].flatten(0, 1).to(kind), head)
            if latent is not None:
                along = latent[part].flatten(0, 1).to(kind)
                logits.addmm_(along, bias.T)
            wanted = target_logits(part.start, part.stop).flatten(0, 1)
            gradient, found_ce, found_l1 = terms(
                logits, wanted, labels[part].flatten(), ce[part].flatten(), tv[part].flatten()
            )
            of_states[part] = (gradient @ head).view_as(states[part])
            if latent is not None:
                of_latent[part] = (gradient @ bias).view_as(latent[part])
                of_projection += gradient.T @ along
            found[0, part] = found_ce.view_as(found[0, part])
            found[1, part] = found_l1.view_as(found[1, part])
        ctx.save_for_backward(of_states, of_latent, of_projection)
        cross_entropy, distance = found
        ctx.mark_non_differentiable(cross_entropy, distance)
        return (cross_entropy * ce + distance * tv).sum(), cross_entropy, distance

    @staticmethod
    @once_differentiable
    def backward(ctx, of_total, *_):
        of_states, of_latent, of_projection = (
            None if saved is None else saved * of_total.to(saved.dtype)
            for saved in ctx.saved_tensors
        )
        return of_states, of_latent, None, of_projection, None, None, None, None, None


@cache
def _compiled():
    return torch.compile(logits_gradient, dynamic=False)
