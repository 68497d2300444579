"""A drafter's measurements: draft passes, the host between draft and verification, whole rounds."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

import torch

from gpu_probe.batch import PAGE_TOKENS, pages_needed
from gpu_probe.drafter import Drafter
from gpu_probe.measure import Probe
from gpu_probe.sequential import Sequential
from gpu_probe.shapes import DrafterShape
from gpu_probe.timing import Timing, captured


@dataclass(frozen=True)
class Cell:
    """A random round: query tokens and contexts of each decoding request, and a prefill chunk."""

    queries: tuple[int, ...]
    contexts: tuple[int, ...]
    chunk: int = 0
    before: int = 0

    @property
    def tokens(self) -> int:
        """Batch tokens of the step."""
        return sum(self.queries) + self.chunk


class Rounds:
    """One drafter beside the probe's target; it shares the probe's page pool where shapes agree."""

    def __init__(self, probe: Probe, shape: DrafterShape, block_size: int):
        self.probe, self.shape, self.block_size = probe, shape, block_size
        self.drafter: Drafter | Sequential | None = None
        self.model = probe.shape
        if shape.kind == "none":
            pass
        elif shape.parallel:
            self.drafter = Drafter(shape, probe.decoder, block_size)
        else:
            self.drafter = Sequential(shape, probe.decoder)
            self.model = self.drafter.model
        self.caches = self._caches()

    def _caches(self) -> torch.Tensor | list[torch.Tensor]:
        """Pages of each layer that keeps keys and values, out of the probe's pool if they fit.

        A decoder of other dimensions gets a pool of four layers that the others share: more bytes
        than any cache of the chip holds, so that nothing is read twice from there.
        """
        probe, grid = self.probe, self.probe.grid
        layers = self.drafter.cached_layers if self.drafter is not None else 1
        if self.model == probe.shape:
            # no more pages than a step of the target has: dealing out millions takes the host long
            return probe.cache(layers, len(probe.pool) // max(layers, probe.shape.layers))
        pages = pages_needed(max(grid.draft_requests), max(grid.draft_contexts) + 64)
        pages = max(pages, grid.cached_tokens // PAGE_TOKENS)
        size = (4, pages, 2, self.model.kv_heads, PAGE_TOKENS, self.model.head)
        pool = torch.empty(size, dtype=probe.dtype, device=probe.device)
        for part in pool.flatten(0, 1).split(4096):
            part.normal_()
        return [pool[layer % 4] for layer in range(layers)]

    def _features(self, tokens: int) -> torch.Tensor:
        width = self.shape.target_layers * self.probe.shape.hidden
        return torch.randn(tokens, width, device=self.probe.device, dtype=self.probe.dtype)

    def draft(self, contexts: list[int], tokens: int, chunk: int = 0) -> Callable[[], object]:
        """One round's drafting of ``tokens`` per request after ``contexts`` cached tokens each.

        Takes in γ+1 verified tokens per request (engines launch before they know what was
        accepted), and a parallel drafter those of a prefill chunk; then drafts.
        """
        probe, drafter = self.probe, self.drafter
        if drafter is None:
            return lambda: None
        cache, pages = self.caches, len(self.caches[0])
        verified = [min(self.block_size + 1, context) for context in contexts]
        earlier = [c - n for c, n in zip(contexts, verified, strict=True)]
        if isinstance(drafter, Sequential):
            batches = [probe.batch(verified, earlier, pages)]
            for i in range(tokens - 1):
                later = [context + i for context in contexts]
                batches.append(probe.batch([1] * len(contexts), later, pages))
            features = self._features(len(batches[0].tokens))
            return lambda: drafter.forward(features, batches, cache)
        block = probe.batch([drafter.queries] * len(contexts), contexts, pages)
        if chunk:
            verified, earlier = [*verified, chunk], [*earlier, 0]
        seen = probe.batch(verified, earlier, pages)
        features = self._features(len(seen.tokens))
        return lambda: drafter.forward(features, seen, block, cache)

    def draft_time(self, requests: int, context: int, tokens: int) -> Timing:
        # step by step all passes but the first have one token per request
        each = self.block_size + 1 if self.shape.parallel else 1
        return self.probe.timed(self.draft([context] * requests, tokens), requests * each)

    def inject_time(self, tokens: int) -> Timing:
        """A parallel drafter's keys and values of ``tokens`` prompt tokens."""
        drafter, probe = self.drafter, self.probe
        cache, pages = self.caches, len(self.caches[0])
        batch, features = probe.batch([tokens], [0], pages), self._features(tokens)
        return probe.timed(lambda: drafter.inject(features, batch, cache), tokens)

    def markov(self, requests: int) -> Timing:
        """The sequential part of a DSpark draft alone."""
        make = {"device": self.probe.device, "dtype": self.probe.dtype}
        hidden = torch.randn(self.block_size, requests, self.probe.shape.hidden, **make)
        logits = torch.randn(self.block_size, requests, self.probe.shape.vocabulary, **make)
        anchors = torch.zeros(requests, dtype=torch.long, device=self.probe.device)
        return self.probe.timed(lambda: self.drafter.markov(hidden, logits, anchors), requests)


def whole_rounds(drafters: list[Rounds], cell: Cell, padded: int, eager: bool) -> list[dict]:
    """Seconds of one whole round, draft then verification, timed together, of every drafter.

    The drafters share the verification's graph: it is the same step.
    """
    probe = drafters[0].probe
    device = probe.device
    step = probe.step(list(cell.queries), list(cell.contexts), padded, cell.chunk, cell.before)
    found = []
    with nullcontext(step) if eager else captured(step, device) as then:
        for rounds in drafters:
            draft = rounds.draft(list(cell.contexts), rounds.block_size, cell.chunk)
            drafts = device if rounds.drafter is not None else "cpu"  # an empty graph is none
            with captured(draft, drafts) as first:
                # the drafters before it have brought the clock to rest
                whole, _, verify = probe.timed_in_order([first, then], cell.tokens, settle=0.6)
            found.append(
                {
                    "seconds": whole.median,
                    "spread": whole.spread,
                    "verify_seconds": verify.median,
                }
            )
    return found
