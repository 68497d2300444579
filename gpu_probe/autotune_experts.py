"""The experts' tiles, chosen on the card: what is fastest differs between GPUs and models."""

from __future__ import annotations

import time

import torch

from gpu_probe import reference, tiles
from gpu_probe.autotune import choose
from gpu_probe.checks import refusal
from gpu_probe.measure import Probe
from gpu_probe.tiles import Tile
from gpu_probe.timing import timed_graph

SECONDS = 25.0  # for all sizes together
LAYERS = 6  # whose experts one timing reads in turn: more bytes than the L2 cache


class Bench:
    """The experts of some of the probe's layers; tries one tile on random routings."""

    def __init__(self, probe: Probe):
        from gpu_probe import moe  # Triton needs a GPU

        self.apply, self.probe = moe.apply, probe
        self.layers = probe.decoder.layers[:LAYERS]
        self._refusals: dict[Tile, str] = {}

    def _inputs(self, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Hidden states and, in float32, so that no two are equal, the router's logits."""
        shape, device = self.probe.shape, self.probe.device
        x = torch.randn(tokens, shape.hidden, device=device, dtype=self.probe.dtype)
        return x, torch.randn(tokens, shape.experts, device=device)

    def refusal(self, tile: Tile) -> str:
        """Why it cannot be used, on a ragged routing; empty where it can."""
        if tile not in self._refusals:
            layer, active = self.layers[0], self.probe.shape.active
            x, logits = self._inputs(40)
            logits[:, 0] += 4  # one expert has most of the tokens
            wide = x.double(), logits.double()
            self._refusals[tile] = refusal(
                lambda: self.apply(tile, x, logits, layer.gate_up, layer.down, active),
                lambda: reference.routed(*wide, layer.gate_up, layer.down, active),
                self.probe.device,
            )
        return self._refusals[tile]

    def seconds(self, tile: Tile, tokens: int) -> tuple[float]:
        """Of one layer."""
        active = self.probe.shape.active
        inputs = [self._inputs(tokens) for _ in self.layers]

        def work() -> None:
            for layer, (x, logits) in zip(self.layers, inputs, strict=True):
                self.apply(tile, x, logits, layer.gate_up, layer.down, active)

        return (timed_graph(work, self.probe.device, 6).median / len(self.layers),)


def expert_tiles(probe: Probe, sizes: tuple[int, ...] = tiles.SIZES) -> dict:
    """The fastest tile by batch tokens, with the seconds of a layer's experts."""
    shape, start, bench, rows = probe.shape, time.monotonic(), Bench(probe), []
    for i, tokens in enumerate(sizes):
        share = SECONDS * (i + 1) / len(sizes)
        tried = tuple(
            tile
            for tile in tiles.CANDIDATES
            if tiles.promising(tile, tokens, shape.experts, shape.active)
        )
        best = choose(
            tried, {str(tokens): (tokens,)}, bench.refusal, bench.seconds,
            lambda share=share: time.monotonic() - start > share, "experts",
        )  # fmt: skip
        tile, ((seconds,),) = best[str(tokens)]
        rows.append({"tokens": tokens, **tile._asdict(), "seconds": round(seconds, 9)})
    return {"sizes": rows}


def use(kernels, found: dict) -> None:
    """Lets the kernels of this process run with the tiles that ``expert_tiles`` found."""
    kernels.experts.chosen = {
        row["tokens"]: Tile(*(row[field] for field in Tile._fields)) for row in found["sizes"]
    }
