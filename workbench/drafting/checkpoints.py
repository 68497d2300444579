"""Drafters on disk: ``config.json`` and safetensors, the layout of DeepSpec's checkpoints.

The embedding and output head are the target's. A checkpoint may hold copies of its own (DeepSpec's
do); then those are used. Files of the workbench leave them out.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import torch
from safetensors.torch import save
from torch import Tensor

from workbench.drafting.config import drafter_config, drafter_json, read_config
from workbench.drafting.dspark import Drafter
from workbench.drafting.hf_weights import assign, read_tensors
from workbench.drafting.target import Target
from workbench.errors import InputError
from workbench.files import atomic_write

SHARED = ("embed_tokens.weight", "lm_head.weight")


def load_drafter(
    folder: str | os.PathLike, target: Target, dtype: torch.dtype | None = None
) -> Drafter:
    """The DFlash or DSpark drafter in ``folder``, for ``target``, on its device.

    Reads what ``save_drafter`` writes, DeepSpec's Qwen3 DSpark and DFlash, DFlash's own Qwen3
    layout. Raises InputError for another layout, other weights, or another target's shapes.
    """
    path = Path(folder) / "config.json"
    raw = read_config(path)
    config = drafter_config(raw, path)
    _check_fits(config, raw, target, path)
    with torch.device("meta"):
        drafter = Drafter(config, target)
    state, shared = {}, {}
    for name, tensor in read_tensors(folder):
        tensor = tensor.to(device=target.device, dtype=dtype or target.dtype)
        (shared if name in SHARED else state)[name.removeprefix("model.")] = tensor
    assign(drafter, state, folder)
    embedding = shared.get(SHARED[0], target.embed_tokens.weight)
    head = shared.get(SHARED[1], target.head)
    for name, tensor in zip(SHARED, (embedding, head), strict=True):
        if tuple(tensor.shape) != (config.vocabulary, config.hidden):
            raise InputError(
                f"has shape {list(tensor.shape)}, not {[config.vocabulary, config.hidden]}",
                file=folder,
                place=name,
                mend="weights and config.json differ",
            )
    drafter.share(embedding, head)
    return drafter.eval()


def _check_fits(config, raw: dict, target: Target, path: Path) -> None:
    fits = {
        "vocab_size": (config.vocabulary, target.config.vocabulary),
        "hidden_size": (config.hidden, target.config.hidden),
        "num_target_layers": (
            raw.get("num_target_layers", target.config.layers),
            target.config.layers,
        ),
    }
    for place, (mine, its) in fits.items():
        if mine != its:
            raise InputError(
                f"is {mine}; the target's is {its}",
                file=path,
                place=place,
                mend="give the target that the drafter was trained for",
            )
    ids = config.target_layer_ids
    if (
        not ids
        or not all(-1 <= i < target.config.layers for i in ids)
        or sorted(set(ids)) != [*ids]
    ):
        raise InputError(
            f"is {list(ids)}",
            file=path,
            place="target_layer_ids",
            mend=f"they ascend from -1 to {target.config.layers - 1}",
        )
    if not 0 <= config.mask_token_id < config.vocabulary or config.block_size < 1:
        raise InputError(
            f"block_size {config.block_size}, mask_token_id {config.mask_token_id}",
            file=path,
            place="block_size, mask_token_id",
            mend="at least one draft, and a token of the vocabulary",
        )


def save_drafter(folder: str | os.PathLike, drafter: Drafter, target: Target) -> None:
    """Write ``model.safetensors``, then ``config.json``; the folder is made. Raises InputError."""
    folder = Path(folder)
    make_folder(folder)
    write_tensors(folder / "model.safetensors", drafter.state_dict())
    described = msgspec.json.encode(drafter_json(drafter.config, target.config))
    with atomic_write(folder / "config.json") as file:
        file.write(msgspec.json.format(described, indent=1) + b"\n")


def make_folder(folder: Path) -> None:
    """Make ``folder``, its parents too. Raises InputError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"cannot be made ({error.strerror})", file=folder, mend="name another folder"
        ) from error


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict | None = None) -> None:
    """One safetensors file, written whole or not at all."""
    with atomic_write(path) as file:
        file.write(save({k: v.detach().cpu().contiguous() for k, v in tensors.items()}, metadata))
