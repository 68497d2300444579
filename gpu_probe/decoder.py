"""The target: a decoder with random weights, one forward pass per engine step."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from gpu_probe.batch import Batch
from gpu_probe.chunk import Chunk
from gpu_probe.layer import Layer, Weights, kernels_for, rope_table
from gpu_probe.shapes import ModelShape

LOGIT_ROWS = 2048  # logits in memory at once: 0.6 GB at a vocabulary of 152,000


class Decoder:
    """Every layer has weights of its own, so that a step streams all of them from memory."""

    def __init__(
        self, shape: ModelShape, device: str, dtype: torch.dtype, positions: int, seed: int = 0
    ):
        self.shape, self.device, self.dtype = shape, device, dtype
        self.kernels = kernels_for(device)
        weights = Weights(device, dtype, seed)
        self.embedding = weights.matrix(shape.vocabulary, shape.hidden)
        self.layers = [Layer.random(shape, weights) for _ in range(shape.layers)]
        self.norm = weights.norm(shape.hidden)
        self.head = self.embedding
        if not shape.tied:
            self.head = weights.matrix(shape.vocabulary, shape.hidden)
        self.weight_bytes = weights.bytes
        self.rope = rope_table(shape, positions, device)

    @property
    def streamed_bytes(self) -> int:
        """Weight bytes that a step of one token reads at least.

        Not the embedding, of which it reads a row, unless it is the output layer too; of experts
        only the active ones.
        """
        shape = self.shape
        unread = 0 if shape.tied else self.embedding.nbytes
        if shape.experts:
            idle = shape.experts - shape.active
            unread += shape.layers * idle * 3 * shape.mlp * shape.hidden * self.head.itemsize
        return self.weight_bytes - unread

    def forward(
        self,
        batch: Batch,
        cache: torch.Tensor,
        logit_rows: int | None = None,
        chunk: Chunk | None = None,
    ) -> torch.Tensor:
        """Next token of each of the first ``logit_rows`` query tokens (default: all), int64.

        cache [layers, pages, 2, KV heads, page tokens, head]; the new tokens are written to it.
        chunk: the batch's last request, if that is a prefill chunk.
        """
        kernels, eps = self.kernels, self.shape.norm_eps
        residual = F.embedding(batch.tokens, self.embedding)
        x = kernels.rmsnorm(residual, self.layers[0].input_norm, eps)
        norms = [layer.input_norm for layer in self.layers[1:]] + [self.norm]
        for i, (layer, pages, norm) in enumerate(zip(self.layers, cache, norms, strict=True)):
            y = layer.forward(
                x, residual, batch, pages, self.rope, kernels, eps, chunk=chunk, layer=i
            )
            x = kernels.add_rmsnorm(y, residual, norm, eps)
        return self.choose(x[:logit_rows])

    def choose(self, x: torch.Tensor) -> torch.Tensor:
        """The likeliest token after each normed hidden state [rows, hidden], int64 [rows]."""
        if len(x) <= LOGIT_ROWS:
            return F.linear(x, self.head).argmax(-1)
        return torch.cat([F.linear(part, self.head).argmax(-1) for part in x.split(LOGIT_ROWS)])

    def attention_only(self, q: torch.Tensor, batch: Batch, cache: torch.Tensor) -> torch.Tensor:
        """The attention of every layer and nothing else, of the same q [B, heads, head]."""
        out = torch.empty_like(q)
        for layer in range(self.shape.layers):
            self.kernels.attention(q, cache[layer % len(cache)], batch, out=out)
        return out
