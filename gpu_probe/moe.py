"""Mixture-of-Experts on the card: tokens sorted by expert, two grouped matrix products."""

from __future__ import annotations

import torch

from gpu_probe import reference
from gpu_probe.kernels import swiglu


def experts(
    x: torch.Tensor,
    router: torch.Tensor,
    gate_up: torch.Tensor,
    down: torch.Tensor,
    active: int,
    noise: torch.Tensor | None = None,
) -> torch.Tensor:
    """``reference.experts`` without a read by the host, so that a CUDA graph can hold it."""
    weight, chosen = torch.softmax(
        reference.scores(x, router, noise), -1, dtype=torch.float32
    ).topk(active, -1)
    weight = weight / weight.sum(-1, keepdim=True)
    ordered, order = chosen.flatten().sort()
    ids = torch.arange(len(router), device=x.device)
    ends = torch.searchsorted(ordered, ids, right=True, out_int32=True)
    y = swiglu(torch._grouped_mm(x[order // active], gate_up.transpose(1, 2), offs=ends))
    y = torch._grouped_mm(y, down.transpose(1, 2), offs=ends)
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order), device=x.device)
    y = y[place].view(len(x), active, -1)
    return torch.bmm(weight.to(y.dtype)[:, None], y)[:, 0]
