"""A target from a Hugging Face directory: config.json, *.safetensors, tokenizer.json."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from workbench.drafting.config import read_config, target_config
from workbench.drafting.target import Target
from workbench.errors import InputError


def load_target(folder: str | os.PathLike, dtype: torch.dtype = torch.float32) -> Target:
    """The Llama or Qwen3 model in ``folder``, on the CPU, in ``dtype``.

    Raises InputError for a missing or unreadable file, another family or weights that do not fit.
    """
    path = Path(folder) / "config.json"
    config = target_config(read_config(path), path)
    with torch.device("meta"):
        target = Target(config)
    state = {}
    for name, tensor in read_tensors(folder):
        name = name.removeprefix("model.")
        # a tied model may store its embedding a second time
        if not (config.tied and name == "lm_head.weight") and not name.endswith("inv_freq"):
            state[name] = tensor.to(dtype)
    assign(target, state, folder)
    return target.eval().requires_grad_(False)


def read_tensors(folder: str | os.PathLike) -> Iterator[tuple[str, Tensor]]:
    """Name and tensor of everything in the folder's safetensors files, in order of file name."""
    files = sorted(Path(folder).glob("*.safetensors"))
    if not files:
        raise InputError(
            "holds no *.safetensors", file=folder, mend="give a Hugging Face model's folder"
        )
    for file in files:
        try:
            with safe_open(file, framework="pt") as tensors:
                for name in tensors.keys():  # noqa: SIM118 — not a mapping
                    yield name, tensors.get_tensor(name)
        except (SafetensorError, OSError) as error:
            raise InputError(
                f"cannot be read ({error})", file=file, mend="fetch the file again"
            ) from error


def assign(
    module: nn.Module, state: dict[str, Tensor], file: str | os.PathLike, *, replace: bool = True
) -> None:
    """Load ``state`` into ``module``: as its parameters, which may be on ``meta``, or into them.

    Raises InputError naming a tensor that is missing, not of the model, or of another shape.
    """
    wanted = dict(module.state_dict())
    for name in sorted(wanted.keys() | state.keys()):
        if name not in state:
            problem = "the tensor is missing"
        elif name not in wanted:
            problem = "the model has no such tensor"
        elif state[name].shape != wanted[name].shape:
            problem = f"has shape {list(state[name].shape)}, not {list(wanted[name].shape)}"
        else:
            continue
        raise InputError(problem, file=file, place=name, mend="weights and config.json differ")
    module.load_state_dict(state, assign=replace)
