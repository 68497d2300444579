"""gpu-probe: measure this machine's GPU once, write a profile."""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from pathlib import Path

from gpu_probe import __version__
from gpu_probe.errors import ProbeError
from gpu_probe.shapes import DRAFTERS, MODELS


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="gpu-probe",
        description="Measure what one speculative-decoding step costs on this machine's GPU and "
        "write a workbench.profile/1 file. Weights are random, nothing is downloaded.",
    )
    p.add_argument("--model", default="qwen3-8b", help=f"dimensions: {', '.join(MODELS)}")
    p.add_argument("--drafter", default="dspark", help=f"one of {', '.join(DRAFTERS)}")
    p.add_argument("--block-size", type=int, default=7, help="draft tokens per round (default 7)")
    p.add_argument("--out", required=True, type=Path, help="profile to write, FILE.json")
    p.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    p.add_argument("--quick", action="store_true", help="few points; always so on a CPU")
    p.add_argument("--repeats", type=int, default=20, help="timed replays a point (default 20)")
    p.add_argument("--version", action="version", version=f"gpu-probe {__version__}")
    return p


def _checked(args: argparse.Namespace) -> None:
    """Raises ProbeError for what cannot work, before anything is allocated."""
    if args.model.lower() not in MODELS:
        raise ProbeError(f"--model: no model '{args.model}'; there are {', '.join(MODELS)}")
    if args.drafter.lower() not in DRAFTERS:
        raise ProbeError(f"--drafter: no drafter '{args.drafter}'; use {' or '.join(DRAFTERS)}")
    if not 1 <= args.block_size <= 31:
        raise ProbeError(f"--block-size: {args.block_size} is not within 1 to 31")
    if args.repeats < 2:
        raise ProbeError(f"--repeats: {args.repeats} is too few for a median; give 2 or more")
    if args.out.is_dir() or not args.out.absolute().parent.is_dir():
        raise ProbeError(f"--out: {args.out} is no file in an existing folder")
    if not os.access(args.out.absolute().parent, os.W_OK):
        raise ProbeError(f"--out: the folder of {args.out} is not writable")
    try:
        import torch
    except ImportError as error:
        raise ProbeError("torch is missing; pip install '.[gpu]' in the checkout") from error
    if args.device == "cuda" and not torch.cuda.is_available():
        raise ProbeError("no NVIDIA GPU is visible to torch; --device cpu --model tiny tries it")


def measure(args: argparse.Namespace) -> int:
    _checked(args)
    import torch

    from gpu_probe import compare, grid
    from gpu_probe.profile import Run

    quick = args.quick or args.device == "cpu"
    if quick:
        print("gpu-probe: quick grid, not for planning with", file=sys.stderr)
    points = grid.QUICK if quick else grid.FULL
    command = (
        f"gpu-probe --model {args.model} --drafter {args.drafter} --block-size "
        f"{args.block_size} --device {args.device} --repeats {args.repeats}"
        f"{' --quick' if quick else ''} --out {args.out.name}"
    )
    model = MODELS[args.model.lower()]
    if args.device == "cpu":
        torch.set_num_threads(1)  # at these sizes threads only wait for each other
    try:
        run = Run(
            dataclasses.replace(model),
            DRAFTERS[args.drafter.lower()],
            args.block_size,
            args.device,
            points,
            args.repeats,
            args.out,
            command,
        )
        with torch.inference_mode():
            document = run.everything()
    except torch.cuda.OutOfMemoryError as error:
        raise ProbeError("the GPU's memory is too small or in use; try --quick") from error
    print(compare.summary(document))
    return 0


def main(argv: list[str] | None = None) -> int:
    args = parser().parse_args(argv)
    try:
        return measure(args)
    except ProbeError as error:
        print(f"gpu-probe: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        kept = f"; {args.out} holds the parts that were done" if args.out.exists() else ""
        print(f"gpu-probe: interrupted{kept}", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
