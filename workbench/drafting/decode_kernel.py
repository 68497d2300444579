"""Triton: attention of one token per row. A row's cache is read once for its group of queries,
and no further than the row is long.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

TILE = 64  # positions read at once


@triton.jit
def _decode(
    q, k, v, lengths, out, row_stride, head_stride, scale,
    GROUP: tl.constexpr, DIM: tl.constexpr, PADDED: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    heads = tl.num_programs(1)
    group = tl.arange(0, PADDED)
    dim = tl.arange(0, DIM)
    places = ((row * heads + head) * GROUP + group[:, None]) * DIM + dim[None, :]
    inside = group[:, None] < GROUP
    query = tl.load(q + places, mask=inside, other=0.0)
    start = row * row_stride + head * head_stride
    length = tl.load(lengths + row).to(tl.int32)
    best = tl.full([PADDED], float("-inf"), tl.float32)
    total = tl.zeros([PADDED], tl.float32)
    seen = tl.zeros([PADDED, DIM], tl.float32)
    for first in range(0, length, TILE):
        at = first + tl.arange(0, TILE)
        known = at < length
        where = start + at[:, None] * DIM + dim[None, :]
        keys = tl.load(k + where, mask=known[:, None], other=0.0)
        values = tl.load(v + where, mask=known[:, None], other=0.0)
        scores = tl.dot(query, tl.trans(keys), input_precision="ieee") * scale
        scores = tl.where(known[None, :], scores, float("-inf"))
        higher = tl.maximum(best, tl.max(scores, 1))
        weights = tl.exp2(scores - higher[:, None])
        shrink = tl.exp2(best - higher)
        total = total * shrink + tl.sum(weights, 1)
        seen = seen * shrink[:, None] + tl.dot(
            weights.to(values.dtype), values, input_precision="ieee"
        )
        best = higher
    seen = seen / total[:, None]
    tl.store(out + places, seen.to(out.dtype.element_ty), mask=inside)


def launch(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor) -> Tensor:
    """Shapes as in ``decode_attention``; head_dim a power of two, at least 16; lengths ≥ 1."""
    rows, heads, _, dim = q.shape
    group = heads // k.shape[1]
    q, out = q.contiguous(), torch.empty_like(q, memory_format=torch.contiguous_format)
    assert k.stride() == v.stride() and k.stride()[2:] == (dim, 1)
    scale = dim**-0.5 * 1.4426950408889634  # exponentials of base 2
    _decode[(rows, k.shape[1])](
        q, k, v, lengths, out, k.stride(0), k.stride(1), scale,
        GROUP=group, DIM=dim, PADDED=max(16, triton.next_power_of_2(group)), TILE=TILE,
        num_warps=4, num_stages=3,
    )  # fmt: skip
    return out
