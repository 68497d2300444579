"""The probe's attention beside FlashAttention 3 as vLLM calls it: the same batches, the same cache.

    python benchmarks/flash_attention.py --out attention.json

Needs a Hopper GPU and vLLM (0.26 was used). Both results are compared with each other.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from functools import partial
from pathlib import Path

import click
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from gpu_probe import autotune, flash
from gpu_probe.checks import relative_error
from gpu_probe.grid import FULL
from gpu_probe.measure import Probe, copy_bandwidth
from gpu_probe.settings import tile_rows
from gpu_probe.shapes import MODELS
from gpu_probe.timing import timed_graph


def seconds(call, cache: torch.Tensor, repeats: int) -> float:
    """Of one layer, every layer with a cache of its own."""

    def work() -> None:
        for pages in cache:
            call(pages)

    return timed_graph(work, "cuda", repeats).median / len(cache)


@click.command(help=__doc__)
@click.option("--model", type=click.Choice(sorted(MODELS)), default="qwen3-8b", show_default=True)
@click.option("--requests", default="8,64,256", show_default=True)
@click.option("--contexts", default="128,512,1024,2048,4096", show_default=True)
@click.option("--queries", default="1,8", show_default=True)
@click.option("--repeats", default=12, show_default=True)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True)
def main(model: str, requests: str, contexts: str, queries: str, repeats: int, out: Path) -> None:
    shape = MODELS[model]
    small = dataclasses.replace(shape, layers=autotune.LAYERS, vocabulary=1024, mlp=256, experts=0)
    grid = dataclasses.replace(FULL, cached_tokens=1_100_000)
    probe = Probe(small, "cuda", torch.bfloat16, grid, repeats)
    counts = [int(n) for n in queries.split(",")]
    autotune.use(probe.decoder.kernels, autotune.attention_settings(probe, max(counts)))
    library = flash.load()
    rate = copy_bandwidth(4 << 30, "cuda", repeats)
    rows = []
    group = shape.heads // shape.kv_heads
    for queried in counts:
        bench = autotune.Bench(probe, tile_rows(queried, group), queried)
        for r in map(int, requests.split(",")):
            for c in map(int, contexts.split(",")):
                row = {"query_tokens": queried, "requests": r, "context": c}
                for form, made in zip(("uniform", "ragged"), bench.batches(r, c), strict=True):
                    batch, cache, q = made
                    own = probe.decoder.kernels.attention
                    apart = relative_error(own(q, cache[0], batch), library(q, cache[0], batch))
                    row[f"{form}_apart"] = float(f"{apart:.2g}")
                    for name, kernel in (("probe", own), ("flash", library)):
                        taken = seconds(partial(kernel, q, batch=batch), cache, repeats)
                        row[f"{form}_{name}_us"] = round(1e6 * taken, 1)
                moved = 4 * r * c * shape.kv_heads * shape.head
                row["floor_us"] = round(1e6 * moved / rate, 1)
                rows.append(row)
                click.echo(json.dumps(row))
                out.write_text(json.dumps({"model": shape.name, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
