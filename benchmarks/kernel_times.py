"""What the kernels of a step take, by kind: the probe's step, or an engine's (vllm_steps.py).

    python benchmarks/kernel_times.py --model qwen3-8b --requests 256 --context 1024

Needs a GPU. Times are those of torch's profiler; ``idle`` is what no kernel and no copy fills.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import click
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from gpu_probe import autotune, autotune_experts, flash
from gpu_probe.grid import FULL
from gpu_probe.measure import Probe
from gpu_probe.shapes import MODELS
from gpu_probe.timing import captured

# parts of kernel names, of the probe's and of vLLM's
KINDS = {
    "attention": ("_pieces", "_split_attention", "_combine_", "flash::"),
    "matrix products": ("nvjet", "gemm", "splitKreduce", "cutlass", "fused_moe", "_expert_product"),
    "choice of the token": ("gumbel", "ArgMax"),
    "norms, RoPE, cache, SwiGLU": ("norm", "rope", "reshape_and_cache", "swiglu", "silu", "triton"),
}


def kind(name: str) -> str:
    """The first kind whose parts are in the kernel's name; "other" for none."""
    return next((k for k, parts in KINDS.items() if any(p in name for p in parts)), "other")


def kernel_times(run: Callable[[], object], steps: int) -> dict[str, float]:
    """Milliseconds of a step by kind, and ``idle``, over ``steps`` runs without a pause."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(steps):
            run()
        torch.cuda.synchronize()
    on_device = torch.autograd.DeviceType.CUDA
    spans = [
        (event.time_range.start, event.time_range.end, event.name)
        for event in profiler.events()
        if event.device_type == on_device
    ]
    return by_kind(spans, steps)


def by_kind(spans: list[tuple[float, float, str]], steps: int) -> dict[str, float]:
    """Milliseconds of a step from (start, end, name) in microseconds."""
    times: Counter[str] = Counter()
    idle, reached = 0.0, min(start for start, _, _ in spans)
    for start, end, name in sorted(spans):
        times[kind(name)] += end - start
        idle += max(0.0, start - reached)
        reached = max(reached, end)
    times["idle"] = idle
    return {name: round(us / 1e3 / steps, 3) for name, us in times.most_common()}


@click.command(help=__doc__)
@click.option("--model", type=click.Choice(sorted(MODELS)), default="qwen3-8b", show_default=True)
@click.option("--requests", default=256, show_default=True)
@click.option("--context", default=1024, show_default=True)
@click.option("--steps", default=6, show_default=True)
@click.option("--flash", "by_library", is_flag=True, help="attention by vLLM's FlashAttention 3")
def main(model: str, requests: int, context: int, steps: int, by_library: bool) -> None:
    probe = Probe(MODELS[model], "cuda", torch.bfloat16, FULL, 5)
    kernels = probe.decoder.kernels
    if by_library:
        kernels.attention.library = flash.load()
    else:
        autotune.use(kernels, autotune.attention_settings(probe, 8))
    if MODELS[model].experts:
        autotune_experts.use(kernels, autotune_experts.expert_tiles(probe))
    with captured(probe.step([1] * requests, [context] * requests), "cuda") as replay:
        for _ in range(100):
            replay()
        for name, milliseconds in kernel_times(replay, steps).items():
            click.echo(f"{milliseconds:8.3f} ms  {name}")


if __name__ == "__main__":
    main()
