"""One training step of a drafter, and the state from which training goes on bit-equal.

Target, embedding and head are frozen. Every random choice of step s comes from (seed, s), so that a
checkpoint holds weights, optimiser and the step's number, nothing else.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from torch import Tensor

from workbench.drafting.checkpoints import make_folder, save_drafter, write_tensors
from workbench.drafting.data import Sequences
from workbench.drafting.dspark import Drafter
from workbench.drafting.hf_weights import assign, read_tensors
from workbench.drafting.losses import Losses, Weights, drafter_losses
from workbench.drafting.target import Target
from workbench.errors import InputError

STATE = Path("state") / "optimizer.safetensors"


@dataclass(frozen=True)
class Options:
    """How a drafter is trained."""

    steps: int = 1000
    sequences: int = 8  # per step
    anchors: int = 64  # blocks per sequence, drawn anew each step
    learning_rate: float = 6e-4
    warmup: float = 0.04  # share of the steps
    clip: float = 1.0  # norm of the gradient
    seed: int = 0
    weights: Weights = field(default_factory=Weights)
    blocks_per_chunk: int | None = 64  # logits held at once, in blocks


def sample_anchors(answer: Tensor, count: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Anchors [B, count], ascending, and which of them are real.

    answer: bool [B, S], the tokens that the target wrote. An anchor is one whose successor is too.
    """
    candidates = (answer[:, :-1] & answer[:, 1:]).cpu().numpy()
    anchors = np.zeros((len(candidates), count), int)
    real = np.zeros((len(candidates), count), bool)
    for row, possible in enumerate(candidates):
        places = np.flatnonzero(possible)
        chosen = np.sort(rng.permutation(places)[:count])
        anchors[row, : len(chosen)], real[row, : len(chosen)] = chosen, True
    device = answer.device
    return torch.from_numpy(anchors).to(device), torch.from_numpy(real).to(device)


def batch_losses(
    target: Target,
    drafter: Drafter,
    tokens: Tensor,
    answer: Tensor,
    anchors: Tensor,
    real: Tensor,
    options: Options,
) -> Losses:
    """Losses of the blocks at ``anchors`` [B, A] of ``tokens`` [B, S], padded at the end.

    A block's labels end where the answer ends; unreal anchors have none.
    """
    gamma, (rows, length) = drafter.config.block_size, tokens.shape
    with torch.no_grad():
        cache = target.new_cache(rows, length)
        start = torch.zeros(rows, dtype=torch.long, device=tokens.device)
        out = target(tokens, start, cache, collect=drafter.config.target_layer_ids)
        del cache
    features = out.features.to(drafter.fc.weight.dtype)
    states = drafter.block_states(tokens, features, anchors)[real]
    row = torch.arange(rows, device=tokens.device)[:, None].expand_as(anchors)[real][:, None]
    places = anchors[real][:, None] + torch.arange(gamma + 1, device=tokens.device)
    inside = places.clamp(max=length - 1)
    along = tokens[row, inside]
    labelled = answer[row, inside] & (places < length)
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
    """AdamW with warm-up and cosine decay over ``options.steps``."""

    def __init__(self, target: Target, drafter: Drafter, data: Sequences, options: Options):
        self.target, self.drafter, self.data, self.options = target, drafter, data, options
        self.step = 0
        self.optimiser = torch.optim.AdamW(
            drafter.parameters(), lr=options.learning_rate, betas=(0.9, 0.95), weight_decay=0.0
        )

    def learning_rate(self, step: int) -> float:
        """Of step 0, 1, …: linear to the top over the warm-up, then half a cosine to a tenth."""
        options = self.options
        warm = max(1, round(options.warmup * options.steps))
        if step < warm:
            return options.learning_rate * (step + 1) / warm
        done = (step - warm) / max(1, options.steps - warm)
        return options.learning_rate * (0.1 + 0.45 * (1 + math.cos(math.pi * min(done, 1.0))))

    def train_step(self) -> Losses:
        """One step; the losses before it."""
        options = self.options
        rng = np.random.default_rng((options.seed, self.step))
        tokens, answer = self.data.batch(options.sequences, rng, self.target.device)
        anchors, real = sample_anchors(answer, options.anchors, rng)
        losses = batch_losses(self.target, self.drafter, tokens, answer, anchors, real, options)
        self.optimiser.zero_grad(set_to_none=True)
        losses.total.backward()
        torch.nn.utils.clip_grad_norm_(self.drafter.parameters(), options.clip)
        for group in self.optimiser.param_groups:
            group["lr"] = self.learning_rate(self.step)
        self.optimiser.step()
        self.step += 1
        return losses

    def save(self, folder: str | os.PathLike) -> None:
        """Drafter and optimiser; ``resume`` goes on from there as if nothing had happened."""
        folder = Path(folder)
        make_folder(folder / STATE.parent)
        # weights and step's number once more, in one file: a crash between two files is harmless
        tensors = {f"weight/{name}": p for name, p in self.drafter.named_parameters()}
        for name, parameter in self.drafter.named_parameters():
            for key, value in self.optimiser.state.get(parameter, {}).items():
                tensors[f"{key}/{name}"] = value
        write_tensors(folder / STATE, tensors, {"step": str(self.step)})
        save_drafter(folder, self.drafter, self.target)

    def resume(self, folder: str | os.PathLike) -> None:
        """Load what ``save`` wrote. Raises InputError if it is missing or of another drafter."""
        path = Path(folder) / STATE
        if not path.is_file():
            raise InputError("no such file", file=path, mend="start without resuming")
        parts: dict[str, dict[str, Tensor]] = {}
        for name, tensor in read_tensors(path.parent):
            part, _, name = name.partition("/")
            parts.setdefault(part, {})[name] = tensor
        with safe_open(path, framework="pt") as file:
            step = (file.metadata() or {}).get("step", "")
        if not step.isdecimal():
            raise InputError("says no step", file=path, mend="start without resuming")
        assign(self.drafter, parts.pop("weight", {}), path, replace=False)
        for name, parameter in self.drafter.named_parameters():
            state = {key: values[name] for key, values in parts.items() if name in values}
            # the optimiser counts its steps on the CPU
            self.optimiser.state[parameter] = {
                key: value if key == "step" else value.to(parameter) for key, value in state.items()
            }
        self.step = int(step)
