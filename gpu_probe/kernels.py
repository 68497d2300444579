"""Triton kernels for what an engine fuses between the matrix products , each in one pass.

The same functions in plain torch, with the shapes described, are in ``reference``.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl

from gpu_probe.batch import Batch


@triton.jit
def _add_rmsnorm(x, residual, weight, out, hidden, eps, ADD: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * hidden
    at = tl.arange(0, BLOCK)
    live = at < hidden
    y = tl.load(x + row + at, mask=live, other=0.0).to(tl.float32)
    if ADD:
        y += tl.load(residual + row + at, mask=live, other=0.0).to(tl.float32)
        tl.store(residual + row + at, y.to(residual.dtype.element_ty), mask=live)
    y *= tl.rsqrt(tl.sum(y * y) / hidden + eps)
    y *= tl.load(weight + at, mask=live, other=0.0).to(tl.float32)
    tl.store(out + row + at, y.to(out.dtype.element_ty), mask=live)


def _norm(x: torch.Tensor, residual: torch.Tensor, weight, eps: float, add: bool) -> torch.Tensor:
    tokens, hidden = x.shape
    out = torch.empty_like(x)
    _add_rmsnorm[(tokens,)](
        x, residual, weight, out, hidden, eps, add, triton.next_power_of_2(hidden), num_warps=8
    )
    return out


def rmsnorm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return _norm(x, x, weight, eps, add=False)


def add_rmsnorm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> torch.Tensor:
    return _norm(x, residual, weight, eps, add=True)


@triton.jit
def _swiglu(gate_up, out, mlp, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    live = at < mlp
    gate = tl.load(gate_up + row * 2 * mlp + at, mask=live, other=0.0).to(tl.float32)
    up = tl.load(gate_up + row * 2 * mlp + mlp + at, mask=live, other=0.0).to(tl.float32)
    y = gate * tl.sigmoid(gate) * up
    tl.store(out + row * mlp + at, y.to(out.dtype.element_ty), mask=live)


def swiglu(gate_up: torch.Tensor) -> torch.Tensor:
    tokens, mlp = gate_up.shape[0], gate_up.shape[1] // 2
    out = gate_up.new_empty(tokens, mlp)
    _swiglu[(tokens, triton.cdiv(mlp, 1024))](gate_up, out, mlp, BLOCK=1024)
    return out


@triton.jit
def _norm_rope_append(
    qkv, q_weight, k_weight, rope, positions, slots, pages, q_out, eps,
    Q_HEADS: tl.constexpr, KV_HEADS: tl.constexpr, HEAD: tl.constexpr,
    PAGE: tl.constexpr, HEADS: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(0).to(tl.int64)
    first = tl.program_id(1) * HEADS  # heads of one program are all q, all k or all v
    half: tl.constexpr = HEAD // 2
    heads = first + tl.arange(0, HEADS)
    at = tl.arange(0, half)
    source = token * (Q_HEADS + 2 * KV_HEADS) * HEAD + heads[:, None] * HEAD + at[None, :]
    low = tl.load(qkv + source).to(tl.float32)
    high = tl.load(qkv + source + half).to(tl.float32)
    if first < Q_HEADS + KV_HEADS:
        weight = q_weight if first < Q_HEADS else k_weight
        scale = tl.rsqrt((tl.sum(low * low, 1) + tl.sum(high * high, 1)) / HEAD + eps)
        low = low * scale[:, None] * tl.load(weight + at).to(tl.float32)[None, :]
        high = high * scale[:, None] * tl.load(weight + at + half).to(tl.float32)[None, :]
        angle = rope + tl.load(positions + token).to(tl.int64) * HEAD + at
        cos = tl.load(angle)[None, :]
        sin = tl.load(angle + half)[None, :]
        turned = low * cos - high * sin
        high = high * cos + low * sin
        low = turned
    if first < Q_HEADS:
        target = q_out + token * Q_HEADS * HEAD + heads[:, None] * HEAD + at[None, :]
        tl.store(target, low.to(q_out.dtype.element_ty))
        tl.store(target + half, high.to(q_out.dtype.element_ty))
    else:
        slot = tl.load(slots + token)
        # keys then values: head number − Q_HEADS runs over both, as they lie in a page
        row = (slot // PAGE * 2 * KV_HEADS + heads - Q_HEADS) * PAGE + slot % PAGE
        target = pages + row[:, None] * HEAD + at[None, :]
        tl.store(target, low.to(pages.dtype.element_ty))
        tl.store(target + half, high.to(pages.dtype.element_ty))


def norm_rope_append(
    qkv: torch.Tensor,
    q_weight: torch.Tensor,
    k_weight: torch.Tensor,
    rope: torch.Tensor,
    batch: Batch,
    pages: torch.Tensor,
    eps: float,
) -> torch.Tensor:
    kv_heads, page_tokens, head = pages.shape[2:]
    tokens = len(qkv)
    q_heads = qkv.shape[1] // head - 2 * kv_heads
    out = qkv.new_empty(tokens, q_heads, head)
    heads = math.gcd(q_heads, kv_heads)
    heads &= -heads  # a tile's side is a power of two
    _norm_rope_append[(tokens, (q_heads + 2 * kv_heads) // heads)](
        qkv, q_weight, k_weight, rope, batch.positions, batch.slots, pages, out, eps,
        q_heads, kv_heads, head, page_tokens, heads, num_warps=2,
    )  # fmt: skip
    return out
