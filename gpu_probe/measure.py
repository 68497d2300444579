"""The target's measurements: each returns the seconds of one part of an engine step."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch

from gpu_probe.batch import (
    PAGE_TOKENS,
    Batch,
    make_batch,
    pages_needed,
    split_evenly,
    spread_evenly,
)
from gpu_probe.chunk import Chunk
from gpu_probe.decoder import Decoder
from gpu_probe.grid import Grid
from gpu_probe.load import Load
from gpu_probe.shapes import ModelShape
from gpu_probe.telemetry import Telemetry
from gpu_probe.timing import Timing, captured, synchronize, timed, timed_in_order, wall

# batch tokens from which steps may reach the power limit: on an H200 64 draw 650 W at full clock,
# 256 are held down to 1.6 GHz by the limit of 700 W
POWER_LIMITED = 100


def copy_bandwidth(buffer_bytes: int, device: str, repeats: int) -> float:
    """Bytes read plus bytes written per second of a device-to-device copy of ``buffer_bytes``."""
    source = torch.empty(buffer_bytes // 4, dtype=torch.float32, device=device).normal_()
    target = torch.empty_like(source)
    timing = timed(lambda: target.copy_(source), device, repeats)
    return 2 * source.nbytes / timing.median


class Probe:
    """Target and a page pool on one device; seeded, so that shapes and pages repeat."""

    def __init__(
        self,
        shape: ModelShape,
        device: str,
        dtype: torch.dtype,
        grid: Grid,
        repeats: int,
        draft_layers: int = 0,
    ):
        """draft_layers: most that a drafter of the target's dimensions caches."""
        self.grid, self.device, self.repeats, self.dtype = grid, device, repeats, dtype
        # held-out contexts reach half past the longest of the grid
        whole = (context for _, _, context in grid.whole)
        positions = 64 + 2 * max(*grid.contexts, *grid.draft_contexts, *whole, max(grid.beyond))
        self.cached_layers = max(shape.layers, draft_layers)
        self.decoder = Decoder(shape, device, dtype, positions)
        self.shape = shape
        self.random = torch.Generator().manual_seed(0)
        self.load = Load(grid.load_seconds)
        self.pool = self._fill_pool()

    def _fill_pool(self) -> torch.Tensor:
        """Pages for the largest cell of every part, holding random keys and values."""
        grid, layers = self.grid, self.shape.layers
        whole = max(pages_needed(r, q + c) for r, q, c in grid.whole)
        if grid.sequential:
            longest = max(grid.sequential) + 1 + max(grid.loop_contexts)
            whole = max(whole, pages_needed(min(128, grid.max_requests), longest))
        top = max(grid.beyond) // grid.max_requests + 1
        whole = max(whole, pages_needed(grid.max_requests, top + max(grid.curve_contexts)))
        whole = 1 + max(whole, grid.cached_tokens // PAGE_TOKENS)
        most, longest = max(grid.requests), max(grid.contexts)
        one = max(
            pages_needed(1, max(grid.queries)) * most + sum(pages_needed(1, c) for c in contexts)
            for contexts in ([longest] * most, spread_evenly(longest, most))
        )
        prefill = pages_needed(1, max(grid.chunks) + max(grid.prefill_contexts))
        pages = max(whole * self.cached_layers, one, prefill * layers)
        size = (pages, 2, self.shape.kv_heads, PAGE_TOKENS, self.shape.head)
        pool = torch.empty(size, dtype=self.dtype, device=self.device)
        for part in pool.split(4096):
            part.normal_()
        return pool

    def cache(self, layers: int, pages: int) -> torch.Tensor:
        """The pool as [layers, pages, 2, KV heads, page tokens, head]."""
        return self.pool[: layers * pages].view(layers, pages, *self.pool.shape[1:])

    def batch(self, queries: list[int], contexts: list[int], pages: int, padded: int = 0) -> Batch:
        """Random tokens and pages for requests of these query and cached tokens."""
        vocabulary = self.shape.vocabulary
        return make_batch(queries, contexts, pages, vocabulary, self.device, self.random, padded)

    def keys_values(self, total: int) -> torch.Tensor:
        """Contiguous keys and values of all layers for one request of ``total`` tokens."""
        shape = self.shape
        flat = self.pool.view(-1)[: 2 * shape.layers * shape.kv_heads * total * shape.head]
        return flat.view(shape.layers, 2, 1, shape.kv_heads, total, shape.head)

    def step(
        self,
        queries: list[int],
        contexts: list[int],
        padded: int = 0,
        chunk: int = 0,
        before: int = 0,
    ) -> Callable[[], torch.Tensor]:
        """One forward pass: decodes with these query tokens after these contexts, beside a chunk.

        padded: the captured size; chunk: prefill tokens of one more request, after ``before``.
        """
        pages = len(self.pool) // self.shape.layers
        cache = self.cache(self.shape.layers, pages)
        if not chunk:
            batch = self.batch(queries, contexts, pages, padded)
            return lambda: self.decoder.forward(batch, cache, None)
        batch = self.batch([*queries, chunk], [*contexts, before], pages, padded)
        decodes = None
        if queries:
            decodes = batch.first(len(queries), max(queries), sum(queries))
        part = Chunk(chunk, decodes, self.keys_values(before + chunk))
        # of a chunk only the last token needs logits
        rows = sum(queries) + 1
        return lambda: self.decoder.forward(batch, cache, rows, part)

    def verify_step(self, tokens: int, context: int) -> Callable[[], torch.Tensor]:
        """B batch tokens at one context, over as many requests as there can be."""
        queries = split_evenly(tokens, min(tokens, self.grid.max_requests))
        pages = len(self.pool) // self.shape.layers
        cache = self.cache(self.shape.layers, pages)
        batch = self.batch(queries, [context] * len(queries), pages)
        return lambda: self.decoder.forward(batch, cache)

    def timed_in_order(
        self, runs: Sequence[Callable[[], object]], tokens: int, settle: float = 1.0
    ) -> list[Timing]:
        """``timing.timed_in_order`` once the clock is that of a card that serves.

        tokens: that a run multiplies by weights. Steps that may reach the power limit are loaded
        until it acts, and timed for as long as the clock then swings. settle: how much of the
        grid's ``settle_seconds`` the clock is given to stand still.
        """
        begin, grid = time.perf_counter(), self.grid
        limited = tokens >= POWER_LIMITED
        least = self.load.missing(begin) if limited else 0.0
        span = grid.swing_seconds if limited else 0.0
        found = timed_in_order(
            runs, self.device, self.repeats, settle * grid.settle_seconds, least, span
        )
        if limited:
            self.load.note(begin, time.perf_counter())
        return found

    def timed(self, work: Callable[[], object], tokens: int, settle: float = 1.0) -> Timing:
        """A CUDA graph of ``work`` by ``timed_in_order``."""
        with captured(work, self.device) as replay:
            return self.timed_in_order([replay], tokens, settle)[0]

    def logits(self, rows: int) -> Timing:
        """The output layer and the choice of a token for ``rows`` tokens."""
        x = torch.randn(rows, self.shape.hidden, device=self.device, dtype=self.dtype)
        return self.timed(lambda: self.decoder.choose(x), rows)

    def verify(self, tokens: int, context: int) -> Timing:
        return self.timed(self.verify_step(tokens, context), tokens)

    def beyond(self, tokens: int, context: int) -> Timing:
        """The same step launched kernel by kernel, as past the last captured graph; wall clock."""
        return wall(self.verify_step(tokens, context), self.device, self.repeats)

    def whole(self, requests: int, queries: int, context: int) -> Timing:
        return self.timed(self.step([queries] * requests, [context] * requests), requests * queries)

    def mixed(self, tokens: int, chunk: int, context: int) -> Timing:
        """A step of ``tokens`` of which ``chunk`` are one request's prefill without a past."""
        decodes = tokens - chunk
        queries = split_evenly(decodes, min(decodes, self.grid.max_requests)) if decodes else []
        return self.timed(self.step(queries, [context] * len(queries), chunk=chunk), tokens)

    def attention(
        self, requests: int, context: int, queries: int = 1, ragged: bool = False
    ) -> Timing:
        """The attention of all layers alone, reading as many distinct caches as the pool holds.

        ragged: contexts from half to one and a half of ``context``, their mean.
        """
        contexts = spread_evenly(context, requests) if ragged else [context] * requests
        pages = sum(pages_needed(1, one + queries) for one in contexts)
        batch = self.batch([queries] * requests, contexts, pages)
        cache = self.cache(min(self.shape.layers, len(self.pool) // pages), pages)
        size = (len(batch.tokens), self.shape.heads, self.shape.head)
        q = torch.randn(size, device=self.device, dtype=self.dtype)
        # bound by memory, whose clock does not move
        return self.timed(lambda: self.decoder.attention_only(q, batch, cache), 0, settle=0.4)

    def prefill(self, chunk: int, context: int) -> Timing:
        """Causal attention of all layers for a chunk after ``context`` tokens.

        Chunks of one tile go through the split-KV kernel, longer ones through torch's flash.
        """
        if chunk <= 16:
            return self.attention(1, context, chunk)
        shape = self.shape
        part = Chunk(chunk, None, self.keys_values(chunk + context))
        q = torch.randn(chunk, shape.heads, shape.head, device=self.device, dtype=self.dtype)
        out = torch.empty_like(q)

        def work() -> None:
            for layer in range(shape.layers):
                part.alone(q, out, layer)

        return self.timed(work, chunk)

    def sustained(self, tokens: int, context: int, telemetry: Telemetry) -> dict:
        """Verification of B tokens held long enough for NVML's one-second power average."""
        with captured(self.verify_step(tokens, context), self.device) as replay:
            estimate = wall(replay, self.device, 2).median
            at_once = max(1, int(0.05 / estimate))
            synchronize(self.device)
            joules = telemetry.joules()
            start, steps = time.perf_counter(), 0
            while time.perf_counter() - start < self.grid.power_seconds:
                for _ in range(at_once):
                    replay()
                steps += at_once
                if self.device == "cuda":
                    event = torch.cuda.Event()
                    event.record()
                    replay()  # the card never idles while the host waits for the event
                    steps += 1
                    event.synchronize()
            reading = telemetry.reading()
            synchronize(self.device)
            seconds = (time.perf_counter() - start) / steps
            after = telemetry.joules()
        result = {"batch_tokens": tokens, "context_tokens": context, "seconds": seconds, **reading}
        if joules is not None and after is not None:
            result["joules_per_step"] = round((after - joules) / steps, 4)
        elif reading.get("power_w"):
            result["joules_per_step"] = round(reading["power_w"] * seconds, 4)
        return result
