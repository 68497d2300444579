"""A DFlash-shaped parallel drafter and DSpark's sequential head on top of it.

One pass drafts the whole block. DSpark's anchor is itself the first predicting position: γ inputs,
anchor and γ−1 masks; DFlash has γ masks behind the anchor. They attend to the context's keys and
values, which come from the target's hidden states, and to each other (arXiv 2602.06036). DSpark
then walks the block left to right, adding W1[x_{k−1}]·W2 to the logits of position k and reading a
confidence from the hidden state and W1[x_{k−1}]; its RNN head replaces the bias by one that also
depends on a state (arXiv 2607.05147 §3.1).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from gpu_probe.batch import Batch
from gpu_probe.decoder import Decoder
from gpu_probe.layer import Layer, Weights
from gpu_probe.shapes import DrafterShape


class Drafter:
    """``block_size`` = γ tokens per request and round; embedding and head are the target's."""

    def __init__(self, shape: DrafterShape, target: Decoder, block_size: int, seed: int = 1):
        self.shape, self.target, self.block_size = shape, target, block_size
        self.model = target.shape
        weights = Weights(target.device, target.dtype, seed)
        hidden = self.model.hidden
        self.combine = weights.matrix(hidden, shape.target_layers * hidden)
        self.context_norm = weights.norm(hidden)
        self.layers = [Layer.random(self.model, weights) for _ in range(shape.layers)]
        self.norm = weights.norm(hidden)
        self.mask = weights.matrix(hidden)
        self.queries = block_size + (shape.head is None)
        rank = shape.markov_rank
        if shape.head is not None:
            self.previous = weights.matrix(self.model.vocabulary, rank)
            self.bias = weights.matrix(rank, self.model.vocabulary)
            self.confidence = weights.matrix(hidden + rank)
        if shape.head == "rnn":
            self.recurrent = weights.matrix(3 * rank, 2 * rank + hidden)
        self.weight_bytes = weights.bytes

    @property
    def cached_layers(self) -> int:
        """Layers that keep keys and values."""
        return self.shape.layers

    def inject(self, features: torch.Tensor, batch: Batch, cache: torch.Tensor) -> None:
        """Keys and values of newly verified tokens, from the target's hidden states.

        features [tokens, target layers·hidden]; every layer projects the same context vector with
        its own W_K and W_V.
        """
        kernels, eps = self.target.kernels, self.model.norm_eps
        x = kernels.rmsnorm(F.linear(features, self.combine), self.context_norm, eps)
        queries = self.model.heads * self.model.head
        for layer, pages in zip(self.layers, cache, strict=True):
            kv = F.linear(x, layer.qkv[queries:])
            kernels.norm_rope_append(
                kv, layer.q_norm, layer.k_norm, self.target.rope, batch, pages, eps
            )

    def backbone(self, batch: Batch, cache: torch.Tensor) -> torch.Tensor:
        """Hidden states [queries, requests, hidden] of a batch of ``queries`` per request."""
        kernels, eps = self.target.kernels, self.model.norm_eps
        residual = self.mask.expand(len(batch.tokens), -1).clone()
        anchors = batch.tokens[:: self.queries]
        residual[:: self.queries] = F.embedding(anchors, self.target.embedding)
        x = kernels.rmsnorm(residual, self.layers[0].input_norm, eps)
        norms = [layer.input_norm for layer in self.layers[1:]] + [self.norm]
        for layer, pages, norm in zip(self.layers, cache, norms, strict=True):
            y = layer.forward(
                x, residual, batch, pages, self.target.rope, kernels, eps, causal=False
            )
            x = kernels.add_rmsnorm(y, residual, norm, eps)
        return x.view(-1, self.queries, x.shape[-1]).transpose(0, 1).contiguous()

    def markov(
        self, hidden: torch.Tensor, logits: torch.Tensor, anchors: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Greedy tokens int64 and confidences float32, both [γ, requests], position by position.

        hidden [γ, requests, hidden]; logits [γ, requests, vocabulary], to which the bias is added.
        """
        tokens, confidences, token = [], [], anchors
        state = hidden.new_zeros(hidden.shape[1], self.shape.markov_rank)
        for h, logit in zip(hidden, logits, strict=True):
            before = F.embedding(token, self.previous)
            features = torch.cat([h, before], dim=-1)
            confidences.append(torch.sigmoid((features @ self.confidence).float()))
            if self.shape.head == "rnn":
                z = torch.cat([state, before, h], dim=-1)
                gate, new, out = F.linear(z, self.recurrent).chunk(3, dim=-1)
                gate = torch.sigmoid(gate)
                state = gate * state + (1 - gate) * torch.tanh(new)
                before = torch.tanh(out)
            token = logit.addmm_(before, self.bias).argmax(-1)
            tokens.append(token)
        return torch.stack(tokens), torch.stack(confidences)

    def forward(
        self, features: torch.Tensor, verified: Batch, block: Batch, cache: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """One round's drafting: inject the verified tokens, then draft; as ``markov`` returns.

        cache [drafter layers, pages, 2, KV heads, page tokens, head].
        """
        self.inject(features, verified, cache)
        hidden = self.backbone(block, cache)[-self.block_size :]
        # flat: with one request torch would multiply every position on its own
        logits = F.linear(hidden.reshape(-1, hidden.shape[-1]), self.target.head)
        logits = logits.view(*hidden.shape[:2], -1)
        if self.shape.head is not None:
            return self.markov(hidden, logits, block.tokens[:: self.queries])
        tokens = logits.argmax(-1)
        # DFlash has no confidence head: its users take the probability of the chosen token
        chosen = logits.gather(-1, tokens[..., None])[..., 0]
        return tokens, torch.exp(chosen.float() - logits.float().logsumexp(-1))
