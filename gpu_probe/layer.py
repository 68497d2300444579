"""One decoder layer: random weights and the forward pass, shared by target and drafter."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import torch
import torch.nn.functional as F

from gpu_probe import reference
from gpu_probe.batch import Batch
from gpu_probe.chunk import Chunk
from gpu_probe.shapes import ModelShape

NOISE_ROWS = 2048  # tokens of a step that draw their experts apart; more take turns


def kernels_for(device: str) -> ModuleType:
    """Functions rmsnorm, add_rmsnorm, swiglu, norm_rope_append, attention, experts."""
    if device != "cuda":
        return reference
    from gpu_probe import dispatch, kernels, moe  # Triton needs a GPU

    if not hasattr(kernels, "attention"):  # once: they keep what was chosen for the card
        kernels.attention = dispatch.Attention()
        kernels.experts = moe.Experts()
    return kernels


class Weights:
    """Source of random weights: normal with standard deviation 0.02, so activations stay finite."""

    def __init__(self, device: str, dtype: torch.dtype, seed: int):
        self.device, self.dtype = device, dtype
        self.generator = torch.Generator(device).manual_seed(seed)
        self.bytes = 0

    def matrix(self, *size: int) -> torch.Tensor:
        made = torch.empty(size, device=self.device, dtype=self.dtype)
        self.bytes += made.nbytes
        return made.normal_(std=0.02, generator=self.generator)

    def noise(self, *size: int) -> torch.Tensor:
        """Standard normal; no weight, so its bytes do not count."""
        made = torch.empty(size, device=self.device, dtype=self.dtype)
        return made.normal_(generator=self.generator)

    def norm(self, size: int) -> torch.Tensor:
        made = torch.ones(size, device=self.device, dtype=self.dtype)
        self.bytes += made.nbytes
        return made


def rope_table(shape: ModelShape, positions: int, device: str) -> torch.Tensor:
    """Cosines and sines of every position, float32 [positions, 2, head/2]."""
    steps = torch.arange(0, shape.head, 2, device=device, dtype=torch.float64) / shape.head
    angle = torch.arange(positions, device=device)[:, None] * shape.rope_theta**-steps
    return torch.stack([angle.cos(), angle.sin()], dim=1).float()


@dataclass
class Layer:
    """Pre-norm attention and SwiGLU, or experts, with fused QKV and gate-up projections."""

    input_norm: torch.Tensor
    qkv: torch.Tensor
    q_norm: torch.Tensor
    k_norm: torch.Tensor
    output: torch.Tensor
    mlp_norm: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor
    router: torch.Tensor | None = None
    active: int = 0
    noise: torch.Tensor | None = None

    @classmethod
    def random(cls, shape: ModelShape, weights: Weights, inputs: int = 0) -> Layer:
        """``inputs``: features that the attention reads, if not ``shape.hidden``."""
        each = (shape.experts,) if shape.experts else ()
        return cls(
            input_norm=weights.norm(inputs or shape.hidden),
            qkv=weights.matrix(shape.qkv, inputs or shape.hidden),
            q_norm=weights.norm(shape.head),
            k_norm=weights.norm(shape.head),
            output=weights.matrix(shape.hidden, shape.heads * shape.head),
            mlp_norm=weights.norm(shape.hidden),
            gate_up=weights.matrix(*each, 2 * shape.mlp, shape.hidden),
            down=weights.matrix(*each, shape.hidden, shape.mlp),
            # random weights give the tokens of a request like hidden states and so like experts;
            # a trained router spreads them, which noise on its logits does here
            router=weights.matrix(shape.experts, shape.hidden).mul_(0.1) if each else None,
            noise=weights.noise(NOISE_ROWS, shape.experts) if each else None,
            active=shape.active,
        )

    def forward(
        self,
        x: torch.Tensor,
        residual: torch.Tensor,
        batch: Batch,
        pages: torch.Tensor,
        rope: torch.Tensor,
        kernels: ModuleType,
        eps: float,
        causal: bool = True,
        chunk: Chunk | None = None,
        layer: int = 0,
    ) -> torch.Tensor:
        """x: this layer's normed input [B, hidden]; returns what the next norm adds to residual.

        ``chunk``: the batch's last request is a prefill chunk and attends by a kernel of its own;
        ``layer``: which of the chunk's keys and values are this layer's.
        """
        qkv = F.linear(x, self.qkv)
        q = kernels.norm_rope_append(qkv, self.q_norm, self.k_norm, rope, batch, pages, eps)
        if chunk is None:
            y = kernels.attention(q, pages, batch, causal)
        else:
            y = chunk.beside(q, pages, layer, kernels.attention)
        y = F.linear(y.view(len(x), -1), self.output)
        y = kernels.add_rmsnorm(y, residual, self.mlp_norm, eps)
        if self.router is not None:
            return kernels.experts(y, self.router, self.gate_up, self.down, self.active, self.noise)
        return F.linear(kernels.swiglu(F.linear(y, self.gate_up)), self.down)
