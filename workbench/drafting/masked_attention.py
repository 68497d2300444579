"""Attention of several queries behind a mask; the queries of a group share their keys."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def masked_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """What ``q`` [B, heads, n, head_dim] sees of k, v [B, kv_heads, m, head_dim]: shape of ``q``.

    mask: bool [B, 1, n, m], true where a query sees a key. A group's queries are laid one after
    the other as if they were a sequence, so that no key is repeated: with ``enable_gqa`` a mask
    keeps PyTorch from its fast kernels.
    """
    group = q.shape[1] // k.shape[1]
    laid = q.unflatten(1, (k.shape[1], group)).flatten(2, 3)
    seen = F.scaled_dot_product_attention(laid, k, v, attn_mask=mask.repeat(1, 1, group, 1))
    return seen.unflatten(2, (group, q.shape[2])).flatten(1, 2)
