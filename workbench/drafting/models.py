"""A target with its tokenizer by path, on a device."""

from __future__ import annotations

import os

import torch

from workbench.drafting.hf_weights import load_target
from workbench.drafting.target import Target
from workbench.drafting.text import Text
from workbench.errors import InputError

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def load_model(path: str | os.PathLike, device: str, dtype: str) -> tuple[Target, Text]:
    """Target and tokenizer from a ``.gguf`` file or a Hugging Face folder.

    device: ``auto`` is the GPU where there is one. Raises InputError.
    """
    place = choose_device(device)
    if os.fspath(path).endswith(".gguf"):
        from workbench.drafting import gguf_weights

        target, text = gguf_weights.load_target(path, DTYPES[dtype]), gguf_weights.load_text(path)
    else:
        target, text = load_target(path, DTYPES[dtype]), Text.from_folder(path)
    return target.to(place), text


def choose_device(device: str) -> torch.device:
    """``auto``, ``cpu`` or ``cuda``. Raises InputError for a GPU that is not there."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("PyTorch sees no GPU", place="--device cuda", mend="take --device cpu")
    return torch.device(device)
