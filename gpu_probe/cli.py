"""gpu-probe: measure this machine's GPU once, write a profile for every drafter."""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from gpu_probe import __version__
from gpu_probe.config import from_config
from gpu_probe.errors import ProbeError
from gpu_probe.grid import FULL, QUICK, TINY, Grid
from gpu_probe.ladders import capture_sizes
from gpu_probe.shapes import DRAFTERS, MODELS, DrafterShape, ModelShape

if TYPE_CHECKING:
    from gpu_probe.flash import Flash

SLOW_ON_CPU = 50_000_000  # parameters
LONGEST_NAME = 200  # temporary files beside it have longer ones
MOST_TOKENS = 1 << 20  # of a step or a context
DTYPES = ("bfloat16", "float16", "float32")


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="gpu-probe",
        description="Measure what one speculative-decoding step costs on this machine's GPU and "
        "write workbench.profile/1 files. Weights are random, nothing is downloaded.",
    )
    p.add_argument("--backend", choices=("torch",), default="torch", help="what runs the model")
    p.add_argument(
        "--model",
        default="qwen3-8b",
        help=f"dimensions: {', '.join(MODELS)}, or a Hugging Face config.json",
    )
    p.add_argument(
        "--drafter", default="dspark", help=f"one or several, by comma: {', '.join(DRAFTERS)}"
    )
    p.add_argument("--block-size", type=int, default=7, help="draft tokens per round (default 7)")
    p.add_argument("--draft-layers", type=int, help="layers of a dspark or dflash drafter")
    p.add_argument("--markov-rank", type=int, help="rank of DSpark's sequential head")
    p.add_argument("--dtype", choices=DTYPES, help="default bfloat16, on a CPU float32")
    p.add_argument(
        "--graphs",
        help="captured batch tokens: vllm, sglang, vllm-drafts (default) or sizes as in 1,2,4",
    )
    p.add_argument(
        "--max-tokens", type=int, help="no captured size above; three eager ones just past the last"
    )
    p.add_argument("--contexts", help="contexts of the attention table, as in 512,2048,8192")
    p.add_argument(
        "--out",
        required=True,
        type=Path,
        help="FILE.json, or a folder for several drafters",
    )
    p.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    p.add_argument("--quick", action="store_true", help="fewer points; a CPU measures a tiny grid")
    p.add_argument("--resume", action="store_true", help="go on where an interrupted run stopped")
    p.add_argument(
        "--mixed",
        action="store_true",
        help="price steps with prefill from their own table (slower to simulate)",
    )
    p.add_argument("--repeats", type=int, default=20, help="timed replays a point (default 20)")
    p.add_argument(
        "--attention",
        choices=("auto", "flash", "triton"),
        default="auto",
        help="flash: FlashAttention 3 of an installed vLLM, as vLLM calls it; triton: the probe's "
        "own kernel; auto (default): flash where it works",
    )
    p.add_argument("--version", action="version", version=f"gpu-probe {__version__}")
    return p


def _model(name: str) -> ModelShape:
    if name.lower() in MODELS:
        return dataclasses.replace(MODELS[name.lower()])
    path = Path(name)
    if path.suffix == ".json" or path.exists():
        return from_config(path / "config.json" if path.is_dir() else path)
    raise ProbeError(f"--model: no model '{name}'; there are {', '.join(MODELS)}")


def _drafters(args: argparse.Namespace) -> dict[str, DrafterShape]:
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


def _outs(args: argparse.Namespace, keys: Collection[str], model: ModelShape) -> dict[str, Path]:
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


def _grid(args: argparse.Namespace) -> Grid:
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


def _checked(args: argparse.Namespace) -> None:
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


def _fits(model: ModelShape, args: argparse.Namespace) -> None:
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


def _library(args: argparse.Namespace) -> Flash | None:
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


def _command(given: list[str], out: Path) -> str:
    """The call, without the folder of --out, which says nothing about the measurement."""
    short = [
        lead + Path(path).name if path and Path(path) == out else word
        for word in given
        for lead, path in [("--out=", word[6:]) if word.startswith("--out=") else ("", word)]
    ]
    return " ".join(["gpu-probe", *short])


def measure(args: argparse.Namespace, given: list[str]) -> int:
    model = _model(args.model)
    _checked(args)
    drafters = _drafters(args)
    _fits(model, args)
    grid = _grid(args)
    import torch

    from gpu_probe import compare
    from gpu_probe.session import Session

    outs = _outs(args, drafters, model)
    if args.device == "cpu" or args.quick:
        print("gpu-probe: few points, not for planning with", file=sys.stderr)
    if args.device == "cpu" and model.parameters > SLOW_ON_CPU:
        print(f"gpu-probe: {model.name} takes a CPU very long; tiny tries it", file=sys.stderr)
    command = _command(given, args.out)
    library = _library(args)
    if args.device == "cpu":
        torch.set_num_threads(1)  # at these sizes threads only wait for each other
    try:
        session = args.session = Session(
            model,
            outs,
            {key: 0 if key == "none" else args.block_size for key in drafters},
            args.device,
            getattr(torch, args.dtype),
            grid,
            args.repeats,
            command,
            args.resume,
            args.mixed,
            drafters,
            library,
        )
        with torch.inference_mode():
            documents = session.everything()
    except torch.cuda.OutOfMemoryError as error:
        raise ProbeError(
            "the GPU's memory is too small or in use; try --quick, --max-tokens or --contexts"
            " (--resume keeps what was measured)"
        ) from error
    print("\n\n".join(compare.summary(document) for document in documents.values()))
    return 0


def main(argv: list[str] | None = None) -> int:
    given = sys.argv[1:] if argv is None else argv
    args = parser().parse_args(given)
    args.session = None
    try:
        return measure(args, given)
    except ProbeError as error:
        print(f"gpu-probe: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        kept = ""
        if args.session and args.session.parts:
            files = args.session.written
            held = f"parts that were done are in {', '.join(map(str, files))}; " if files else ""
            kept = f"; {held}--resume goes on from there"
        print(f"gpu-probe: interrupted{kept}", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
