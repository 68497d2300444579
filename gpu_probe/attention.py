"""Split-KV attention over a paged cache: keys and values are read once per request.

All query heads of one KV head and all query tokens of a request share one tile (GQA packing), and
a long context is cut into splits that different multiprocessors read at once (flash decoding).
"""

from __future__ import annotations

import functools

import torch
import triton
import triton.language as tl

from gpu_probe.batch import Batch
from gpu_probe.online import absorb
from gpu_probe.settings import LEAST_ROWS, Setting, tile_rows

DEFAULT = Setting("spans", 64, 2, 4)


@triton.jit(do_not_specialize=["table_width", "tokens", "span"])
def _split_attention(
    q, pages, table, starts, lengths, out, part, lse, scale, table_width, tokens, span,
    Q_HEADS: tl.constexpr, KV_HEADS: tl.constexpr, HEAD: tl.constexpr, PAGE: tl.constexpr,
    SPLITS: tl.constexpr, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    request = tl.program_id(0)
    kv_head = tl.program_id(1)
    split = tl.program_id(2)
    group: tl.constexpr = Q_HEADS // KV_HEADS
    first = tl.load(starts + request)
    queries = tl.load(starts + request + 1) - first
    length = tl.load(lengths + request)
    rows = tl.arange(0, BLOCK_M)
    d = tl.arange(0, HEAD)
    if split == 0:
        # tokens that fill a captured size belong to no request: zeroed here, not by a kernel more
        requests = tl.num_programs(0)
        for filler in range(tl.load(starts + requests) + request, tokens, requests):
            at = (filler * Q_HEADS + kv_head * group + rows)[:, None] * HEAD + d[None, :]
            tl.store(
                out + at,
                tl.zeros([BLOCK_M, HEAD], out.dtype.element_ty),
                mask=(rows < group)[:, None],
            )
    query = rows // group
    live = query < queries
    head_row = (first + query) * Q_HEADS + kv_head * group + rows % group
    tile = tl.load(q + head_row[:, None] * HEAD + d[None, :], mask=live[:, None], other=0.0)
    if CAUSAL:
        last = length - queries + query
    else:
        last = query * 0 + length - 1
    begin = split * span  # past a short request's end nothing is left to do
    end = tl.minimum(begin + span, length)

    own_table = table + request * table_width
    top = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, HEAD], tl.float32)
    for start in range(begin, end, BLOCK_N):
        top, total, acc = absorb(
            tile, pages, own_table, kv_head, start, end, last, scale, top, total, acc,
            KV_HEADS, HEAD, PAGE, BLOCK_N,
        )  # fmt: skip
    safe = tl.where(total == 0.0, 1.0, total)
    acc /= safe[:, None]
    if SPLITS == 1:
        y = acc.to(out.dtype.element_ty)
        tl.store(out + head_row[:, None] * HEAD + d[None, :], y, mask=live[:, None])
    else:
        row = split.to(tl.int64) * tokens * Q_HEADS + head_row
        tl.store(part + row[:, None] * HEAD + d[None, :], acc, mask=live[:, None])
        tl.store(lse + row, top + tl.log2(safe), mask=live)


@triton.jit(do_not_specialize=["rows"])
def _combine(part, lse, out, rows, HEAD: tl.constexpr, SPLITS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    s = tl.arange(0, SPLITS)
    d = tl.arange(0, HEAD)
    weight = tl.load(lse + s * rows + row)
    weight = tl.exp2(weight - tl.max(weight, 0))
    y = tl.load(part + (s[:, None] * rows + row) * HEAD + d[None, :])
    y = tl.sum(y * weight[:, None], 0) / tl.sum(weight, 0)
    tl.store(out + row * HEAD + d, y.to(out.dtype.element_ty))


@functools.lru_cache
def _multiprocessors() -> int:
    if not torch.cuda.is_available():
        return 1
    return torch.cuda.get_device_properties(0).multi_processor_count


def choose_splits(requests: int, kv_heads: int, length: int) -> int:
    """Splits (a power of two): four programs a multiprocessor, each with 64 keys or more.

    Both numbers were the fastest, or within 4 % of it, at 1 to 256 requests of 1,024 and 8,192
    tokens on an H200.
    """
    most = min(64, 4 * _multiprocessors() // (requests * kv_heads), length // 64)
    return 1 << max(0, most.bit_length() - 1)


def choose_span(batch: Batch, kv_heads: int, block_n: int, splits: int | None) -> tuple[int, int]:
    """Keys of one program, and programs that the longest request needs (a power of two).

    Spans of one length for all requests keep a ragged batch balanced: the longest request gets
    more programs, not longer ones. Twice as many where one wave of them fills the chip.
    """
    mean = max(1, round(batch.length_mean))
    ragged = batch.length_max > 1.1 * mean
    if splits is None:
        splits = choose_splits(batch.requests, kv_heads, mean)
        if ragged and batch.requests * kv_heads < 4 * _multiprocessors():
            splits *= 2
    span = triton.cdiv(triton.cdiv(mean, splits), block_n) * block_n
    return span, triton.next_power_of_2(triton.cdiv(batch.length_max, span))


def attention(
    q: torch.Tensor,
    pages: torch.Tensor,
    batch: Batch,
    causal: bool = True,
    out: torch.Tensor | None = None,
    setting: Setting = DEFAULT,
    least_rows: int = LEAST_ROWS,
    splits: int | None = None,
) -> torch.Tensor:
    """``reference.attention`` as a kernel; least_rows: of a tile, a power of two."""
    tokens, q_heads, head = q.shape
    kv_heads, page_tokens = pages.shape[2:4]
    rows = max(least_rows, tile_rows(batch.query_max, q_heads // kv_heads))
    span, splits = choose_span(batch, kv_heads, setting.keys, splits)
    out = torch.empty_like(q) if out is None else out
    part = lse = out
    if splits > 1:
        part = torch.empty(splits, tokens, q_heads, head, dtype=torch.float32, device=q.device)
        lse = torch.empty(splits, tokens, q_heads, dtype=torch.float32, device=q.device)
    scale = head**-0.5 * 1.4426950408889634  # log2(e): the kernel's exponentials are base 2
    _split_attention[(batch.requests, kv_heads, splits)](
        q, pages, batch.table, batch.query_starts, batch.lengths, out, part, lse, scale,
        batch.table.shape[1], tokens, span, q_heads, kv_heads, head, page_tokens,
        splits, causal, rows, setting.keys, num_warps=setting.warps, num_stages=setting.stages,
    )  # fmt: skip
    if splits > 1:
        live = batch.live * q_heads
        _combine[(live,)](part, lse, out, tokens * q_heads, head, splits, num_warps=1)
    return out
