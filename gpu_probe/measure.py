"""The measurements: each returns the seconds of one part of an engine step."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch.nn.attention.bias import causal_lower_right

from gpu_probe.batch import PAGE_TOKENS, Batch, make_batch, pages_needed, split_evenly
from gpu_probe.decoder import Decoder
from gpu_probe.drafter import Drafter
from gpu_probe.grid import Grid
from gpu_probe.shapes import DrafterShape, ModelShape
from gpu_probe.telemetry import Telemetry
from gpu_probe.timing import Stopwatch, Timing, captured, synchronize, timed, timed_graph, wall


def copy_bandwidth(buffer_bytes: int, device: str, repeats: int) -> float:
    """Bytes read plus bytes written per second of a device-to-device copy of ``buffer_bytes``."""
    source = torch.empty(buffer_bytes // 4, dtype=torch.float32, device=device).normal_()
    target = torch.empty_like(source)
    timing = timed(lambda: target.copy_(source), device, repeats)
    return 2 * source.nbytes / timing.median


class Probe:
    """Target, drafter and a page pool on one device; seeded, so that shapes and pages repeat."""

    def __init__(
        self,
        shape: ModelShape,
        drafter: DrafterShape,
        block_size: int,
        device: str,
        grid: Grid,
        repeats: int,
    ):
        self.grid, self.device, self.repeats = grid, device, repeats
        self.dtype = torch.bfloat16 if device == "cuda" else torch.float32
        positions = 1 + max(*grid.contexts, *grid.draft_contexts) + max(grid.beyond)
        self.decoder = Decoder(shape, device, self.dtype, positions)
        self.drafter = Drafter(drafter, self.decoder, block_size)
        self.shape, self.block_size = shape, block_size
        self.random = torch.Generator().manual_seed(0)
        self.pool = self._fill_pool()

    def _fill_pool(self) -> torch.Tensor:
        """Pages for the largest cell of every part, holding random keys and values."""
        grid, layers = self.grid, self.shape.layers
        whole = max(pages_needed(r, q + c) for r, q, c in grid.whole)
        top = max(grid.beyond) // grid.max_requests + 1
        whole = max(whole, pages_needed(grid.max_requests, top + grid.reference_context))
        one = pages_needed(max(grid.requests), max(grid.contexts) + self.block_size + 1)
        prefill = pages_needed(1, max(grid.chunks) + max(grid.prefill_contexts))
        draft = pages_needed(max(grid.draft_requests), max(grid.draft_contexts) + self.block_size)
        pages = max(whole * layers, one, prefill * layers, draft * self.drafter.shape.layers)
        size = (pages, 2, self.shape.kv_heads, PAGE_TOKENS, self.shape.head)
        pool = torch.empty(size, dtype=self.dtype, device=self.device)
        for part in pool.split(4096):
            part.normal_()
        return pool

    def cache(self, layers: int, pages: int) -> torch.Tensor:
        """The pool as [layers, pages, 2, KV heads, page tokens, head]."""
        return self.pool[: layers * pages].view(layers, pages, *self.pool.shape[1:])

    def _batch(self, queries: list[int], context: int, pages: int) -> Batch:
        contexts = [context] * len(queries)
        vocabulary = self.shape.vocabulary
        return make_batch(queries, contexts, pages, vocabulary, self.device, self.random)

    def step(self, queries: list[int], context: int) -> Callable[[], torch.Tensor]:
        """One forward pass of requests with these query tokens after ``context`` tokens each."""
        pages = len(self.pool) // self.shape.layers
        batch, cache = self._batch(queries, context, pages), self.cache(self.shape.layers, pages)
        # only tokens that can be decode tokens need logits; the rest of a long step is prefill
        rows = min(sum(queries), self.grid.max_requests * (self.block_size + 1))
        return lambda: self.decoder.forward(batch, cache, rows)

    def verify_step(self, tokens: int) -> Callable[[], torch.Tensor]:
        """B batch tokens at the reference context, over as many requests as there can be."""
        queries = split_evenly(tokens, min(tokens, self.grid.max_requests))
        return self.step(queries, self.grid.reference_context)

    def _timed(self, work: Callable[[], object]) -> Timing:
        return timed_graph(work, self.device, self.repeats, self.grid.settle_seconds)

    def verify(self, tokens: int) -> Timing:
        return self._timed(self.verify_step(tokens))

    def beyond(self, tokens: int) -> Timing:
        """The same step launched kernel by kernel, as past the last captured graph; wall clock."""
        return wall(self.verify_step(tokens), self.device, self.repeats)

    def whole(self, requests: int, queries: int, context: int) -> Timing:
        return self._timed(self.step([queries] * requests, context))

    def attention(self, requests: int, context: int, queries: int = 1) -> Timing:
        """The attention of all layers alone, reading as many distinct caches as the pool holds."""
        pages = pages_needed(requests, context + queries)
        batch = self._batch([queries] * requests, context, pages)
        cache = self.cache(min(self.shape.layers, len(self.pool) // pages), pages)
        size = (len(batch.tokens), self.shape.heads, self.shape.head)
        q = torch.randn(size, device=self.device, dtype=self.dtype)
        work = lambda: self.decoder.attention_only(q, batch, cache)  # noqa: E731
        return self._timed(work)

    def prefill(self, chunk: int, context: int) -> Timing:
        """Causal attention of all layers for a chunk after ``context`` tokens.

        Chunks of one tile go through the split-KV kernel, longer ones through torch's flash.
        """
        if chunk <= 16:
            return self.attention(1, context, chunk)
        shape, total = self.shape, chunk + context
        size = (shape.layers, 2, 1, shape.kv_heads, total, shape.head)
        flat = self.pool.view(-1)[: 2 * shape.layers * shape.kv_heads * total * shape.head]
        q = torch.randn(1, shape.heads, chunk, shape.head, device=self.device, dtype=self.dtype)
        bias = causal_lower_right(chunk, total)

        def work() -> None:
            for k, v in flat.view(size):
                F.scaled_dot_product_attention(q, k, v, attn_mask=bias, enable_gqa=True)

        return self._timed(work)

    def draft_round(self, requests: int, context: int) -> Callable[[], tuple]:
        """One round's drafting after ``context`` tokens per request.

        Injects γ+1 verified tokens per request (engines inject before they know what was
        accepted), then drafts γ.
        """
        layers, size = self.drafter.shape.layers, self.block_size
        pages = pages_needed(requests, context + size)
        block = self._batch([size] * requests, context, pages)
        injected = min(size + 1, context)
        before = self._batch([injected] * requests, context - injected, pages)
        features = torch.randn(
            injected * requests,
            self.drafter.shape.target_layers * self.shape.hidden,
            device=self.device,
            dtype=self.dtype,
        )
        cache = self.cache(layers, pages)
        return lambda: self.drafter.forward(features, before, block, cache)

    def draft(self, requests: int) -> list[Timing]:
        """One timing per context of the grid."""
        contexts = self.grid.draft_contexts
        return [self._timed(self.draft_round(requests, context)) for context in contexts]

    def markov(self, requests: int) -> Timing | None:
        """The sequential part of a draft alone; None for a drafter without one."""
        if not self.drafter.shape.markov_rank:
            return None
        make = {"device": self.device, "dtype": self.dtype}
        hidden = torch.randn(self.block_size, requests, self.shape.hidden, **make)
        logits = torch.randn(self.block_size, requests, self.shape.vocabulary, **make)
        anchors = torch.zeros(requests, dtype=torch.long, device=self.device)
        work = lambda: self.drafter.markov(hidden, logits, anchors)  # noqa: E731
        return self._timed(work)

    def host(self, requests: int, context: int) -> dict:
        """What the host adds to a round of draft and verification, seconds per round.

        sync: a blocking read of the γ confidences of each request between draft and verification,
        against the same loop without it. async: what that loop takes above its two graphs.
        """
        draft = self.draft_round(requests, context)
        verify = self.step([self.block_size + 1] * requests, self.grid.reference_context)
        confidences = {}

        def draft_and_keep() -> None:
            confidences["device"] = draft()[1]

        with captured(draft_and_keep, self.device) as first, captured(verify, self.device) as then:
            kept = confidences["device"]
            pinned = torch.empty(kept.shape, pin_memory=self.device == "cuda")

            def loop(read: bool) -> tuple[float, float]:
                """Seconds per round, and the part of them that the graphs do not take."""
                watch = Stopwatch(self.device)
                for _ in range(self.repeats):
                    watch.mark()
                    first()
                    watch.mark()
                    if read:
                        pinned.copy_(kept, non_blocking=True)
                        if self.device == "cuda":
                            torch.cuda.current_stream().synchronize()
                        float(pinned[0, 0])
                    watch.mark()
                    then()
                    watch.mark()
                between = watch.between()  # draft, gap, verification, gap, draft, …
                rounds = self.repeats
                return sum(between) / rounds, sum(between[1::2]) / rounds

            loop(True)
            # alternated, so that a drift of the clocks meets both alike
            pairs = [(loop(False), loop(True)) for _ in range(7)]
        return {
            "requests": requests,
            "round": Timing.of([free[0] for free, _ in pairs]).median,
            "sync": max(0.0, Timing.of([read[0] - free[0] for free, read in pairs]).median),
            "async": Timing.of([free[1] for free, _ in pairs]).median,
        }

    def sustained(self, tokens: int, telemetry: Telemetry) -> dict:
        """Verification of B tokens held long enough for NVML's one-second power average."""
        with captured(self.verify_step(tokens), self.device) as replay:
            estimate = wall(replay, self.device, 2).median
            at_once = max(1, int(0.05 / estimate))
            synchronize(self.device)
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
        return {"batch_tokens": tokens, "seconds": seconds, **reading}

    def table(self, rows, columns, cell: Callable[[int, int], Timing]) -> list[list[Timing]]:
        """A full matrix of timings."""
        flat = [cell(r, c) for r, c in itertools.product(rows, columns)]
        width = len(columns)
        return [flat[i : i + width] for i in range(0, len(flat), width)]
