"""One training step of a drafter, and the state from which training goes on bit-equal.

Target, embedding and head are frozen. Every random choice of step s comes from (seed, s), so that a
checkpoint holds weights, optimiser and the step's number, nothing else.
"""

from __future__ import annotations

import math
import os
import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor

from workbench.drafting.batches import Batch, Batches
from workbench.drafting.block_attention import TILE
from workbench.drafting.checkpoints import make_folder, save_drafter, write_tensors
from workbench.drafting.config import drafter_config, read_config
from workbench.drafting.data import Sequences
from workbench.drafting.dspark import Drafter
from workbench.drafting.hf_weights import assign, read_tensors
from workbench.drafting.losses import Losses, Weights, drafter_losses
from workbench.drafting.optimisers import Optimisers
from workbench.drafting.parts import EAGER, compiled
from workbench.drafting.target import Target
from workbench.errors import InputError

STATE = Path("state") / "optimizer.safetensors"


@dataclass(frozen=True)
class Options:
    """How a drafter is trained."""

    steps: int = 1000
    minutes: float | None = None  # train as long as this instead, compilation left out
    sequences: int = 8  # per step
    length: int | None = None  # tokens to which sequences are padded or cut; None: as they come
    anchors: int = 64  # blocks per sequence, drawn anew each step
    optimiser: str = "adamw"  # or "muon", for the backbone's matrices
    learning_rate: float = 6e-4
    muon_rate: float = 0.02
    warmup: float = 0.04  # share of the training
    clip: float = 1.0  # norm of the gradient
    seed: int = 0
    weights: Weights = field(default_factory=Weights)
    blocks_per_chunk: int | None = 64  # logits held at once, in blocks
    fast: bool = False  # compiled, bfloat16 products, flex attention: for a GPU and a fixed length


def batch_losses(target: Target, drafter: Drafter, batch: Batch, options: Options) -> Losses:
    """Losses of the blocks at the batch's anchors.

    A block's labels end where the answer ends; unreal anchors have none.
    """
    tokens, answer, anchors, real = batch
    gamma, (rows, length) = drafter.config.block_size, tokens.shape
    parts = compiled() if options.fast else EAGER
    with torch.no_grad():
        out = target.whole(tokens, collect=drafter.config.target_layer_ids, parts=parts)
    low = torch.autocast(tokens.device.type, torch.bfloat16) if options.fast else nullcontext()
    with low:
        features = out.features if options.fast else out.features.to(drafter.fc.weight.dtype)
        states = drafter.block_states(
            tokens, features, anchors, flex=options.fast and length % TILE == 0, parts=parts
        ).flatten(0, 1)
    places = anchors[..., None] + torch.arange(gamma + 1, device=tokens.device)
    places, inside = places.flatten(0, 1), places.flatten(0, 1).clamp(max=length - 1)
    row = torch.arange(rows, device=tokens.device).repeat_interleave(anchors.shape[1])[:, None]
    along = tokens[row, inside]
    labelled = answer[row, inside] & (places < length) & real.flatten()[:, None]
    valid = labelled[:, 1:].cumprod(dim=1).bool()

    def target_logits(first: int, last: int) -> Tensor:
        with torch.no_grad():
            return target.logits(out.hidden[row[first:last], inside[first:last, :-1]])

    return drafter_losses(
        drafter,
        states,
        along[:, :-1],
        along[:, 1:],
        target_logits,
        valid,
        options.weights,
        blocks_per_chunk=options.blocks_per_chunk,
    )


class Trainer:
    """Warm-up and cosine decay to zero, over ``options.steps`` or ``options.minutes``."""

    def __init__(self, target: Target, drafter: Drafter, data: Sequences, options: Options):
        self.target, self.drafter, self.options = target, drafter, options
        if drafter.head.dtype != target.dtype:
            # .to(dtype) on the drafter made copies of the target's frozen weights
            drafter.share(target.embed_tokens.weight, target.head)
        self.step, self.seconds = 0, 0.0  # done so far
        self._since: float | None = None  # when the clock was last read; None: not running
        self.batches = Batches(
            data, options.sequences, options.anchors, options.length, options.seed, target.device
        )
        self.optimisers = Optimisers(
            drafter, options.optimiser, options.learning_rate, options.muon_rate
        )

    @property
    def done(self) -> float:
        """Share of the training that is behind, 0..1."""
        if self.options.minutes is None:
            return min(1.0, self.step / self.options.steps)
        return min(1.0, self.seconds / (60 * self.options.minutes))

    def rate(self, done: float) -> float:
        """Share of the highest learning rate: rises over the warm-up, then half a cosine to 0."""
        warm = self.options.warmup
        if done < warm:
            return max(done / warm, 0.01)
        return 0.5 * (1 + math.cos(math.pi * min(1.0, (done - warm) / (1 - warm))))

    def train_step(self) -> Losses:
        """One step; the losses before it."""
        losses = batch_losses(self.target, self.drafter, self.batches.get(self.step), self.options)
        losses.total.backward()
        torch.nn.utils.clip_grad_norm_(self.drafter.parameters(), self.options.clip)
        self.optimisers.step(self.rate(self.done))
        self.step += 1
        self._tick()
        return losses

    def _tick(self) -> None:
        if self._since is None and self.target.device.type == "cuda":
            torch.cuda.synchronize()  # the first step compiles: time counts from its end
        now = time.monotonic()
        self.seconds += 0.0 if self._since is None else now - self._since
        self._since = now

    def save(self, folder: str | os.PathLike) -> None:
        """Drafter and optimisers; ``resume`` goes on from there as if nothing had happened."""
        folder = Path(folder)
        make_folder(folder / STATE.parent)
        # weights and step's number once more, in one file: a crash between two files is harmless
        tensors = {f"weight/{name}": p for name, p in self.drafter.named_parameters()}
        about = {
            "step": str(self.step),
            "seconds": str(self.seconds),
            "optimiser": self.options.optimiser,
        }
        write_tensors(folder / STATE, tensors | dict(self.optimisers.state()), about)
        save_drafter(folder, self.drafter, self.target)

    def resume(self, folder: str | os.PathLike) -> None:
        """Load what ``save`` wrote.

        Raises InputError if it is missing, of another drafter or of another optimiser; what else
        was chosen may differ.
        """
        path = Path(folder) / STATE
        if not path.is_file():
            raise InputError("no such file", file=path, mend="start without resuming")
        self._check_same(Path(folder) / "config.json")
        parts: dict[str, dict[str, Tensor]] = {}
        for name, tensor in read_tensors(path.parent):
            part, _, name = name.partition("/")
            parts.setdefault(part, {})[name] = tensor
        with safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
        if not about.get("step", "").isdecimal():
            raise InputError("says no step", file=path, mend="start without resuming")
        kind = about.get("optimiser", "adamw")
        if kind != self.options.optimiser:
            raise InputError(f"was trained with {kind}", file=path, mend=f"add --optimiser {kind}")
        assign(self.drafter, parts.pop("weight", {}), path, replace=False)
        self.optimisers.load(parts)
        self.step, self.seconds = int(about["step"]), float(about.get("seconds", 0.0))

    def _check_same(self, path: Path) -> None:
        """γ, mask and layers change what weights mean, not their shapes."""
        if not path.is_file():
            return  # a crash between the state and it
        saved, mine = drafter_config(read_config(path), path), self.drafter.config
        for name in mine.__struct_fields__:
            was, now = getattr(saved, name), getattr(mine, name)
            if was != now:
                raise InputError(
                    f"the checkpoint has {name} {was}, these options {now}",
                    file=path,
                    mend="resume with the options that it began with, or name another folder",
                )
