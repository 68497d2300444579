"""Parts of a Llama/Qwen3 layer that target and drafter share. Module names are Hugging Face's."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workbench.drafting.config import BlockConfig

Angles = tuple[Tensor, Tensor]  # cosines and sines, [B, 1, n, head_dim]


class Rope(nn.Module):
    """Rotary position embedding, half-split as Hugging Face lays it out."""

    def __init__(self, config: BlockConfig):
        super().__init__()
        self.head_dim, self.theta = config.head_dim, config.rope_theta

    def forward(self, positions: Tensor, dtype: torch.dtype) -> Angles:
        """Angles of ``positions`` [B, n], computed in at least float32."""
        exact = torch.promote_types(dtype, torch.float32)
        steps = torch.arange(0, self.head_dim, 2, device=positions.device, dtype=exact)
        turns = positions[..., None].to(exact) * self.theta ** (-steps / self.head_dim)
        turns = torch.cat([turns, turns], dim=-1)[:, None]
        return turns.cos().to(dtype), turns.sin().to(dtype)


def rotate(x: Tensor, angles: Angles) -> Tensor:
    """``x`` [B, heads, n, head_dim] turned by its positions' angles."""
    low, high = x.chunk(2, dim=-1)
    turned = x * angles[0] + torch.cat([-high, low], dim=-1) * angles[1]
    return turned.to(x.dtype)


class Attention(nn.Module):
    """Grouped-query attention in parts, so that keys may come from elsewhere than queries."""

    def __init__(self, config: BlockConfig):
        super().__init__()
        self.head_dim = config.head_dim
        hidden, inner = config.hidden, config.heads * config.head_dim
        self.q_proj = nn.Linear(hidden, inner, bias=False)
        self.k_proj = nn.Linear(hidden, config.kv_heads * config.head_dim, bias=False)
        self.v_proj = nn.Linear(hidden, config.kv_heads * config.head_dim, bias=False)
        self.o_proj = nn.Linear(inner, hidden, bias=False)
        self.q_norm = nn.RMSNorm(config.head_dim, config.rms_eps) if config.qk_norm else None
        self.k_norm = nn.RMSNorm(config.head_dim, config.rms_eps) if config.qk_norm else None

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.head_dim))

    def query(self, x: Tensor, angles: Angles) -> Tensor:
        """Queries [B, heads, n, head_dim] of ``x`` [B, n, hidden]."""
        q = self._heads(self.q_proj(x))
        return rotate(_normed(self.q_norm, q).transpose(1, 2), angles)

    def keys_values(self, x: Tensor, angles: Angles) -> tuple[Tensor, Tensor]:
        """Keys and values, each [B, kv_heads, n, head_dim]."""
        k, v = self._heads(self.k_proj(x)), self._heads(self.v_proj(x))
        return rotate(_normed(self.k_norm, k).transpose(1, 2), angles), v.transpose(1, 2)

    def project(self, seen: Tensor) -> Tensor:
        """[B, n, hidden] of what the queries saw [B, heads, n, head_dim]."""
        return self.o_proj(seen.transpose(1, 2).flatten(2))


def _normed(norm: nn.RMSNorm | None, x: Tensor) -> Tensor:
    # in the norm's own precision, which is above that of x in mixed-precision training
    return x if norm is None else norm(x.to(norm.weight.dtype)).to(x.dtype)


class SwiGLU(nn.Module):
    """down(silu(gate(x)) · up(x))."""

    def __init__(self, config: BlockConfig):
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden, config.ffn, bias=False)
        self.up_proj = nn.Linear(config.hidden, config.ffn, bias=False)
        self.down_proj = nn.Linear(config.ffn, config.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """Pre-norm attention and feed-forward, but for attention itself: who calls it attends."""

    def __init__(self, config: BlockConfig):
        super().__init__()
        self.input_layernorm = nn.RMSNorm(config.hidden, config.rms_eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden, config.rms_eps)
        self.mlp = SwiGLU(config)

    def enter(self, x: Tensor, angles: Angles) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of ``x`` [B, n, hidden]."""
        normed = self.input_layernorm(x)
        return self.self_attn.query(normed, angles), *self.self_attn.keys_values(normed, angles)

    def leave(self, x: Tensor, seen: Tensor) -> Tensor:
        """The layer's output from its input and what its queries saw [B, heads, n, head_dim]."""
        x = x + self.self_attn.project(seen)
        return x + self.mlp(self.post_attention_layernorm(x))


def initialise(module: nn.Module, generator: torch.Generator, std: float = 0.02) -> None:
    """Normal weights for matrices, zero biases; norms keep their ones."""
    with torch.no_grad():
        for part in module.modules():
            if isinstance(part, nn.Linear | nn.Embedding):
                part.weight.normal_(0.0, std, generator=generator)
            if isinstance(part, nn.Linear) and part.bias is not None:
                part.bias.zero_()
