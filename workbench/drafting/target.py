"""The target: a Llama- or Qwen3-family decoder over a static KV cache, batched.

Parameter names are those of Hugging Face's checkpoints without the leading ``model.``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workbench.drafting.attention import decode_attention
from workbench.drafting.cache import KVCache
from workbench.drafting.config import TargetConfig
from workbench.drafting.layers import Layer, Rope
from workbench.drafting.masked_attention import masked_attention
from workbench.drafting.parts import EAGER, Parts


@dataclass
class TargetOutput:
    """What one pass makes of n tokens of every row."""

    hidden: Tensor  # [B, n, hidden], normed: the output head's input
    features: Tensor | None  # [B, n, m·hidden], the outputs of m layers side by side


class Target(nn.Module):
    """Decoder with rotary positions, RMSNorm, SwiGLU, grouped queries, optional QK-norm."""

    def __init__(self, config: TargetConfig):
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocabulary, config.hidden)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.norm = nn.RMSNorm(config.hidden, config.rms_eps)
        self.lm_head = (
            None if config.tied else nn.Linear(config.hidden, config.vocabulary, bias=False)
        )
        self.rope = Rope(config)

    @property
    def head(self) -> Tensor:
        """The output head's weight [vocabulary, hidden]."""
        return self.embed_tokens.weight if self.lm_head is None else self.lm_head.weight

    @property
    def dtype(self) -> torch.dtype:
        return self.embed_tokens.weight.dtype

    @property
    def device(self) -> torch.device:
        return self.embed_tokens.weight.device

    def new_cache(self, rows: int, positions: int) -> KVCache:
        """An empty cache on the model's device, in its dtype."""
        return KVCache(self.config, rows, positions, device=self.device, dtype=self.dtype)

    def forward(
        self,
        tokens: Tensor,
        start: Tensor,
        cache: KVCache,
        *,
        upto: int | None = None,
        collect: tuple[int, ...] = (),
    ) -> TargetOutput:
        """Process ``tokens`` [B, n] at positions ``start`` [B] onwards and cache them.

        Token i of a row sees the cached positions up to its own. Rows of unequal length are padded
        at the end: what padding caches lies past the row's length and is written over later.
        ``upto``: attend to no position from here on (at least the furthest token's + 1); without
        it all of the cache is read, a shape that never changes. ``collect``: layers whose outputs
        make up the features, −1 for the embedding's.
        """
        upto = cache.positions if upto is None else upto
        positions = start[:, None] + torch.arange(tokens.shape[1], device=tokens.device)
        mask = (torch.arange(upto, device=tokens.device) <= positions[..., None])[:, None]

        def attend(index: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            cache.write(index, k, v, positions)
            k, v = cache.read(index, upto)
            return masked_attention(q, k, v, mask)

        return self._through(tokens, positions, attend, EAGER, collect)

    def whole(
        self,
        tokens: Tensor,
        *,
        cache: KVCache | None = None,
        rows: Tensor | None = None,
        collect: tuple[int, ...] = (),
        parts: Parts = EAGER,
    ) -> TargetOutput:
        """Process ``tokens`` [B, n] from position 0, padded at the end; no mask is built.

        With ``cache`` their keys and values go to its ``rows`` [B].
        """

        def attend(index: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            if cache is not None:
                cache.write_start(index, k, v, rows)
            return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

        positions = torch.arange(tokens.shape[1], device=tokens.device).expand(tokens.shape)
        return self._through(tokens, positions, attend, parts, collect)

    def decode(
        self, tokens: Tensor, start: Tensor, cache: KVCache, upto: int, parts: Parts = EAGER
    ) -> Tensor:
        """``forward`` of one token per row, ``tokens`` [B], made for many rows: hidden [B, hidden].

        On a GPU each row reads its own length only, and the pass can be captured as a CUDA graph.
        """

        def attend(index: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            cache.write(index, k, v, start[:, None])
            return decode_attention(q, *cache.read(index, upto), start + 1)

        return self._through(tokens[:, None], start[:, None], attend, parts, ()).hidden[:, 0]

    def _through(
        self,
        tokens: Tensor,
        positions: Tensor,
        attend: Callable[[int, Tensor, Tensor, Tensor], Tensor],
        parts: Parts,
        collect: tuple[int, ...],
    ) -> TargetOutput:
        x = self.embed_tokens(tokens)
        angles = self.rope(positions, x.dtype)
        kept = {-1: x}
        for index, layer in enumerate(self.layers):
            x = parts.leave(layer, x, attend(index, *parts.enter(layer, x, angles)))
            if index in collect:
                kept[index] = x
        features = torch.cat([kept[i] for i in collect], dim=-1) if collect else None
        return TargetOutput(self.norm(x), features)

    def logits(self, hidden: Tensor) -> Tensor:
        """[…, vocabulary] from normed hidden states […, hidden]."""
        return F.linear(hidden, self.head)
