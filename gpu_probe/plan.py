"""Which program reads which cached keys: a batch's attention dealt out in pieces of one length."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

UNIT_TOKENS = 64  # the smallest share of a request's keys that a program takes


@dataclass(frozen=True)
class Plan:
    """The keys of all requests and KV heads in one line of units, request by request, head by head.

    pieces int32 [programs, 4]: first and last pair (request × KV heads + head) of a program's
    piece, its first unit in the first pair and the end of its units in the last. requests int32
    [R, 4]: first token, query tokens, keys, units. cuts int32 [n, 5]: first token, KV
    head, query tokens and the range of programs of every pair that several programs have a part of;
    a filler is a pair with an empty range.
    """

    pieces: torch.Tensor
    requests: torch.Tensor
    cuts: torch.Tensor


def make_plan(
    starts: list[int], lengths: list[int], kv_heads: int, programs: int, tokens: int, device: str
) -> Plan:
    """The plan of a batch; ``tokens`` past the last of ``starts`` [R+1] only fill a size."""
    first_token = np.array(starts[:-1])
    queries = np.diff(starts)
    units = -(-np.array(lengths) // UNIT_TOKENS)
    pairs = np.repeat(units, kv_heads)  # units of each pair
    ends = pairs.cumsum()
    total = int(ends[-1])
    each = -(-total // programs)
    left = np.arange(0, total, each)
    right = np.minimum(left + each, total)
    first = np.searchsorted(ends, left, side="right")
    last = np.searchsorted(ends, right - 1, side="right")
    origin = ends - pairs
    pieces = np.stack([first, last, left - origin[first], right - origin[last]], 1)

    begin, end = origin // each, (ends - 1) // each + 1  # programs of each pair
    cut = np.flatnonzero(end - begin > 1)
    request, head = cut // kv_heads, cut % kv_heads
    rows = np.stack([first_token[request], head, queries[request], begin[cut], end[cut]], 1)
    fillers = np.arange(starts[-1], tokens).repeat(kv_heads)
    heads = np.tile(np.arange(kv_heads), tokens - starts[-1])
    none = np.zeros_like(fillers)
    cuts = np.concatenate([rows, np.stack([fillers, heads, none + 1, none, none], 1)])

    def there(array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array, np.int32)).to(device)

    lines = np.stack([first_token, queries, np.array(lengths), units], 1)
    return Plan(there(pieces), there(lines), there(cuts))
