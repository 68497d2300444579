"""Attention over a paged cache whose time follows the batch's cached tokens, ragged or not.

All query heads of one KV head and all query tokens of a request share one tile (GQA packing), so
keys and values are read once per request. The keys of all requests and KV heads form one line,
in units of 64, that is cut into pieces of one length: every program reads as much as any other,
and what a cut request's programs found is combined after (stream-K, arXiv 2301.03598).
"""

from __future__ import annotations

import functools

import torch
import triton
import triton.language as tl

from gpu_probe.batch import Batch
from gpu_probe.online import absorb
from gpu_probe.plan import UNIT_TOKENS
from gpu_probe.settings import LEAST_ROWS, Setting, tile_rows

DEFAULT = Setting("balanced", 64, 4, 2, 4)


@triton.jit(do_not_specialize=["table_width"])
def _pieces(
    q, pages, table, plan, requests, out, part, lse, scale, table_width,
    Q_HEADS: tl.constexpr, KV_HEADS: tl.constexpr, HEAD: tl.constexpr, PAGE: tl.constexpr,
    UNIT: tl.constexpr, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    group: tl.constexpr = Q_HEADS // KV_HEADS
    first = tl.load(plan + 4 * program)
    last = tl.load(plan + 4 * program + 1)
    from_first = tl.load(plan + 4 * program + 2)
    to_last = tl.load(plan + 4 * program + 3)
    rows = tl.arange(0, BLOCK_M)
    d = tl.arange(0, HEAD)
    query = rows // group
    for pair in tl.range(first, last + 1, num_stages=1):
        request = pair // KV_HEADS
        kv_head = pair % KV_HEADS
        token = tl.load(requests + 4 * request)
        queries = tl.load(requests + 4 * request + 1)
        length = tl.load(requests + 4 * request + 2)
        own = tl.load(requests + 4 * request + 3)
        from_unit = tl.where(pair == first, from_first, 0)
        to_unit = tl.where(pair == last, to_last, own)
        begin = from_unit * UNIT
        end = tl.minimum(to_unit * UNIT, length)
        live = query < queries
        head_row = (token + query) * Q_HEADS + kv_head * group + rows % group
        tile = tl.load(q + head_row[:, None] * HEAD + d[None, :], mask=live[:, None], other=0.0)
        if CAUSAL:
            seen = length - queries + query
        else:
            seen = query * 0 + length - 1

        own_table = table + request * table_width
        top = tl.full([BLOCK_M], float("-inf"), tl.float32)
        total = tl.zeros([BLOCK_M], tl.float32)
        acc = tl.zeros([BLOCK_M, HEAD], tl.float32)
        for start in range(begin, end, BLOCK_N):
            top, total, acc = absorb(
                tile, pages, own_table, kv_head, start, end, seen, scale, top, total, acc,
                KV_HEADS, HEAD, PAGE, BLOCK_N,
            )  # fmt: skip
        safe = tl.where(total == 0.0, 1.0, total)
        acc /= safe[:, None]
        if to_unit - from_unit == own:
            y = acc.to(out.dtype.element_ty)
            tl.store(out + head_row[:, None] * HEAD + d[None, :], y, mask=live[:, None])
        else:
            # a piece ends one request at most and begins one at most
            place = (2 * program + (from_unit == 0).to(tl.int32)) * BLOCK_M + rows
            tl.store(part + place[:, None] * HEAD + d[None, :], acc, mask=live[:, None])
            tl.store(lse + place, top + tl.log2(safe), mask=live)


@triton.jit
def _combine_tiles(
    part, lse, out, cuts,
    Q_HEADS: tl.constexpr, HEAD: tl.constexpr, BLOCK_M: tl.constexpr, GROUP: tl.constexpr,
    ROWS: tl.constexpr,
):  # fmt: skip
    """A cut pair's rows, piece by piece: for batches in which pairs have few pieces."""
    cut = cuts + 5 * tl.program_id(0)
    token = tl.load(cut)
    kv_head = tl.load(cut + 1)
    queries = tl.load(cut + 2)
    first = tl.load(cut + 3)
    end = tl.load(cut + 4)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    d = tl.arange(0, HEAD)
    live = row < queries * GROUP
    top = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    acc = tl.zeros([ROWS, HEAD], tl.float32)
    for program in range(first, end):
        place = (2 * program + tl.where(program == first, 1, 0)) * BLOCK_M + row
        weight = tl.load(lse + place, mask=live, other=0.0)
        y = tl.load(part + place[:, None] * HEAD + d[None, :], mask=live[:, None], other=0.0)
        higher = tl.maximum(top, weight)  # finite from a pair's first piece on
        shrink = tl.exp2(top - higher)
        weight = tl.exp2(weight - higher)
        acc = acc * shrink[:, None] + y * weight[:, None]
        total = total * shrink + weight
        top = higher
    y = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    target = (token + row // GROUP) * Q_HEADS + kv_head * GROUP + row % GROUP
    y = y.to(out.dtype.element_ty)
    tl.store(out + target[:, None] * HEAD + d[None, :], y, mask=live[:, None])


@triton.jit
def _combine_rows(
    part, lse, out, cuts,
    Q_HEADS: tl.constexpr, HEAD: tl.constexpr, BLOCK_M: tl.constexpr, GROUP: tl.constexpr,
    SPAN: tl.constexpr,
):  # fmt: skip
    """One row of a cut pair, SPAN pieces at once: for few requests of many pieces each."""
    cut = cuts + 5 * tl.program_id(0)
    token = tl.load(cut)
    kv_head = tl.load(cut + 1)
    queries = tl.load(cut + 2)
    first = tl.load(cut + 3)
    end = tl.load(cut + 4)
    row = tl.program_id(1)
    d = tl.arange(0, HEAD)
    if row < queries * GROUP:
        top = float("-inf")
        total = 0.0
        acc = tl.zeros([HEAD], tl.float32)
        for start in range(first, end, SPAN):
            program = start + tl.arange(0, SPAN)
            there = program < end
            place = (2 * program + tl.where(program == first, 1, 0)) * BLOCK_M + row
            weight = tl.load(lse + place, mask=there, other=float("-inf"))
            y = tl.load(part + place[:, None] * HEAD + d[None, :], mask=there[:, None], other=0.0)
            higher = tl.maximum(top, tl.max(weight, 0))
            shrink = tl.exp2(top - higher)
            weight = tl.exp2(weight - higher)
            acc = acc * shrink + tl.sum(y * weight[:, None], 0)
            total = total * shrink + tl.sum(weight, 0)
            top = higher
        y = acc / tl.where(total == 0.0, 1.0, total)
        target = (token + row // GROUP) * Q_HEADS + kv_head * GROUP + row % GROUP
        tl.store(out + target * HEAD + d, y.to(out.dtype.element_ty))


@functools.lru_cache
def _multiprocessors() -> int:
    if not torch.cuda.is_available():
        return 3  # few enough that tests cut requests at odd places
    return torch.cuda.get_device_properties(0).multi_processor_count


def attention(
    q: torch.Tensor,
    pages: torch.Tensor,
    batch: Batch,
    causal: bool = True,
    out: torch.Tensor | None = None,
    setting: Setting = DEFAULT,
    least_rows: int = LEAST_ROWS,
) -> torch.Tensor:
    """``reference.attention`` as a kernel; least_rows: of a tile, a power of two.

    A batch's work is planned at its first call, by the host, as engines do once a step.
    """
    tokens, q_heads, head = q.shape
    kv_heads, page_tokens = pages.shape[2:4]
    group = q_heads // kv_heads
    rows = max(least_rows, tile_rows(batch.query_max, group))
    programs = setting.programs * _multiprocessors()
    plan = batch.plan(kv_heads, programs, tokens)
    out = torch.empty_like(q) if out is None else out
    part = torch.empty(2 * programs, rows, head, dtype=torch.float32, device=q.device)
    lse = torch.empty(2 * programs, rows, dtype=torch.float32, device=q.device)
    scale = head**-0.5 * 1.4426950408889634  # log2(e): the kernel's exponentials are base 2
    _pieces[(len(plan.pieces),)](
        q, pages, batch.table, plan.pieces, plan.requests, out, part, lse, scale,
        batch.table.shape[1], q_heads, kv_heads, head, page_tokens, UNIT_TOKENS, causal, rows,
        setting.keys, num_warps=setting.warps, num_stages=setting.stages,
    )  # fmt: skip
    if not len(plan.cuts):
        return out
    sizes = q_heads, head, rows, group
    if programs > 4 * batch.requests * kv_heads:
        _combine_rows[(len(plan.cuts), rows)](part, lse, out, plan.cuts, *sizes, 16, num_warps=1)
    else:
        each = min(rows, 16)
        _combine_tiles[(len(plan.cuts), rows // each)](
            part, lse, out, plan.cuts, *sizes, each, num_warps=4
        )
    return out
