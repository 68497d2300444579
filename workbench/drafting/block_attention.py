"""Who sees whom among the draft blocks of a sequence: a block its context and itself.

Keys are the S positions of the context, then the blocks' own inputs; queries are those inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from workbench.drafting.masked_attention import masked_attention

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]  # queries, keys, values → what is seen
TILE = 128  # of flex attention; shapes are padded to its multiples


def dense_attention(seen: Tensor, inputs: int) -> Attend:
    """Behind a mask. ``seen``: bool [B, A, S], the context of each block."""
    rows, blocks = seen.shape[:2]
    own = torch.arange(blocks * inputs, device=seen.device) // inputs
    itself = (own[:, None] == own).expand(rows, -1, -1)
    mask = torch.cat([seen.repeat_interleave(inputs, dim=1), itself], dim=-1)[:, None]
    return lambda q, k, v: masked_attention(q, k, v, mask)


def flex_attention_of_blocks(anchors: Tensor, length: int, inputs: int) -> Attend:
    """The same for ``anchors`` [B, A] of sequences of ``length`` tokens; tiles unseen are skipped.

    Ascending anchors skip most.
    """
    rows, blocks = anchors.shape
    padding = -(blocks * inputs) % TILE, -(length + blocks * inputs) % TILE
    queries = blocks * inputs + padding[0]
    # padding sees itself, as one more block without context: no row is empty
    own = torch.arange(queries + TILE, device=anchors.device) // inputs
    own = own.clamp(max=blocks)
    before = F.pad(anchors, (0, 1)).gather(1, own.expand(rows, -1))

    def sees(row, head, query, key):
        of_block = own[query] == own[(key - length).clamp(min=0)]
        return torch.where(key < length, key < before[row, query], of_block)

    mask = create_block_mask(
        sees, rows, None, queries, length + blocks * inputs + padding[1],
        device=anchors.device, BLOCK_SIZE=TILE,
    )  # fmt: skip
    return lambda q, k, v: _flex(q.is_cuda)(
        F.pad(q, (0, 0, 0, padding[0])),
        F.pad(k, (0, 0, 0, padding[1])),
        F.pad(v, (0, 0, 0, padding[1])),
        block_mask=mask,
        enable_gqa=True,
    )[:, :, : blocks * inputs]


@cache
def _flex(fast: bool):
    return torch.compile(flex_attention, dynamic=False) if fast else flex_attention
