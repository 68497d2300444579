"""DFlash (arXiv 2602.06036): a whole block drafted in one non-causal pass over injected context.

Hidden states of several target layers are concatenated, projected and normed; every draft layer
makes keys and values of them beside the block's own. The context's are computed once per token and
cached, so that a draft pass touches only the block. Parameter names are DeepSpec's.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workbench.drafting.block_attention import Attend, dense_attention, flex_attention_of_blocks
from workbench.drafting.cache import KVCache
from workbench.drafting.config import DrafterConfig
from workbench.drafting.layers import Layer, Rope, initialise
from workbench.drafting.parts import EAGER, Parts
from workbench.drafting.target import Target

Context = Callable[[int], tuple[Tensor, Tensor]]  # layer → keys, values [B, kv_heads, m, head_dim]


class Backbone(nn.Module):
    """The parallel part of a drafter. Embedding and output head are the target's, frozen."""

    def __init__(self, config: DrafterConfig, target: Target, generator: torch.Generator | None):
        """``generator`` draws the initial weights; None leaves them to be loaded."""
        super().__init__()
        self.config = config
        self.fc = nn.Linear(
            len(config.target_layer_ids) * target.config.hidden, config.hidden, bias=False
        )
        self.hidden_norm = nn.RMSNorm(config.hidden, config.rms_eps)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.norm = nn.RMSNorm(config.hidden, config.rms_eps)
        self.rope = Rope(config)
        if generator is not None:
            initialise(self, generator)
        # the target's own memory: neither trained nor saved with the drafter
        self.register_buffer("_embedding", target.embed_tokens.weight.detach(), persistent=False)
        self.register_buffer("_head", target.head.detach(), persistent=False)

    def share(self, embedding: Tensor, head: Tensor) -> None:
        """Use another frozen embedding [vocabulary, hidden] and output head of that shape."""
        # a Parameter would register itself: saved with the drafter, and converted along with it
        self._embedding, self._head = embedding.detach(), head.detach()

    @property
    def device(self) -> torch.device:
        return self.fc.weight.device

    @property
    def head(self) -> Tensor:
        """The frozen output head's weight [vocabulary, hidden]."""
        return self._head

    def new_cache(self, rows: int, positions: int) -> KVCache:
        """An empty context cache on the drafter's device, in its dtype."""
        dtype = self.fc.weight.dtype
        return KVCache(self.config, rows, positions, device=self.device, dtype=dtype)

    def logits(self, hidden: Tensor) -> Tensor:
        """The shared head's logits [..., vocabulary] of block states [..., hidden]."""
        return F.linear(hidden, self._head)

    def cache_context(self, features: Tensor, start: Tensor, cache: KVCache) -> None:
        """Cache what tokens at ``start`` [B] onwards give the drafter: features [B, n, m·hidden].

        Features of rejected tokens may be in it: they lie at or past the next anchor, which a
        draft pass never looks at, and are written over when their position is accepted.
        """
        positions = start[:, None] + torch.arange(features.shape[1], device=features.device)
        context = self._context(features)
        angles = self.rope(positions, context.dtype)
        for index, layer in enumerate(self.layers):
            cache.write(index, *layer.self_attn.keys_values(context, angles), positions)

    def draft_states(
        self, anchors: Tensor, positions: Tensor, cache: KVCache, *, upto: int | None = None
    ) -> Tensor:
        """h_1..h_γ [B, γ, hidden] of the blocks that follow ``anchors`` [B] at ``positions`` [B].

        Reads the cached context before each anchor; ``upto``: no position from here on is one.
        """
        upto = cache.positions if upto is None else upto
        seen = torch.arange(upto, device=anchors.device) < positions[:, None]
        return self._blocks(
            anchors[:, None],
            positions[:, None],
            lambda index: cache.read(index, upto),
            dense_attention(seen[:, None], self.config.inputs),
        )[:, 0]

    def block_states(
        self,
        tokens: Tensor,
        features: Tensor,
        anchors: Tensor,
        *,
        flex: bool = False,
        parts: Parts = EAGER,
    ) -> Tensor:
        """h_1..h_γ [B, A, γ, hidden] of A blocks in each whole sequence, in one pass.

        tokens: [B, S]; features: [B, S, m·hidden]; anchors: [B, A] positions in the sequence. Each
        block sees the context before its anchor and itself, as in ``draft_states``. ``flex``:
        attention that skips what no block of 128 queries sees, instead of a dense mask.
        """
        context, inputs = self._context(features), self.config.inputs
        places = torch.arange(tokens.shape[1], device=tokens.device)
        angles = self.rope(places.expand(tokens.shape), context.dtype)
        if flex:
            attend = flex_attention_of_blocks(anchors, tokens.shape[1], inputs)
        else:
            attend = dense_attention(places < anchors[..., None], inputs)
        return self._blocks(
            tokens.gather(1, anchors),
            anchors,
            lambda index: parts.inject(self.layers[index], context, angles),
            attend,
            parts,
        )

    def _context(self, features: Tensor) -> Tensor:
        return self.hidden_norm(self.fc(features).to(self.hidden_norm.weight.dtype))

    def _blocks(
        self,
        anchors: Tensor,
        positions: Tensor,
        context: Context,
        attend: Attend,
        parts: Parts = EAGER,
    ) -> Tensor:
        """anchors, positions: [B, A]."""
        config, (rows, blocks) = self.config, anchors.shape
        inputs = config.inputs
        tokens = anchors.new_full((rows, blocks, inputs), config.mask_token_id)
        tokens[..., 0] = anchors
        offsets = torch.arange(inputs, device=anchors.device)
        # the drafter's own precision, which is above the target's in training
        x = F.embedding(tokens.flatten(1), self._embedding).to(self.fc.weight.dtype)
        angles = self.rope((positions[..., None] + offsets).flatten(1), x.dtype)
        for index, layer in enumerate(self.layers):
            q, k, v = parts.enter(layer, x, angles)
            context_k, context_v = context(index)
            keys, values = torch.cat([context_k, k], dim=2), torch.cat([context_v, v], dim=2)
            x = parts.leave(layer, x, attend(q, keys, values))
        states = self.norm(x).unflatten(1, (blocks, inputs))
        return states[:, :, inputs - config.block_size :]
