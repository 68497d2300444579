"""What the options of the command line stand for; ProbeError for what cannot be."""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from gpu_probe.config import from_config
from gpu_probe.errors import ProbeError
from gpu_probe.grid import FULL, QUICK, TINY, Grid
from gpu_probe.ladders import capture_sizes
from gpu_probe.shapes import DRAFTERS, MODELS, DrafterShape, ModelShape

if TYPE_CHECKING:
    from gpu_probe.flash import Flash

LONGEST_NAME = 200  # temporary files beside it have longer ones
MOST_TOKENS = 1 << 20  # of a step or a context


def model(name: str) -> ModelShape:
    """The dimensions of a built-in model or of a Hugging Face config.json."""
    if name.lower() in MODELS:
        return dataclasses.replace(MODELS[name.lower()])
    path = Path(name)
    if path.suffix == ".json" or path.exists():
        return from_config(path / "config.json" if path.is_dir() else path)
    raise ProbeError(f"--model: no model '{name}'; there are {', '.join(MODELS)}")


def drafters(args: argparse.Namespace) -> dict[str, DrafterShape]:
    """The drafters asked for, by their key in ``DRAFTERS``, with the options' dimensions."""
    found = {}
    for key in (key.strip().lower() for key in args.drafter.split(",")):
        if key not in DRAFTERS:
            raise ProbeError(f"--drafter: no drafter '{key}'; use {', '.join(DRAFTERS)}")
        shape = DRAFTERS[key]
        if shape.parallel and args.draft_layers is not None:
            shape = dataclasses.replace(shape, layers=args.draft_layers)
        if shape.head is not None and args.markov_rank is not None:
            shape = dataclasses.replace(shape, markov_rank=args.markov_rank)
        found[key] = shape
    return found


def outs(args: argparse.Namespace, keys: Collection[str], model: ModelShape) -> dict[str, Path]:
    """The profile of each drafter: the file asked for, or one each in the folder asked for."""
    folder = args.out if args.out.is_dir() else args.out.absolute().parent
    if not folder.is_dir() or (args.out.suffix != ".json" and not args.out.is_dir()):
        raise ProbeError(f"--out: {args.out} is no .json file in an existing folder, nor a folder")
    if len(os.fsencode(args.out.name)) > LONGEST_NAME:
        raise ProbeError(f"--out: the name is longer than {LONGEST_NAME} bytes")
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise ProbeError(f"--out: {folder} cannot be written to: {error.strerror}") from error
    if not args.out.is_dir():
        if len(keys) > 1:
            raise ProbeError(
                f"--out: {args.out} is one file for {len(keys)} drafters; use a folder"
            )
        return dict.fromkeys(keys, args.out)
    kind = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}[args.dtype]
    machine = "cpu"
    if args.device == "cuda":
        import torch

        machine = torch.cuda.get_device_name(0).removeprefix("NVIDIA ").lower().replace(" ", "-")
    stem = f"{machine}-{model.name.lower()}-{kind}"
    size = args.block_size
    block = {key: f"-{size}" if key[-1].isdigit() else f"{size}" for key in keys}
    return {key: folder / f"{stem}-{key}{block[key] * (key != 'none')}.json" for key in keys}


def grid(args: argparse.Namespace) -> Grid:
    """The points of the device and of ``--quick``, within the limits asked for."""
    if args.device == "cpu":
        grid = TINY
    else:
        grid = QUICK if args.quick else FULL
    sizes = contexts = None
    if args.graphs is not None:
        sizes = capture_sizes(args.graphs.lower(), args.block_size + 1)
    if args.contexts is not None:
        try:
            contexts = tuple(sorted({int(c) for c in args.contexts.split(",")}))
        except ValueError:
            contexts = (0,)
        if contexts[0] <= grid.curve_contexts[0] or contexts[-1] > MOST_TOKENS:
            raise ProbeError(
                f"--contexts: '{args.contexts}' are no contexts of 17 to {MOST_TOKENS} tokens"
            )
    if args.max_tokens is not None and args.max_tokens < 1:
        raise ProbeError(f"--max-tokens: {args.max_tokens} is below 1")
    if sizes and sizes[-1] > MOST_TOKENS:
        raise ProbeError(f"--graphs: a size is above {MOST_TOKENS}")
    if sizes or contexts or args.max_tokens:
        grid = grid.limited(sizes, args.max_tokens, contexts)
        if not grid.captured:
            raise ProbeError("--max-tokens: no captured size is that small")
    return grid


def checked(args: argparse.Namespace) -> None:
    """Raises ProbeError for what cannot work, before anything is allocated."""
    if not 1 <= args.block_size <= 31:
        raise ProbeError(f"--block-size: {args.block_size} is not within 1 to 31")
    for option, value, least, most in (
        ("--repeats", args.repeats, 2, 1000),
        ("--draft-layers", args.draft_layers, 1, 256),
        ("--markov-rank", args.markov_rank, 1, 1 << 16),
    ):
        if value is not None and not least <= value <= most:
            raise ProbeError(f"{option}: {value} is not within {least} to {most}")
    try:
        import torch
    except ImportError as error:
        raise ProbeError("torch is missing; pip install '.[gpu]' in the checkout") from error
    if args.device == "cuda" and not torch.cuda.is_available():
        raise ProbeError("no NVIDIA GPU is visible to torch; --device cpu --model tiny tries it")
    args.dtype = args.dtype or ("float32" if args.device == "cpu" else "bfloat16")
    if args.device == "cuda" and args.dtype == "float32":
        raise ProbeError("--dtype: float32 is for a CPU; use bfloat16 or float16")


def fits(model: ModelShape, args: argparse.Namespace) -> None:
    """Raises ProbeError for weights that are more than the whole memory."""
    width = 4 if args.dtype == "float32" else 2
    if args.device == "cuda":
        import torch

        memory = torch.cuda.get_device_properties(0).total_memory
    else:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if model.parameters * width > memory:
        raise ProbeError(
            f"--model: the weights of {model.name} take {model.parameters * width / 1e9:,.0f} GB, "
            f"the {args.device} has {memory / 1e9:,.0f}"
        )


def library(args: argparse.Namespace) -> Flash | None:
    """The library whose attention is measured; None: the probe's own kernel."""
    if args.device == "cpu":
        if args.attention == "flash":
            raise ProbeError("--attention: flash needs a GPU")
        return None
    if args.attention == "triton":
        return None
    from gpu_probe import flash

    try:
        return flash.load()
    except ProbeError as error:
        if args.attention == "flash":
            raise ProbeError(f"--attention: {error}") from error
        print(f"gpu-probe: {error}; the probe's own attention kernel is measured", file=sys.stderr)
        return None
