"""The inside of both attention kernels: a block of cached keys and values, read and absorbed."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def absorb(
    tile, pages, table, kv_head, start, end, last, scale, top, total, acc,
    KV_HEADS: tl.constexpr, HEAD: tl.constexpr, PAGE: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Online softmax (arXiv 1805.02867) over keys ``start`` to ``end``, of BLOCK_N at the most.

    tile [rows, HEAD]: queries; table: the request's page numbers; last [rows]: the last key that a
    row sees; scale: of a score, in powers of two. top, total [rows], acc [rows, HEAD]: the largest
    score so far, the sum of exponentials and the weighted values; returned with the block's.
    """
    d = tl.arange(0, HEAD)
    at = start + tl.arange(0, BLOCK_N)
    there = at < end
    page = tl.load(table + at // PAGE, mask=there, other=0)
    row = (page.to(tl.int64) * 2 * KV_HEADS + kv_head) * PAGE + at % PAGE
    k = tl.load(pages + row[None, :] * HEAD + d[:, None], mask=there[None, :], other=0.0)
    seen = at[None, :] <= tl.minimum(last, end - 1)[:, None]
    score = tl.where(seen, tl.dot(tile, k), float("-inf"))
    higher = tl.maximum(top, tl.max(score, 1) * scale)
    base = tl.where(higher == float("-inf"), 0.0, higher)  # a row may see nothing here
    p = tl.exp2(score * scale - base[:, None])
    shrink = tl.exp2(top - base)
    row += KV_HEADS * PAGE
    v = tl.load(pages + row[:, None] * HEAD + d[None, :], mask=there[:, None], other=0.0)
    acc = acc * shrink[:, None] + tl.dot(p.to(v.dtype), v)
    return higher, total * shrink + tl.sum(p, 1), acc
