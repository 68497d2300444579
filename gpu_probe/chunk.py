"""A prefill chunk in a step: its attention goes through torch's flash kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch.nn.attention.bias import causal_lower_right

from gpu_probe.batch import Batch


def chunk_attention(q: torch.Tensor, keys_values: torch.Tensor) -> torch.Tensor:
    """Causal attention of a chunk over what precedes it and itself.

    q [1, heads, chunk, head]; keys_values [2, 1, KV heads, context + chunk, head]; as q.
    """
    if q.is_cuda:
        # causal from the lower right; torch's own dispatch takes other kernels where nothing
        # precedes the chunk, and a table must not change its kernel between two points
        return torch.ops.aten._scaled_dot_product_flash_attention(q, *keys_values, 0.0, True)[0]
    bias = causal_lower_right(q.shape[2], keys_values.shape[3])
    return F.scaled_dot_product_attention(q, *keys_values, attn_mask=bias, enable_gqa=True)


@dataclass(frozen=True)
class Chunk:
    """The last request of ``batch``, of ``tokens`` tokens, beside ``decodes`` (None: alone).

    keys_values [layers, 2, 1, KV heads, context + chunk, head]: what it attends to, contiguous,
    as torch's kernel wants it (an engine's kernel reads it from pages at about the same cost).
    """

    tokens: int
    decodes: Batch | None
    keys_values: torch.Tensor

    def beside(
        self, q: torch.Tensor, pages: torch.Tensor, layer: int, attention: Callable
    ) -> torch.Tensor:
        """Attention of all query tokens [B, heads, head]: decodes, the chunk, then fillers."""
        out = torch.empty_like(q)
        first = 0
        if self.decodes is not None:
            first = self.decodes.live
            attention(q[:first], pages, self.decodes, out=out[:first])
        end = first + self.tokens
        self.alone(q[first:end], out[first:end], layer)
        out[end:].zero_()
        return out

    def alone(self, q: torch.Tensor, out: torch.Tensor, layer: int) -> None:
        """The chunk's own attention, q [tokens, heads, head] into ``out``."""
        keys_values = self.keys_values[layer % len(self.keys_values)]
        out.copy_(chunk_attention(q.transpose(0, 1)[None], keys_values)[0].transpose(0, 1))
