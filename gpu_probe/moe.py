"""Mixture-of-Experts on the card, without a read by the host, so that a CUDA graph can hold it.

Fused: one kernel routes, one multiplies by gate and up and gates, one multiplies by down and
weighs, one sums a token's experts. Every program holds columns of one expert and walks the
expert's tokens, so that weights are read once. Grouped: torch's product over sorted tokens.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from gpu_probe import reference, tiles
from gpu_probe.kernels import swiglu
from gpu_probe.tiles import Tile


@triton.jit(do_not_specialize=["tokens"])
def _route(
    logits, weights, counts, slots, tokens, EXPERTS: tl.constexpr, ACTIVE: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    there = at < EXPERTS
    left = tl.load(logits + token * EXPERTS + at, mask=there, other=float("-inf")).to(tl.float32)
    top = tl.max(left, 0)
    shares = tl.zeros([BLOCK], tl.float32)
    chosen = tl.zeros([BLOCK], tl.int32)
    for i in tl.static_range(ACTIVE):
        best = tl.argmax(left, 0)
        shares = tl.where(at == i, tl.exp(tl.max(left, 0) - top), shares)
        chosen = tl.where(at == i, best, chosen)
        left = tl.where(at == best, float("-inf"), left)
    live = at < ACTIVE
    pair = token * ACTIVE + at
    tl.store(weights + pair, shares / tl.sum(shares, 0), mask=live)
    rank = tl.atomic_add(counts + chosen, 1, mask=live)
    tl.store(slots + chosen * tokens + rank, pair, mask=live)


@triton.jit(do_not_specialize=["tokens"])
def _expert_product(
    x, matrices, weights, counts, slots, out, tokens,
    INPUTS: tl.constexpr, OUTPUTS: tl.constexpr, ACTIVE: tl.constexpr, GATED: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """GATED: SwiGLU of [OUTPUTS gate and OUTPUTS up] rows, else a product times its weight."""
    expert = tl.program_id(1)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < OUTPUTS
    count = tl.load(counts + expert)
    high: tl.constexpr = 2 * OUTPUTS if GATED else OUTPUTS
    matrix = matrices + expert.to(tl.int64) * high * INPUTS
    for first in tl.range(0, count, ROWS, num_stages=1):
        at = first + tl.arange(0, ROWS)
        live = at < count
        pair = tl.load(slots + expert * tokens + at, mask=live, other=0)
        source = (pair // ACTIVE if GATED else pair).to(tl.int64) * INPUTS
        y = tl.zeros([ROWS, COLUMNS], tl.float32)
        up = tl.zeros([ROWS, COLUMNS], tl.float32)
        for start in range(0, INPUTS, DEPTH):
            k = start + tl.arange(0, DEPTH)
            of_x, of_w = live[:, None], inside[None, :]
            if INPUTS % DEPTH:
                of_x, of_w = of_x & (k < INPUTS)[None, :], of_w & (k < INPUTS)[:, None]
            a = tl.load(x + source[:, None] + k[None, :], mask=of_x, other=0.0)
            w = matrix + column[None, :] * INPUTS + k[:, None]
            y = tl.dot(a, tl.load(w, mask=of_w, other=0.0), y)
            if GATED:
                up = tl.dot(a, tl.load(w + OUTPUTS * INPUTS, mask=of_w, other=0.0), up)
        if GATED:
            y = y * tl.sigmoid(y) * up
        else:
            y = y * tl.load(weights + pair, mask=live, other=0.0)[:, None]
        to = out + pair.to(tl.int64)[:, None] * OUTPUTS + column[None, :]
        tl.store(to, y.to(out.dtype.element_ty), mask=live[:, None] & inside[None, :])


@triton.jit
def _sum(x, out, WIDTH: tl.constexpr, ACTIVE: tl.constexpr, BLOCK: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for i in tl.static_range(ACTIVE):
        row = (token * ACTIVE + i) * WIDTH
        total += tl.load(x + row + at, mask=at < WIDTH, other=0.0).to(tl.float32)
    tl.store(out + token * WIDTH + at, total.to(out.dtype.element_ty), mask=at < WIDTH)


def fused(
    x: torch.Tensor,
    logits: torch.Tensor,
    gate_up: torch.Tensor,
    down: torch.Tensor,
    active: int,
    tile: Tile,
) -> torch.Tensor:
    """The experts' weighted sum [tokens, hidden] from the router's logits [tokens, experts]."""
    tokens, hidden = x.shape
    experts, _, mlp = down.shape
    counts = torch.zeros(experts, dtype=torch.int32, device=x.device)
    slots = torch.empty(experts * tokens, dtype=torch.int32, device=x.device)
    weights = torch.empty(tokens * active, dtype=torch.float32, device=x.device)
    block = triton.next_power_of_2(experts)
    _route[(tokens,)](
        logits, weights, counts, slots, tokens, experts, active, block,
        num_warps=1 if block <= 256 else 4,
    )  # fmt: skip
    inner, each = x.new_empty(tokens * active, mlp), x.new_empty(tokens * active, hidden)
    for source, matrices, inputs, target in ((x, gate_up, hidden, inner), (inner, down, mlp, each)):
        outputs = target.shape[1]
        _expert_product[(triton.cdiv(outputs, tile.columns), experts)](
            source, matrices, weights, counts, slots, target, tokens, inputs, outputs, active,
            source is x, tile.rows, tile.columns, tile.depth,
            num_warps=tile.warps, num_stages=tile.stages,
        )  # fmt: skip
    out = torch.empty_like(x)
    _sum[(tokens, triton.cdiv(hidden, 1024))](each, out, hidden, active, 1024)
    return out


def grouped(
    x: torch.Tensor, logits: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor, active: int
) -> torch.Tensor:
    """``fused`` by torch's grouped product, which wins where experts have many tokens."""
    weight, chosen = torch.softmax(logits, -1, dtype=torch.float32).topk(active, -1)
    weight = weight / weight.sum(-1, keepdim=True)
    ordered, order = chosen.flatten().sort()
    ids = torch.arange(logits.shape[1], device=x.device)
    ends = torch.searchsorted(ordered, ids, right=True, out_int32=True)
    y = swiglu(torch._grouped_mm(x[order // active], gate_up.transpose(1, 2), offs=ends))
    y = torch._grouped_mm(y, down.transpose(1, 2), offs=ends)
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order), device=x.device)
    y = y[place].view(len(x), active, -1)
    return torch.bmm(weight.to(y.dtype)[:, None], y)[:, 0]


def apply(
    tile: Tile,
    x: torch.Tensor,
    logits: torch.Tensor,
    gate_up: torch.Tensor,
    down: torch.Tensor,
    active: int,
) -> torch.Tensor:
    if tile.kernel == "grouped":
        return grouped(x, logits, gate_up, down, active)
    return fused(x, logits, gate_up, down, active, tile)


class Experts:
    """``reference.experts`` as kernels; ``chosen``: a tile by ``tiles.size`` of the tokens."""

    def __init__(self):
        self.chosen: dict[int, Tile] = {}

    def __call__(
        self,
        x: torch.Tensor,
        router: torch.Tensor,
        gate_up: torch.Tensor,
        down: torch.Tensor,
        active: int,
        noise: torch.Tensor | None = None,
    ) -> torch.Tensor:
        tile = self.chosen.get(tiles.size(len(x)), tiles.CANDIDATES[0])
        return apply(tile, x, reference.scores(x, router, noise), gate_up, down, active)
