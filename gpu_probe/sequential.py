"""Drafters that draft token by token: Eagle3, MTP and a small decoder of its own.

A round's first pass runs over the tokens that were just verified (as many as a block can have,
since engines launch it before they know the outcome) and gives the first draft token; every further
token is a pass of one query token per request.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from gpu_probe.batch import Batch
from gpu_probe.decoder import Decoder
from gpu_probe.layer import Layer, Weights
from gpu_probe.shapes import MODELS, DrafterShape, ModelShape


class Sequential:
    """``forward`` drafts as many tokens as there are batches. No confidences: there is no head."""

    def __init__(self, shape: DrafterShape, target: Decoder, seed: int = 1):
        self.shape, self.target = shape, target
        self.small: Decoder | None = None
        self.kernels, self.eps = target.kernels, target.shape.norm_eps
        if shape.model is not None:
            self.model: ModelShape = MODELS[shape.model]
            if self.model.hidden > target.shape.hidden:  # a drafter is no larger than its target
                self.model = target.shape
            positions = len(target.rope)
            self.small = Decoder(self.model, target.device, target.dtype, positions, seed)
            self.weight_bytes = self.small.weight_bytes
            return
        self.model = target.shape
        weights, hidden = Weights(target.device, target.dtype, seed), self.model.hidden
        eagle = shape.kind == "eagle3"
        self.combine = weights.matrix(hidden, shape.target_layers * hidden) if eagle else None
        self.project = None if eagle else weights.matrix(hidden, 2 * hidden)
        self.token_norm, self.hidden_norm = weights.norm(hidden), weights.norm(hidden)
        self.layer = Layer.random(self.model, weights, 2 * hidden if eagle else hidden)
        self.norm = weights.norm(hidden)
        vocabulary = min(shape.vocabulary, self.model.vocabulary)
        self.head = weights.matrix(vocabulary, hidden) if eagle else target.head
        self.weight_bytes = weights.bytes

    @property
    def cached_layers(self) -> int:
        """Layers that keep keys and values."""
        return self.small.shape.layers if self.small else 1

    def _pass(self, tokens: torch.Tensor, hidden: torch.Tensor, batch: Batch, pages: torch.Tensor):
        """Hidden states [B, hidden] of one pass."""
        kernels, eps = self.kernels, self.eps
        x = kernels.rmsnorm(F.embedding(tokens, self.target.embedding), self.token_norm, eps)
        x = torch.cat([x, kernels.rmsnorm(hidden, self.hidden_norm, eps)], -1)
        if self.project is None:
            residual = hidden.clone()
        else:
            residual = F.linear(x, self.project)
            x = kernels.rmsnorm(residual, self.layer.input_norm, eps)
        y = self.layer.forward(x, residual, batch, pages, self.target.rope, kernels, eps)
        kernels.add_rmsnorm(y, residual, self.norm, eps)
        return residual

    def _next(self, hidden: torch.Tensor) -> torch.Tensor:
        return F.linear(self.kernels.rmsnorm(hidden, self.norm, self.eps), self.head).argmax(-1)

    def forward(
        self, features: torch.Tensor, batches: list[Batch], cache: torch.Tensor
    ) -> torch.Tensor:
        """Draft tokens int64 [γ, requests].

        features [B, target layers·hidden]: the target's hidden states of the first batch, which
        holds the verified tokens; each further batch has one token per request. cache [layers,
        pages, 2, KV heads, page tokens, head] of ``model``'s dimensions.
        """
        first = batches[0]
        last = first.query_starts[1:].long() - 1
        if self.small is not None:
            tokens = self.small.forward(first, cache)[last]
            drafted = [tokens]
            for batch in batches[1:]:
                batch.tokens.copy_(tokens)
                tokens = self.small.forward(batch, cache)
                drafted.append(tokens)
            return torch.stack(drafted)
        hidden = features if self.combine is None else F.linear(features, self.combine)
        hidden = self._pass(first.tokens, hidden, first, cache[0])[last]
        drafted = [self._next(hidden)]
        for batch in batches[1:]:
            hidden = self._pass(drafted[-1], hidden, batch, cache[0])
            drafted.append(self._next(hidden))
        return torch.stack(drafted)
