"""The attention kernel's settings, chosen on the card: what is fastest differs between GPUs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable

import torch

from gpu_probe import reference
from gpu_probe.batch import Batch, pages_needed, spread_evenly
from gpu_probe.checks import refusal
from gpu_probe.errors import ProbeError
from gpu_probe.measure import Probe
from gpu_probe.settings import Setting, bucket, candidates, tile_rows
from gpu_probe.timing import timed_graph

SECONDS = 16.0  # for all settings together
LAYERS = 12  # caches that one timing reads in turn: more bytes than the L2 cache
# requests and mean contexts that stand for their bucket
CASES = ((64, 2048), (256, 512), (128, 192), (256, 96), (4, 2048), (1, 512))


def choose(
    tried: tuple[Setting, ...],
    cases: dict[str, tuple[Hashable, ...]],
    refused: Callable[[Setting], str],
    seconds: Callable[[Setting, Hashable], tuple[float, ...]],
    until: Callable[[], bool],
    kernel: str = "attention",
) -> dict[str, tuple[Setting, list[tuple[float, ...]]]]:
    """The fastest setting of each bucket, and its seconds by batch.

    cases: batches of each bucket; refused: why a setting cannot be used, empty where it can;
    seconds: of a batch, in each of its forms. The product over the batches, each in its slowest
    form, decides, so that all batches count alike. What is refused is skipped, as are settings left
    when ``until`` says so after the first that worked. Raises ProbeError, naming the ``kernel`` and
    the last reason, where none works.
    """
    best: dict[str, tuple[Setting, list[tuple[float, ...]]]] = {}
    least: dict[str, float] = {}
    reason = "there is none"
    for setting in tried:
        if best and until():
            break
        reason = refused(setting)
        if reason:
            continue
        for name, batches in cases.items():
            found = [seconds(setting, batch) for batch in batches]
            product = math.prod(max(forms) for forms in found)
            if name not in best or product < least[name]:
                best[name], least[name] = (setting, found), product
    if not best:
        raise ProbeError(f"no setting of the {kernel} kernel works on this card; {reason}")
    return best


class Bench:
    """Uniform and ragged batches of the probe's pool; tries one setting on them."""

    def __init__(self, probe: Probe, rows: int, queries: int):
        from gpu_probe import dispatch  # Triton needs a GPU

        self.apply, self.probe, self.rows, self.queries = dispatch.apply, probe, rows, queries
        self.small = self._made([queries, 1, (queries + 1) // 2], [700, 31, 1500])

    def _made(
        self, queries: list[int], contexts: list[int]
    ) -> tuple[Batch, torch.Tensor, torch.Tensor]:
        probe, shape = self.probe, self.probe.shape
        pages = pages_needed(len(contexts), max(contexts) + max(queries))
        batch = probe.batch(queries, contexts, pages)
        cache = probe.cache(min(LAYERS, len(probe.pool) // pages), pages)
        size = (len(batch.tokens), shape.heads, shape.head)
        return batch, cache, torch.randn(size, device=probe.device, dtype=probe.dtype)

    def batches(self, requests: int, context: int) -> tuple:
        """A uniform and a ragged batch of as many cached tokens."""
        most = self.queries
        some = [1 + (most - 1) * ((i * 5) % 8) // 7 for i in range(requests)]
        some[0] = most
        return (
            self._made([most] * requests, [context] * requests),
            self._made(some, spread_evenly(context, requests)),
        )

    def refusal(self, setting: Setting) -> str:
        """Why it cannot be used, on a small ragged batch; empty where it can."""
        batch, cache, q = self.small
        return refusal(
            lambda: self.apply(setting, self.rows, q, cache[0], batch),
            lambda: reference.attention(q.double(), cache[0].double(), batch),
            self.probe.device,
        )

    def seconds(self, setting: Setting, forms: tuple) -> tuple[float, ...]:
        """Of one layer, in every form of the batch."""
        return tuple(self._timed(setting, *form) for form in forms)

    def _timed(self, setting: Setting, batch: Batch, cache: torch.Tensor, q: torch.Tensor) -> float:
        def work() -> None:
            for pages in cache:
                self.apply(setting, self.rows, q, pages, batch)

        return timed_graph(work, self.probe.device, 6).median / len(cache)


def attention_settings(probe: Probe, most_queries: int, shapes: tuple = CASES) -> dict:
    """Chosen settings by bucket, with seconds of a layer of its first uniform and ragged batch."""
    shape, start = probe.shape, time.monotonic()
    group = shape.heads // shape.kv_heads
    tiles = {tile_rows(queries, group): queries for queries in (1, most_queries)}
    rows = []
    for i, (tile, queries) in enumerate(tiles.items()):
        bench = Bench(probe, tile, queries)
        cases: dict[str, tuple] = {}
        for r, c in shapes:
            name = bucket(tile, r, c)
            cases[name] = (*cases.get(name, ()), bench.batches(r, c))
        share = SECONDS * (i + 1) / len(tiles)
        best = choose(
            candidates(tile), cases, bench.refusal, bench.seconds,
            lambda share=share: time.monotonic() - start > share,
        )  # fmt: skip
        for name, (setting, ((uniform, ragged), *_)) in best.items():
            rows.append(
                {
                    "bucket": name,
                    **setting._asdict(),
                    "uniform_seconds": round(uniform, 9),
                    "ragged_seconds": round(ragged, 9),
                }
            )
    return {"most_queries": most_queries, "buckets": rows}


def use(kernels, found: dict) -> None:
    """Lets the kernels of this process run with the settings that ``attention_settings`` found."""
    attention = kernels.attention
    attention.most_queries = found["most_queries"]
    attention.chosen = {
        row["bucket"]: Setting(*(row[field] for field in Setting._fields))
        for row in found["buckets"]
    }
