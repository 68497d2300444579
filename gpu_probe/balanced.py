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

from gpu_probe.batch import UNIT_TOKENS, Batch


@triton.jit(do_not_specialize=["table_width", "requests", "programs"])
def _pieces(
    q, pages, table, starts, lengths, units, out, part, lse, scale, table_width, requests, programs,
    Q_HEADS: tl.constexpr, KV_HEADS: tl.constexpr, HEAD: tl.constexpr, PAGE: tl.constexpr,
    UNIT: tl.constexpr, CAUSAL: tl.constexpr, SLOTS: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    group: tl.constexpr = Q_HEADS // KV_HEADS
    all_units = tl.load(units + requests) * KV_HEADS
    each = tl.cdiv(all_units, programs)
    left = program * each
    right = tl.minimum(left + each, all_units)
    # requests whose units end at or before this piece's first and last unit
    slot = tl.arange(0, SLOTS)
    filled = slot < requests
    ends = tl.load(units + 1 + slot, mask=filled, other=0) * KV_HEADS
    low = tl.sum((filled & (ends <= left)).to(tl.int32), 0)
    high = tl.sum((filled & (ends <= right - 1)).to(tl.int32), 0)
    first = low * KV_HEADS
    last = high * KV_HEADS - 1
    if left < right:
        before = tl.load(units + low)
        own = tl.load(units + low + 1) - before
        first += (left - before * KV_HEADS) // own
        before = tl.load(units + high)
        own = tl.load(units + high + 1) - before
        last += 1 + (right - 1 - before * KV_HEADS) // own
    else:
        last = first - 1

    rows = tl.arange(0, BLOCK_M)
    d = tl.arange(0, HEAD)
    query = rows // group
    for pair in tl.range(first, last + 1, num_stages=1):
        request = pair // KV_HEADS
        kv_head = pair % KV_HEADS
        before = tl.load(units + request)
        own = tl.load(units + request + 1) - before
        origin = before * KV_HEADS + kv_head * own
        from_unit = tl.maximum(left - origin, 0)
        to_unit = tl.minimum(right - origin, own)
        token = tl.load(starts + request)
        queries = tl.load(starts + request + 1) - token
        length = tl.load(lengths + request)
        begin = from_unit * UNIT
        end = tl.minimum(to_unit * UNIT, length)
        live = query < queries
        head_row = (token + query) * Q_HEADS + kv_head * group + rows % group
        tile = tl.load(q + head_row[:, None] * HEAD + d[None, :], mask=live[:, None], other=0.0)
        if CAUSAL:
            seen = length - queries + query
        else:
            seen = query * 0 + length - 1

        top = tl.full([BLOCK_M], float("-inf"), tl.float32)
        total = tl.zeros([BLOCK_M], tl.float32)
        acc = tl.zeros([BLOCK_M, HEAD], tl.float32)
        for start in range(begin, end, BLOCK_N):
            at = start + tl.arange(0, BLOCK_N)
            there = at < end
            page = tl.load(table + request * table_width + at // PAGE, mask=there, other=0)
            row = (page.to(tl.int64) * 2 * KV_HEADS + kv_head) * PAGE + at % PAGE
            k = tl.load(pages + row[None, :] * HEAD + d[:, None], mask=there[None, :], other=0.0)
            score = tl.dot(tile, k) * scale
            score = tl.where(there[None, :] & (at[None, :] <= seen[:, None]), score, float("-inf"))
            higher = tl.maximum(top, tl.max(score, 1))
            base = tl.where(higher == float("-inf"), 0.0, higher)  # a row may see nothing here
            p = tl.exp2(score - base[:, None])
            shrink = tl.exp2(top - base)
            row += KV_HEADS * PAGE
            v = tl.load(pages + row[:, None] * HEAD + d[None, :], mask=there[:, None], other=0.0)
            acc = acc * shrink[:, None] + tl.dot(p.to(v.dtype), v)
            total = total * shrink + tl.sum(p, 1)
            top = higher
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


@triton.jit(do_not_specialize=["requests", "programs"])
def _combine(
    part, lse, out, owners, starts, units, requests, programs,
    Q_HEADS: tl.constexpr, KV_HEADS: tl.constexpr, HEAD: tl.constexpr, BLOCK_M: tl.constexpr,
    HEADS: tl.constexpr, COLUMNS: tl.constexpr, SPAN: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(0)
    q_head = tl.program_id(1) * HEADS  # heads of one program have one KV head
    group: tl.constexpr = Q_HEADS // KV_HEADS
    kv_head = q_head // group
    column = tl.arange(0, COLUMNS)
    live = column < HEADS * HEAD
    target = out + (token * Q_HEADS + q_head) * HEAD + column
    request = tl.load(owners + token)
    if request >= requests:  # tokens that only fill a captured size
        tl.store(target, tl.zeros([COLUMNS], out.dtype.element_ty), mask=live)
    else:
        each = tl.cdiv(tl.load(units + requests) * KV_HEADS, programs)
        before = tl.load(units + request)
        own = tl.load(units + request + 1) - before
        origin = before * KV_HEADS + kv_head * own
        first = origin // each
        last = (origin + own - 1) // each
        if last > first:
            row = (token - tl.load(starts + request)) * group + q_head % group + column // HEAD
            top = tl.full([COLUMNS], float("-inf"), tl.float32)
            total = tl.zeros([COLUMNS], tl.float32)
            acc = tl.zeros([COLUMNS], tl.float32)
            for start in range(first, last + 1, SPAN):
                program = start + tl.arange(0, SPAN)
                there = (program <= last)[:, None] & live[None, :]
                place = (2 * program + (program == first).to(tl.int32)) * BLOCK_M
                place = place[:, None] + row[None, :]
                weight = tl.load(lse + place, mask=there, other=float("-inf"))
                higher = tl.maximum(top, tl.max(weight, 0))
                base = tl.where(higher == float("-inf"), 0.0, higher)
                weight = tl.exp2(weight - base[None, :])
                shrink = tl.exp2(top - base)
                y = tl.load(part + place * HEAD + column[None, :] % HEAD, mask=there, other=0.0)
                acc = acc * shrink + tl.sum(y * weight, 0)
                total = total * shrink + tl.sum(weight, 0)
                top = higher
            y = acc / tl.where(total == 0.0, 1.0, total)
            tl.store(target, y.to(out.dtype.element_ty), mask=live)


@functools.lru_cache
def _multiprocessors() -> int:
    if not torch.cuda.is_available():
        return 3  # few enough that tests cut requests at odd places
    return torch.cuda.get_device_properties(0).multi_processor_count


def choose_block(rows: int) -> tuple[int, int, int, int]:
    """Keys per pass, warps, pipeline stages, programs per multiprocessor for a tile of ``rows``."""
    return (64, 8, 2, 2) if rows > 32 else (64, 2, 3, 4)


def attention(
    q: torch.Tensor,
    pages: torch.Tensor,
    batch: Batch,
    causal: bool = True,
    out: torch.Tensor | None = None,
    block: tuple[int, int, int, int] | None = None,
    least_rows: int = 16,
) -> torch.Tensor:
    """``reference.attention`` as a kernel; ``block`` as ``choose_block`` gives it.

    least_rows: of a tile, a power of two.
    """
    tokens, q_heads, head = q.shape
    kv_heads, page_tokens = pages.shape[2:4]
    group = q_heads // kv_heads
    rows = max(least_rows, triton.next_power_of_2(batch.query_max * group))
    keys, warps, stages, each = block or choose_block(rows)
    programs = each * _multiprocessors()
    out = torch.empty_like(q) if out is None else out
    part = torch.empty(2 * programs, rows, head, dtype=torch.float32, device=q.device)
    lse = torch.empty(2 * programs, rows, dtype=torch.float32, device=q.device)
    scale = head**-0.5 * 1.4426950408889634  # log2(e): the kernel's exponentials are base 2
    slots = max(256, triton.next_power_of_2(batch.requests))
    _pieces[(programs,)](
        q, pages, batch.table, batch.query_starts, batch.lengths, batch.units, out, part, lse,
        scale, batch.table.shape[1], batch.requests, programs, q_heads, kv_heads, head,
        page_tokens, UNIT_TOKENS, causal, slots, rows, keys, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    # few requests are cut often: more pieces at once, of one head
    heads, span = (1, 32) if programs > 4 * batch.requests * kv_heads else (group, 4)
    _combine[(tokens, q_heads // heads)](
        part, lse, out, batch.owners, batch.query_starts, batch.units, batch.requests, programs,
        q_heads, kv_heads, head, rows, heads, triton.next_power_of_2(heads * head), span,
        num_warps=4,
    )  # fmt: skip
    return out
