"""Kernels against the torch reference in float64, on random ragged batches of this device."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from gpu_probe import reference
from gpu_probe.batch import make_batch, pages_needed
from gpu_probe.chunk import chunk_attention
from gpu_probe.layer import kernels_for, rope_table
from gpu_probe.shapes import ModelShape
from gpu_probe.timing import synchronize

LARGEST_ERROR = 2e-2  # bf16 operands; anything above is a wrong kernel, not rounding


def relative_error(out: torch.Tensor, truth: torch.Tensor) -> float:
    """‖out − truth‖ ÷ ‖truth‖ in float64; infinite where anything is not a number."""
    error = ((out.double() - truth.double()).norm() / truth.double().norm()).item()
    return error if error == error else float("inf")


def refusal(run: Callable[[], torch.Tensor], truth: Callable[[], torch.Tensor], device: str) -> str:
    """Why a kernel cannot be used here: its error, or how wrong it is; empty where it can."""
    try:
        out = run()
        synchronize(device)
    except torch.cuda.OutOfMemoryError:
        raise
    except Exception as error:  # Triton's have no common class: shared memory, registers, ptxas
        return f"{type(error).__name__}: {error}"
    error = relative_error(out, truth())
    return "" if error <= LARGEST_ERROR else f"off by {error:.2g}"


def check_kernels(shape: ModelShape, device: str, dtype: torch.dtype, seed: int) -> dict:
    """Largest relative error of each kernel, by name. bf16 lies between 1e-3 and 1e-2."""
    kernels = kernels_for(device)
    cpu = torch.Generator().manual_seed(seed)
    on_device = torch.Generator(device).manual_seed(seed)

    def normal(*size: int) -> torch.Tensor:
        return torch.randn(size, device=device, dtype=dtype, generator=on_device)

    errors: dict[str, float] = {}

    def note(name: str, out: torch.Tensor, truth: torch.Tensor) -> None:
        errors[name] = max(errors.get(name, 0.0), relative_error(out, truth))

    x, residual, weight = normal(7, shape.hidden), normal(7, shape.hidden), normal(shape.hidden)
    wide = residual.double()
    truth = reference.add_rmsnorm(x.double(), wide, weight.double(), shape.norm_eps)
    note("add_rmsnorm", kernels.add_rmsnorm(x, residual, weight, shape.norm_eps), truth)
    note("residual", residual, wide)
    gate_up = normal(7, 2 * shape.mlp)
    note("swiglu", kernels.swiglu(gate_up), reference.swiglu(gate_up.double()))

    rope = rope_table(shape, 4096, device)
    for queries, contexts in (
        ([1, 1, 1, 1], [0, 15, 16, 2999]),
        ([8, 1, 3, 5, 8], [0, 700, 31, 1023, 3000]),
        ([32, 17], [100, 2040]),
    ):
        tokens = max(q + c for q, c in zip(queries, contexts, strict=True))
        pages = normal(pages_needed(len(queries), tokens), 2, shape.kv_heads, 16, shape.head)
        batch = make_batch(queries, contexts, len(pages), shape.vocabulary, device, cpu)
        qkv, wide = normal(sum(queries), shape.qkv), pages.double()
        norms = normal(2, shape.head)
        q = kernels.norm_rope_append(qkv, *norms, rope, batch, pages, shape.norm_eps)
        truth = reference.norm_rope_append(
            qkv.double(), *norms.double(), rope, batch, wide, shape.norm_eps
        )
        note("norm_rope", q, truth)
        written = batch.slots // 16, slice(None), slice(None), batch.slots % 16
        note("append", pages[written], wide[written])
        for causal in (True, False):
            truth = reference.attention(q.double(), pages.double(), batch, causal)
            note("attention", kernels.attention(q, pages, batch, causal), truth)

    q = normal(1, shape.heads, 24, shape.head)
    for seen in (96, 24):  # with and without tokens before the chunk
        keys_values = normal(2, 1, shape.kv_heads, seen, shape.head)
        mask = torch.ones(24, seen, dtype=torch.bool, device=device).tril(seen - 24)
        truth = F.scaled_dot_product_attention(
            q.double(), *keys_values.double(), attn_mask=mask, enable_gqa=True
        )
        note("prefill", chunk_attention(q, keys_values), truth)
    if shape.experts:
        x, router = normal(9, shape.hidden), normal(shape.experts, shape.hidden)
        gate_up = 0.02 * normal(shape.experts, 2 * shape.mlp, shape.hidden)
        down = 0.02 * normal(shape.experts, shape.hidden, shape.mlp)
        y = kernels.experts(x, router, gate_up, down, shape.active)
        wide = (t.double() for t in (x, router, gate_up, down))
        note("experts", y, reference.experts(*wide, shape.active))
    return errors
