"""gpu-probe: measure this machine's GPU once, write a profile for every drafter."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from gpu_probe import __version__, options
from gpu_probe.errors import ProbeError
from gpu_probe.shapes import DRAFTERS, MODELS

SLOW_ON_CPU = 50_000_000  # parameters
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


def _command(given: list[str], out: Path) -> str:
    """The call, without the folder of --out, which says nothing about the measurement."""
    short = [
        lead + Path(path).name if path and Path(path) == out else word
        for word in given
        for lead, path in [("--out=", word[6:]) if word.startswith("--out=") else ("", word)]
    ]
    return " ".join(["gpu-probe", *short])


def measure(args: argparse.Namespace, given: list[str]) -> int:
    model = options.model(args.model)
    options.checked(args)
    drafters = options.drafters(args)
    options.fits(model, args)
    grid = options.grid(args)
    import torch

    from gpu_probe import compare
    from gpu_probe.session import Session

    outs = options.outs(args, drafters, model)
    if args.device == "cpu" or args.quick:
        print("gpu-probe: few points, not for planning with", file=sys.stderr)
    if args.device == "cpu" and model.parameters > SLOW_ON_CPU:
        print(f"gpu-probe: {model.name} takes a CPU very long; tiny tries it", file=sys.stderr)
    command = _command(given, args.out)
    library = options.library(args)
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
