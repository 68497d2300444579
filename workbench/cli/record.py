"""``workbench record``: a dense trace of a drafter on prompts, at one temperature."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np
from rich.progress import Progress

from workbench.cli.console import make_console
from workbench.cli.drafting_options import drafting_options
from workbench.cli.values import Number
from workbench.drafting.extra import require
from workbench.drafting.prompts import read_prompts
from workbench.files import check_outputs
from workbench.traces import rounds_of, write_trace


@click.command()
@drafting_options
@click.option("--drafter", "drafter_path", required=True, metavar="FOLDER", help="A checkpoint.")
@click.option("--out", required=True, metavar="TRACE", help="A .jsonl, .jsonl.gz or .jsonl.zst.")
@click.option("--domain", metavar="NAME", help="Only prompts of this domain.")
@click.option("--temperature", type=Number(0), default=1.0, show_default=True)
@click.option("--max-new-tokens", type=click.IntRange(2), default=256, show_default=True)
@click.option(
    "--decimals", type=click.IntRange(1, 7), default=3, show_default=True, help="Of confidences."
)
def command(
    target_path, prompts_path, limit, max_running, seed, device, dtype,
    drafter_path, out, domain, temperature, max_new_tokens, decimals,
):  # fmt: skip
    """Record what a drafter would draft, and what would be accepted, at every output token.

    The target answers each prompt; along each answer one draft block is drawn for every token.
    The same seed gives the same trace.
    """
    check_outputs({"--out": out}, [prompts_path])
    prompts = read_prompts(prompts_path, domain, limit)
    models, checkpoints, record, sampling = require("models", "checkpoints", "record", "sampling")
    target, text = models.load_model(target_path, device, dtype)
    drafter = checkpoints.load_drafter(drafter_path, target)
    choices = sampling.RandomChoices(np.random.default_rng(seed), target.device)
    recorder = record.Recorder(
        target, drafter, choices, temperature=temperature, max_new_tokens=max_new_tokens
    )
    tokens = [text.chat([prompt.text]) for prompt in prompts]
    with Progress(console=make_console(stderr=True)) as progress:
        writing = progress.add_task("answers", total=len(prompts))
        outputs = recorder.outputs(tokens, max_running, lambda *_: progress.advance(writing))
        drafting = progress.add_task("blocks", total=len(prompts))
        rows = []
        for prompt, asked, output in zip(prompts, tokens, outputs, strict=True):
            rows.append((prompt, len(asked), recorder.blocks(asked, output)))
            progress.advance(drafting)
    source = (
        f"workbench record: {Path(drafter_path).resolve().name} on {Path(prompts_path).name}, "
        f"{dtype}, at most {max_new_tokens} new tokens, seed {seed}"
    )
    trace = record.make_trace(
        Path(out), rows, target, drafter,
        temperature=temperature, source=source, decimals=decimals,
    )  # fmt: skip
    write_trace(out, trace)
    length = rounds_of(trace).accepted_length(trace)
    click.echo(
        f"{out}: {trace.requests:,} requests, {trace.rows:,} draft blocks, accepted length "
        f"{length:.2f}; `workbench evaluate {out}` says more"
    )
