"""The probe's attention beside FlashAttention 3 as vLLM calls it: the same batches, the same cache.

    python benchmarks/flash_attention.py --out attention.json

Needs a Hopper GPU and vLLM (0.26 was used), whose FlashAttention it calls with the schedule that
vLLM makes for its full CUDA graphs. Both results are compared with each other.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import click
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from gpu_probe import autotune
from gpu_probe.batch import PAGE_TOKENS, Batch
from gpu_probe.checks import relative_error
from gpu_probe.grid import FULL
from gpu_probe.measure import Probe, copy_bandwidth
from gpu_probe.settings import tile_rows
from gpu_probe.shapes import MODELS, ModelShape
from gpu_probe.timing import timed_graph

SPLITS = 32  # vLLM's default for full graphs (flash_attn_max_num_splits_for_cuda_graph)
LONGEST = 2048  # max_model_len beyond the context


def library_call(shape: ModelShape, batch: Batch, q: torch.Tensor):
    """FlashAttention 3 over one layer's pages, with vLLM's schedule for the batch."""
    from vllm.vllm_flash_attn import flash_attn_varlen_func, get_scheduler_metadata

    most = batch.length_max + LONGEST
    schedule = get_scheduler_metadata(
        batch_size=batch.requests, max_seqlen_q=batch.query_max, max_seqlen_k=most,
        num_heads_q=shape.heads, num_heads_kv=shape.kv_heads, headdim=shape.head,
        cache_seqlens=batch.lengths, qkv_dtype=q.dtype, cu_seqlens_q=batch.query_starts,
        page_size=PAGE_TOKENS, causal=True, num_splits=SPLITS,
    )  # fmt: skip
    out = torch.empty_like(q)

    def call(pages: torch.Tensor) -> torch.Tensor:
        k, v = pages[:, 0].transpose(1, 2), pages[:, 1].transpose(1, 2)
        return flash_attn_varlen_func(
            q, k, v, max_seqlen_q=batch.query_max, cu_seqlens_q=batch.query_starts,
            max_seqlen_k=most, seqused_k=batch.lengths, causal=True, block_table=batch.table,
            out=out, scheduler_metadata=schedule, num_splits=SPLITS, fa_version=3,
        )  # fmt: skip

    return call


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
                    library = library_call(small, batch, q)

                    def own(pages, batch=batch, q=q):
                        return probe.decoder.kernels.attention(q, pages, batch)

                    apart = relative_error(own(cache[0]), library(cache[0]))
                    row[f"{form}_apart"] = float(f"{apart:.2g}")
                    row[f"{form}_probe_us"] = round(1e6 * seconds(own, cache, repeats), 1)
                    row[f"{form}_flash_us"] = round(1e6 * seconds(library, cache, repeats), 1)
                moved = 4 * r * c * shape.kv_heads * shape.head
                row["floor_us"] = round(1e6 * moved / rate, 1)
                rows.append(row)
                click.echo(json.dumps(row))
                out.write_text(json.dumps({"model": shape.name, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
