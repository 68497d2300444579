"""Attention of one new token per row over a static cache, each row as long as it is."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

try:
    from workbench.drafting.decode_kernel import launch
except ImportError:  # Triton comes with PyTorch's builds for GPUs only
    launch = None


def decode_attention(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor) -> Tensor:
    """What ``q`` [B, heads, 1, head_dim] sees of the first ``lengths`` [B] positions of its row.

    k, v: [B, kv_heads, positions, head_dim], dense but for the rows' stride.
    """
    if launch is not None and q.is_cuda and q.shape[-1] in (16, 32, 64, 128, 256):
        return launch(q, k, v, lengths)
    return grouped_attention(q, k, v, lengths)


def grouped_attention(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor) -> Tensor:
    """The same by PyTorch: the queries of a group share their keys as if they were a sequence."""
    seen = torch.arange(k.shape[2], device=k.device) < lengths[:, None]
    grouped = q.unflatten(1, (k.shape[1], -1)).squeeze(3)
    mask = seen[:, None, None].expand(-1, k.shape[1], grouped.shape[2], -1)
    return F.scaled_dot_product_attention(grouped, k, v, attn_mask=mask).flatten(1, 2)[:, :, None]
