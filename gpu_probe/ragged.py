"""Attention of ragged and uniform batches beside KV bytes ÷ bandwidth.

``python -m gpu_probe.ragged``: both kernels, the balanced one with several settings; a check
against float64 first.
"""

from __future__ import annotations

import dataclasses
import math
import random
import sys
import time

import torch

from gpu_probe import attention as spans
from gpu_probe import balanced, reference
from gpu_probe.batch import PAGE_TOKENS, make_batch, pages_needed
from gpu_probe.checks import relative_error
from gpu_probe.grid import FULL
from gpu_probe.measure import Probe, copy_bandwidth
from gpu_probe.shapes import MODELS
from gpu_probe.timing import timed_graph

HEADS, KV_HEADS, HEAD, LAYERS = 32, 8, 128, 36
POOL_PAGES = 400_000  # 26 GB of keys and values
# requests, mean context, most query tokens, ragged
CASES = [
    (r, c, q, ragged)
    for r, c in ((1, 2048), (4, 512), (11, 4096), (30, 2048), (64, 2048), (110, 1024), (256, 256))
    for q in (1, 8)
    for ragged in (False, True)
]
TUNED = [(11, 4096), (64, 2048), (256, 512)]
# keys per pass, warps, stages: programs per multiprocessor
BLOCKS = {
    (64, 2, 3): (4, 8),
    (64, 4, 3): (3,),
    (64, 4, 2): (4,),
    (64, 8, 3): (2,),
    (128, 4, 3): (2, 4),
    (128, 4, 2): (2,),
}


class Bench:
    """A pool of pages and batches of it; ``seconds`` of all layers' attention."""

    def __init__(self):
        self.draw, self.cpu = random.Random(0), torch.Generator().manual_seed(0)
        self.bandwidth = copy_bandwidth(4 << 30, "cuda", 20)
        size = (POOL_PAGES, 2, KV_HEADS, PAGE_TOKENS, HEAD)
        self.pool = torch.empty(size, device="cuda", dtype=torch.bfloat16)
        for part in self.pool.split(4096):
            part.normal_()

    def batch(self, requests: int, context: int, most: int, ragged: bool):
        """A batch, its page views by layer and its queries."""
        draw = self.draw
        contexts, queries = [context] * requests, [most] * requests
        if ragged:
            contexts = [int(context * draw.uniform(0.5, 1.5)) for _ in range(requests)]
            queries = [draw.randint(1, most) for _ in range(requests)]
            queries[0] = most
        pages = pages_needed(requests, max(contexts) + most)
        layers = min(LAYERS, POOL_PAGES // pages)
        cache = self.pool[: layers * pages].view(layers, pages, *self.pool.shape[1:])
        batch = make_batch(queries, contexts, pages, 9, "cuda", self.cpu)
        q = torch.randn(len(batch.tokens), HEADS, HEAD, device="cuda", dtype=torch.bfloat16)
        return batch, cache, q

    def ratio(self, kernel, made, **settings) -> float:
        """Seconds of all layers over KV bytes ÷ bandwidth."""
        batch, cache, q = made

        def work() -> None:
            for layer in range(LAYERS):
                kernel(q, cache[layer % len(cache)], batch, **settings)

        moved = LAYERS * int(batch.lengths.sum()) * 2 * KV_HEADS * HEAD * 2
        return timed_graph(work, "cuda", 10, 0.02).median * self.bandwidth / moved


def check(bench: Bench) -> None:
    """Both kernels against float64 on ragged batches."""
    for requests, context, most in ((3, 700, 8), (40, 900, 8), (7, 3000, 1)):
        batch, cache, q = bench.batch(requests, context, most, True)
        wide = cache[0].double()
        for causal in (True, False):
            truth = reference.attention(q.double(), wide, batch, causal)
            errors = [
                relative_error(kernel.attention(q, cache[0], batch, causal), truth)
                for kernel in (spans, balanced)
            ]
            print(f"error {requests}x{context} q{most} causal {causal}: spans, balanced = {errors}")


def tune(bench: Bench) -> dict[int, tuple[int, int, int, int]]:
    """The balanced kernel's fastest setting by query tokens; prints all."""
    best = {}
    for most in (1, 8):
        made = [bench.batch(r, c, most, ragged) for r, c in TUNED for ragged in (False, True)]
        found = []
        for block, programs in BLOCKS.items():
            for each in programs:
                try:
                    ratios = [
                        bench.ratio(balanced.attention, m, block=(*block, each)) for m in made
                    ]
                except Exception as error:  # a setting that needs too much shared memory
                    print(f"q{most} {block}: {type(error).__name__}", flush=True)
                    break
                mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
                found.append((mean, (*block, each)))
                shown = " ".join(f"{ratio:.3f}" for ratio in ratios)
                print(f"q{most} {block} x{each}: {mean:.3f} | {shown}", flush=True)
        best[most] = min(found)[1]
        print(f"q{most}: best {best[most]}", flush=True)
    return best


def chunks() -> None:
    """Where a step beside a chunk, and a small step, spend what the tables do not say."""
    grid = dataclasses.replace(FULL, settle_seconds=0.1)
    probe = Probe(MODELS["qwen3-4b"], "cuda", torch.bfloat16, grid, 10)

    def ms(timing) -> str:
        return f"{timing.median * 1e3:.3f}"

    def step(*args, **more) -> str:
        return ms(probe.timed(probe.step(*args, **more)))

    for chunk, before in ((340, 1769), (336, 1776), (384, 1792), (256, 2048), (512, 0), (477, 98)):
        print(f"prefill {chunk} after {before}: {ms(probe.prefill(chunk, before))}", flush=True)
    for tokens in (8, 384, 512, 576):
        print(f"verify {tokens}: {ms(probe.verify(tokens))}", flush=True)
    eight = [4] * 8, [356] * 8
    print("8 requests of 4, no chunk:", step(*eight), flush=True)
    for chunk, before in ((352, 0), (340, 0), (352, 1760), (340, 1769), (480, 96), (477, 98)):
        bare, full = step(*eight, chunk=chunk, before=before), ""
        size = next(n for n in grid.captured if n >= 32 + chunk)
        full = step(*eight, padded=size, chunk=chunk, before=before)
        print(f"beside {chunk} after {before}: {bare}, padded to {size} {full}", flush=True)
    for q, c in ((8, 16), (7, 16), (8, 70), (7, 70), (8, 128)):
        alone = ms(probe.attention(1, c, q))
        padded = step([q], [c], padded=8)
        print(f"1 request of {q} after {c}: {padded}, attention {alone}", flush=True)
    print("4 requests, 9 tokens:", step([3, 2, 2, 2], [180] * 4), flush=True)
    print("4 requests, 9 tokens, padded to 12:", step([3, 2, 2, 2], [180] * 4, 12), flush=True)
    print("4 requests, 12 tokens:", step([3] * 4, [180] * 4), ms(probe.verify(12)), flush=True)


def main() -> int:
    start = time.monotonic()
    with torch.inference_mode():
        bench = Bench()
        check(bench)
        best = tune(bench)
        print(
            f"[{time.monotonic() - start:.0f} s] requests context queries ragged: spans balanced",
            flush=True,
        )
        for case in CASES:
            made = bench.batch(*case)
            old = bench.ratio(spans.attention, made)
            new = bench.ratio(balanced.attention, made, block=best[case[2]])
            wide = bench.ratio(balanced.attention, made, block=best[8], least_rows=32)
            print(f"{case}: {old:.3f} {new:.3f}  ({new / old - 1:+.1%}), 32 rows {wide:.3f}")
        print(f"{time.monotonic() - start:.0f} s", flush=True)
        del bench
        torch.cuda.empty_cache()
        chunks()
    print(f"{time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
