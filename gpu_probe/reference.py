"""Plain torch versions of every kernel: what runs on a CPU and what the kernels are tested against.

The keys and values of one layer lie in pages: ``pages`` [pages, 2, KV heads, page tokens, head].
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from gpu_probe.batch import Batch


def rmsnorm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """RMSNorm over the last axis, accumulated in at least float32."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (wide * scale * weight.to(wide.dtype)).to(x.dtype)


def add_rmsnorm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> torch.Tensor:
    """residual += x in place; returns RMSNorm(residual). Both [tokens, hidden]."""
    residual += x
    return rmsnorm(residual, weight, eps)


def swiglu(gate_up: torch.Tensor) -> torch.Tensor:
    """[tokens, 2·mlp] → [tokens, mlp]: silu of the first half times the second."""
    gate, up = gate_up.chunk(2, dim=-1)
    return F.silu(gate) * up


def norm_rope_append(
    qkv: torch.Tensor,
    q_weight: torch.Tensor,
    k_weight: torch.Tensor,
    rope: torch.Tensor,
    batch: Batch,
    pages: torch.Tensor,
    eps: float,
) -> torch.Tensor:
    """QK-norm and RoPE of the new tokens; keys and values go to their slots in ``pages``.

    qkv [tokens, (q + 2·kv heads)·head]; rope [positions, 2, head/2] holds cosines and sines.
    Returns the queries [tokens, q heads, head]; a qkv without query heads only fills the cache.
    """
    kv_heads, page_tokens, head = pages.shape[2:]
    x = qkv.view(len(qkv), -1, head)
    q_heads = x.shape[1] - 2 * kv_heads
    q, k, v = x.split([q_heads, kv_heads, kv_heads], dim=1)
    cos, sin = rope[batch.positions.long()].to(x.dtype).unbind(1)
    cos, sin = cos[:, None], sin[:, None]

    def turn(y: torch.Tensor) -> torch.Tensor:
        low, high = y.chunk(2, dim=-1)
        return torch.cat([low * cos - high * sin, high * cos + low * sin], dim=-1)

    page, place = batch.slots // page_tokens, batch.slots % page_tokens
    pages[page, 0, :, place] = turn(rmsnorm(k, k_weight, eps))
    pages[page, 1, :, place] = v
    return turn(rmsnorm(q, q_weight, eps))


def attention(
    q: torch.Tensor,
    pages: torch.Tensor,
    batch: Batch,
    causal: bool = True,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Attention of every request's query tokens over its cached tokens.

    q [tokens, q heads, head]; the result likewise, in ``out`` if given. Causal: query i of n sees
    the first length − n + i + 1 tokens; else all of them (the bidirectional block of DFlash).
    """
    kv_heads, page_tokens, head = pages.shape[2:]
    out = torch.empty_like(q) if out is None else out
    out[batch.live :] = 0
    starts = batch.query_starts.tolist()
    for r, length in enumerate(batch.lengths.tolist()):
        rows = slice(starts[r], starts[r + 1])
        n = starts[r + 1] - starts[r]
        table = batch.table[r, : -(-length // page_tokens)].long()
        cached = pages[table].to(q.dtype)  # [pages, 2, KV heads, page tokens, head]
        k, v = cached.permute(1, 2, 0, 3, 4).reshape(2, kv_heads, -1, head)[:, :, :length]
        mask = None
        if causal:
            seen = torch.arange(n, device=q.device)[:, None] + length - n
            mask = torch.arange(length, device=q.device) <= seen
        group = q.shape[1] // kv_heads
        y = F.scaled_dot_product_attention(
            q[rows].transpose(0, 1),
            k.repeat_interleave(group, 0),
            v.repeat_interleave(group, 0),
            attn_mask=mask,
        )
        out[rows] = y.transpose(0, 1)
    return out


def scores(x: torch.Tensor, router: torch.Tensor, noise: torch.Tensor | None) -> torch.Tensor:
    """The router's logits [tokens, experts], plus a row of ``noise`` [rows, experts] per token."""
    if noise is None:
        return F.linear(x, router)
    noise = noise.to(x.dtype)
    if len(x) > len(noise):
        noise = noise.repeat(-(-len(x) // len(noise)), 1)
    return torch.addmm(noise[: len(x)], x, router.t())


def experts(
    x: torch.Tensor,
    router: torch.Tensor,
    gate_up: torch.Tensor,
    down: torch.Tensor,
    active: int,
    noise: torch.Tensor | None = None,
) -> torch.Tensor:
    """A Mixture-of-Experts MLP: each token's ``active`` likeliest experts, weighted, summed.

    x [tokens, hidden]; router [experts, hidden]; gate_up [experts, 2·mlp, hidden];
    down [experts, hidden, mlp]; noise as in ``scores``. The weights of the chosen experts are
    normalised to sum 1.
    """
    return routed(x, scores(x, router, noise), gate_up, down, active)


def routed(
    x: torch.Tensor, logits: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor, active: int
) -> torch.Tensor:
    """``experts`` from the router's logits [tokens, experts], in the type of ``x``."""
    weight, chosen = torch.softmax(logits, -1).topk(active, -1)
    weight = weight / weight.sum(-1, keepdim=True)
    out = torch.zeros_like(x)
    for expert in range(logits.shape[1]):
        token, place = (chosen == expert).nonzero(as_tuple=True)
        y = swiglu(F.linear(x[token], gate_up[expert].to(x.dtype)))
        y = F.linear(y, down[expert].to(x.dtype))
        out.index_add_(0, token, y * weight[token, place, None])
    return out
