"""How fast a GPU answers prompts and trains drafters: random weights of SmolLM2-135M's shape.

    python benchmarks/drafters/speed.py [--rows 4096] [--sequences 64] [--anchors 64] [--profile]

Prints the difference between fast and plain paths first, then milliseconds and tokens per second.
"""

from __future__ import annotations

import argparse
import time
import traceback
from dataclasses import replace

import numpy as np
import torch

from workbench.drafting.attention import decode_attention, grouped_attention
from workbench.drafting.config import DrafterConfig, TargetConfig
from workbench.drafting.data import Sequences
from workbench.drafting.dspark import Drafter
from workbench.drafting.generate import Generator, random_choices
from workbench.drafting.layers import initialise
from workbench.drafting.parts import EAGER, compiled
from workbench.drafting.target import Target
from workbench.drafting.training import Options, Trainer, batch_losses

SHAPE = {
    "hidden": 576, "heads": 9, "kv_heads": 3, "head_dim": 64, "ffn": 1536, "vocabulary": 49_152,
    "rope_theta": 100_000.0, "rms_eps": 1e-5,
}  # fmt: skip


def main() -> None:
    """Run every part; a part that fails says so and the others still run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--layers", type=int, default=30)
    parser.add_argument("--prompt", type=int, default=384, help="longest prompt")
    parser.add_argument("--new", type=int, default=256, help="new tokens")
    parser.add_argument("--sequences", type=int, default=64)
    parser.add_argument("--anchors", type=int, default=64)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--chunk", type=int, default=1024, help="blocks")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--device", default="cuda", help="cpu: to try this file, not to measure")
    args = parser.parse_args()
    config = TargetConfig(**SHAPE, layers=args.layers, context=2048, name="random", eos=(2,))
    target = Target(config)
    initialise(target, torch.Generator().manual_seed(0), 0.04)
    target = target.to(args.device, torch.bfloat16).eval().requires_grad_(False)
    for part in (
        lambda: kernel(args.device),
        lambda: generation(target, args),
        lambda: training(target, "markov", args),
        lambda: training(target, "dflash", args),
    ):
        try:
            part()
        except Exception:
            traceback.print_exc()
        torch.cuda.empty_cache()


def wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def timed(work, steps: int) -> float:
    """Milliseconds per call on the device's clock and the host's, whichever is longer."""
    wait()
    begun = time.perf_counter()
    for _ in range(steps):
        work()
    wait()
    return 1e3 * (time.perf_counter() - begun) / steps


def kernel(device: str) -> None:
    rng = torch.Generator(device).manual_seed(0)
    q = torch.randn(64, 9, 1, 64, generator=rng, device=device).bfloat16()
    k, v = torch.randn(2, 64, 3, 640, 64, generator=rng, device=device).bfloat16()
    lengths = torch.randint(1, 641, (64,), generator=rng, device=device)
    found, wanted = decode_attention(q, k, v, lengths), grouped_attention(q, k, v, lengths)
    print(f"attention kernel: largest difference {(found - wanted).abs().max().item():.4f}")


def generation(target: Target, args: argparse.Namespace) -> None:
    rng = np.random.default_rng(0)
    generator = Generator(
        target, random_choices(rng, target.device), max_new_tokens=args.new,
        max_running=args.rows, longest_prompt=args.prompt,
    )  # fmt: skip
    lengths = rng.integers(30, args.prompt, args.rows)
    prompts = [rng.integers(0, 49_152, n).tolist() for n in lengths]
    slots, room = np.arange(args.rows), generator._cache.positions
    first = timed(lambda: generator._prefill(slots, prompts), 1)
    again = timed(lambda: generator._prefill(slots, prompts), 1)
    print(f"prefill of {lengths.sum():,} tokens: {first:.0f} ms, then {again:.0f} ms")
    with torch.no_grad():
        first = timed(lambda: generator._step(room), 1)
        print(f"first decode step (compilation, capture): {first / 1e3:.1f} s")
        for length in (128, 280, 384):
            generator._length.fill_(min(length, args.prompt))
            generator._running.fill_(True)
            generator._written.fill_(1)
            whole = timed(lambda: generator._step(room), args.steps)
            alone = timed(lambda: generator._pass(room), args.steps)
            rate = 1e3 * args.rows / whole
            print(
                f"decode {args.rows} rows of {length} tokens: {whole:.2f} ms a step, "
                f"{alone:.2f} of it the pass; {rate:,.0f} tokens/s"
            )
        if args.profile:
            profile(lambda: generator._step(room))
    tokens = 0

    def finished(index: int, answer: np.ndarray) -> None:
        nonlocal tokens
        tokens += len(answer)

    seconds = timed(lambda: generator.run(prompts + prompts[: args.rows // 2], finished), 1) / 1e3
    print(f"{1.5 * args.rows:.0f} prompts answered: {tokens / seconds:,.0f} tokens/s")


def training(target: Target, head: str, args: argparse.Namespace) -> None:
    rng = np.random.default_rng(0)
    data = Sequences.of(
        [
            (rng.integers(0, 49_152, prompt), rng.integers(0, 49_152, answer))
            for prompt, answer in rng.integers((40, 150), (250, 260), (2000, 2))
        ]
    )
    markov = head == "markov"
    config = DrafterConfig(
        **SHAPE, layers=5, qk_norm=True, block_size=7, mask_token_id=49_151,
        target_layer_ids=tuple(int(i) for i in np.rint(np.linspace(1, args.layers - 3, 5)))
        if args.layers > 7 else (0, args.layers - 1),
        markov_rank=256 if markov else 0, enable_confidence_head=markov,
        confidence_head_with_markov=markov,
    )  # fmt: skip
    drafter = Drafter(config, target, torch.Generator().manual_seed(0)).to(args.device).train()
    options = Options(
        sequences=args.sequences, anchors=args.anchors, length=args.length, optimiser="muon",
        learning_rate=1e-3, blocks_per_chunk=args.chunk, fast=args.device == "cuda", steps=10**6,
    )  # fmt: skip
    trainer = Trainer(target, drafter, data, options)
    with torch.no_grad():
        batch = trainer.batches.get(0)
        plain = batch_losses(target, drafter, batch, replace(options, fast=False))
    losses = []

    def step() -> None:
        losses.append(trainer.train_step().total)

    print(f"{head}: compiling and the first step: {timed(step, 1) / 1e3:.1f} s")
    print(f"second step: {timed(step, 1):.0f} ms")
    whole = timed(step, args.steps)
    blocks = args.sequences * args.anchors
    memory = torch.cuda.max_memory_allocated() / 2**30 if options.fast else 0
    print(f"{head}: {whole:.1f} ms a step, {1e3 * blocks / whole:,.0f} blocks/s, {memory:.0f} GiB")
    fast, last = losses[0].item(), losses[-1].item()
    print(f"first loss {fast:.4f}, on the plain path {plain.total.item():.4f}; last {last:.4f}")
    batch_losses(target, drafter, batch, options).total.backward()
    forward = timed(lambda: batch_losses(target, drafter, batch, options), args.steps)
    steps = timed(lambda: (trainer.optimisers.step(0.0), fill(drafter)), args.steps)
    tokens = batch.tokens
    with torch.no_grad():
        frozen = timed(
            lambda: target.whole(
                tokens, collect=config.target_layer_ids, parts=compiled() if options.fast else EAGER
            ),
            args.steps,
        )
    print(
        f"{head}: target {frozen:.1f} ms, forward with the head's gradients {forward:.1f} ms, "
        f"optimisers {steps:.1f} ms"
    )
    if args.profile:
        profile(trainer.train_step)


def fill(drafter: Drafter) -> None:
    for parameter in drafter.parameters():
        parameter.grad = torch.ones_like(parameter)


def profile(work) -> None:
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as watch

    with watch(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        work()
        work()
        wait()
    print(seen.key_averages().table(sort_by="self_cuda_time_total", row_limit=22)[:9000])


if __name__ == "__main__":
    main()
