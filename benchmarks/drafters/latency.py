"""Seconds of the parts of a round: backbone, sequential head, confidences, context, verify."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable

import msgspec
import torch

from benchmarks.drafters.work import Work
from workbench.drafting.dspark import Drafter
from workbench.drafting.target import Target

RUNNING = (1, 8, 64, 256)


class Latency(msgspec.Struct, kw_only=True):
    """Medians over ``repeats``; on a GPU each part is one CUDA graph, timed by events."""

    dtype: str
    context: int  # tokens in the cache of each request
    block_size: int
    repeats: int
    graphs: bool
    seconds: dict[str, list[float]]  # part → by R
    running: list[int]


@torch.no_grad()
def measure(work: Work, repeats: int = 50, dtype: torch.dtype | None = None) -> Latency:
    """At R = 1, 8, 64, 256, in the dtype that a server would take; ``work`` keeps its own."""
    on_gpu = work.device.type == "cuda"
    dtype = dtype or (torch.bfloat16 if on_gpu else torch.float32)
    target = Target(work.target.config).to(work.device, dtype).eval()
    target.load_state_dict(work.target.state_dict())
    drafter = work.drafter("dspark").to(dtype)
    drafter.share(target.embed_tokens.weight, target.head)
    config = msgspec.structs.replace(drafter.config, markov_head_type="rnn")
    # random weights: they cost what trained ones cost
    recurrent = Drafter(config, target, torch.Generator().manual_seed(0)).to(work.device, dtype)
    context = min(512, target.config.context - drafter.config.block_size - 1)
    running = RUNNING if on_gpu else RUNNING[:2]
    seconds: dict[str, list[float]] = {}
    for count in running:
        for part, run in _parts(target, drafter, recurrent, count, context).items():
            seconds.setdefault(part, []).append(_time(run, on_gpu, repeats if on_gpu else 3))
    return Latency(
        dtype=str(dtype).removeprefix("torch."),
        context=context,
        block_size=drafter.config.block_size,
        repeats=repeats if on_gpu else 3,
        graphs=on_gpu,
        seconds=seconds,
        running=list(running),
    )


def _parts(
    target: Target, drafter: Drafter, recurrent: Drafter, count: int, context: int
) -> dict[str, Callable[[], object]]:
    gamma, device, dtype = drafter.config.block_size, target.device, target.dtype
    vocabulary, layers = target.config.vocabulary, drafter.config.target_layer_ids
    cache = target.new_cache(count, context + gamma + 1)
    injected = drafter.new_cache(count, context + gamma + 1)
    for part in (cache.k, cache.v, injected.k, injected.v):
        part.normal_()
    at = torch.full((count,), context, device=device)
    tokens = torch.randint(0, vocabulary, (count, gamma + 1), device=device)
    hidden = target.config.hidden
    features = torch.randn(count, gamma + 1, len(layers) * hidden, device=device, dtype=dtype)
    states = torch.randn(count, gamma, hidden, device=device, dtype=dtype)

    def sequential(which: Drafter):
        previous, state = tokens[:, 0], which.start(states[:, 0])
        for k in range(gamma):
            latent, state = which.markov_head.step(previous, states[:, k], state)
            logits = which.logits(states[:, k]) + which.markov_head.markov_w2(latent)
            # an exponential race draws from the softmax
            clocks = torch.empty_like(logits, dtype=torch.float32).exponential_()
            previous = (logits.float() - clocks.log()).argmax(-1)
        return previous

    def parallel():
        logits = drafter.logits(states).float()
        return (logits - torch.empty_like(logits).exponential_().log()).argmax(-1)

    def confidence():
        return drafter.confidence(tokens[:, :gamma], states).sigmoid().cumprod(-1)

    def verify():
        out = target(tokens, at, cache, collect=layers)
        return target.logits(out.hidden)

    return {
        "backbone": lambda: drafter.draft_states(tokens[:, 0], at, injected),
        "independent draws": parallel,
        "markov loop": lambda: sequential(drafter),
        "rnn loop": lambda: sequential(recurrent),
        "confidence head": confidence,
        "context injection": lambda: drafter.cache_context(features, at, injected),
        "verify": verify,
    }


def _time(run: Callable[[], object], on_gpu: bool, repeats: int) -> float:
    """Median seconds of one call."""
    if not on_gpu:
        run()
        taken = []
        for _ in range(repeats):
            began = time.perf_counter()
            run()
            taken.append(time.perf_counter() - began)
        return statistics.median(taken)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    for _ in range(5):
        graph.replay()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(repeats + 1)]
    marks[0].record()
    for mark in marks[1:]:
        graph.replay()
        mark.record()
    torch.cuda.synchronize()
    return statistics.median(a.elapsed_time(b) for a, b in itertools.pairwise(marks)) / 1e3
