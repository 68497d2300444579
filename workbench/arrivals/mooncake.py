"""Mooncake traces: JSON lines with arrival, lengths and the hashes of the prompt's blocks."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from workbench.arrivals.model import Recorded, Request
from workbench.arrivals.table import INT32
from workbench.errors import InputError
from workbench.traces.reading import MOST_SECONDS
from workbench.validation import explain

BLOCK_TOKENS = 512  # prompt tokens per hash (Mooncake, FAST25-release/traces)
_Tokens = Annotated[int, msgspec.Meta(ge=1, le=INT32)]


class _Line(msgspec.Struct):
    timestamp: Annotated[float, msgspec.Meta(ge=0, le=1e3 * MOST_SECONDS)]  # milliseconds
    input_length: _Tokens
    output_length: _Tokens
    hash_ids: list[int] | None = None


def read_mooncake(path: Path, lines: Iterable[bytes], request: Request) -> Recorded:
    """Read a Mooncake trace; equal timestamps keep the file's order.

    ``cached`` is the longest run of leading blocks that any one earlier request began with, in
    tokens, at most the prompt less one: what a prefix cache without limit and delay would hold.
    It is counted over the whole file, so that a slice starts with a warm cache.
    """
    decoder = msgspec.json.Decoder(_Line)
    rows, number = [], 0
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = decoder.decode(line)
        except msgspec.DecodeError as error:
            raise _fault(path, number, error) from error
        blocks = -(-row.input_length // BLOCK_TOKENS)
        if row.hash_ids is not None and len(row.hash_ids) > blocks:
            raise InputError(
                f"{len(row.hash_ids)} hashes, but {row.input_length} tokens are {blocks} blocks "
                f"of {BLOCK_TOKENS}",
                file=path,
                place=f"line {number}, hash_ids",
                mend="Mooncake hashes blocks of 512 tokens; convert traces of other block sizes",
            )
        rows.append(row)
    time = np.array([row.timestamp for row in rows]) / 1e3
    prompt = np.array([row.input_length for row in rows], np.int32)
    recorded = Recorded(time=time, prompt=prompt)
    recorded.output = np.array([row.output_length for row in rows], np.int32)
    instants = len(np.unique(time))
    if 2 * instants < len(time):
        recorded.notes.append(
            f"{len(time)} requests have {instants} different timestamps: those of one timestamp "
            "arrive together"
        )
    if any(row.hash_ids for row in rows):
        order = np.argsort(time, kind="stable")
        shared = np.empty(len(rows), np.int64)
        shared[order] = _shared_blocks([rows[i].hash_ids or () for i in order])
        recorded.cached = np.minimum(shared * BLOCK_TOKENS, prompt - 1).astype(np.int32)
        recorded.notes.append(
            "cached_prompt_tokens assume an unlimited prefix cache that all earlier requests of "
            "the file have filled"
        )
    return recorded


def _shared_blocks(hashes: Iterable[Iterable[int]]) -> list[int]:
    """For each request the number of leading blocks shared with an earlier one, by a prefix tree.

    Mooncake's hashes cover all blocks before them, and a tree needs no such promise.
    """
    children: dict[tuple[int, int], int] = {}
    shared = []
    for blocks in hashes:
        node, depth, new = 0, 0, False
        for block in blocks:
            child = children.get((node, block))
            if child is None:
                child = children[node, block] = len(children) + 1
                new = True
            depth += not new
            node = child
        shared.append(depth)
    return shared


def _fault(path: Path, number: int, error: msgspec.DecodeError) -> InputError:
    problem, place, mend = explain(error)
    place = f"line {number}" + (f", {place}" if place else "")
    return InputError(problem, file=path, place=place, mend=mend)
