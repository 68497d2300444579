"""``workbench record``: a dense trace of a drafter on prompts, at one temperature."""

from __future__ import annotations

import shutil
from pathlib import Path

import click
import numpy as np
from rich.progress import Progress

from workbench.cli.console import make_console, write_json
from workbench.cli.drafting_options import drafting_options, room_for_prompts
from workbench.cli.values import Number
from workbench.drafting.extra import require
from workbench.drafting.prompts import read_prompts
from workbench.drafting.unbiased import unbiased
from workbench.errors import InputError
from workbench.files import check_outputs
from workbench.traces import rounds_of, write_trace


@click.command()
@drafting_options
@click.option("--drafter", "drafter_path", required=True, metavar="FOLDER", help="A checkpoint.")
@click.option("--out", required=True, metavar="TRACE", help="A .jsonl, .jsonl.gz or .jsonl.zst.")
@click.option("--report", metavar="JSON", help="Acceptance against its expectation, by request.")
@click.option("--domain", metavar="NAME", help="Only prompts of this domain.")
@click.option("--temperature", type=Number(0), default=1.0, show_default=True)
@click.option("--max-new-tokens", type=click.IntRange(2), default=256, show_default=True)
@click.option(
    "--decimals", type=click.IntRange(1, 7), default=3, show_default=True, help="Of confidences."
)
@click.option(
    "--part",
    type=click.IntRange(1),
    default=64,
    show_default=True,
    help="Requests kept at a time: what an interruption can cost.",
)
def command(
    target_path, prompts_path, limit, max_running, seed, device, dtype,
    drafter_path, out, report, domain, temperature, max_new_tokens, decimals, part,
):  # fmt: skip
    """Record what a drafter would draft, and what would be accepted, at every output token.

    The target answers each prompt; along each answer one draft block is drawn for every token.
    The same seed gives the same trace, and every drafter the same answers. An interrupted run goes
    on from its parts in TRACE.parts, which a finished one removes.
    """
    check_outputs({"--out": out, "--report": report}, [prompts_path])
    prompts = read_prompts(prompts_path, domain, limit)
    models, checkpoints, generate, record, recording = require(
        "models", "checkpoints", "generate", "record", "recording"
    )
    target, text = models.load_model(target_path, device, dtype)
    drafter = checkpoints.load_drafter(drafter_path, target)
    on_gpu = target.device.type == "cuda"

    def choices(*numbers: int):
        return generate.random_choices(np.random.default_rng((seed, *numbers)), target.device)

    def outputs(number: int, asked: list[list[int]]):
        written = generate.generate(
            target, asked, choices(number, 0), temperature=temperature,
            max_new_tokens=max_new_tokens, max_running=max_running,
        )  # fmt: skip
        return recording.outputs_of(written)

    def new_recorder(number: int):
        wide = {"rows_per_pass": 64, "anchors_per_pass": 1024} if on_gpu else {}
        return record.Recorder(target, drafter, choices(number, 1), temperature=temperature, **wide)

    tokens = [text.chat([prompt.text]) for prompt in prompts]
    room = room_for_prompts(target.config.context, max_new_tokens)
    for prompt, asked in zip(prompts, tokens, strict=True):
        if not 1 <= len(asked) <= room:
            raise InputError(
                f"has {len(asked):,} tokens, 1 to {room:,} fit beside {max_new_tokens:,} new ones",
                file=prompts_path,
                place=f"id {prompt.id!r}",
                mend="shorten it, or ask for fewer with --max-new-tokens",
            )
    source = (
        f"workbench record: {Path(drafter_path).resolve().name} on {Path(prompts_path).name}, "
        f"{dtype}, at most {max_new_tokens} new tokens, seed {seed}"
    )
    settings = recording.settings_of(
        target_path, drafter_path, tokens, source=source, temperature=temperature
    )
    parts = Path(f"{out}.parts")
    with Progress(console=make_console(stderr=True)) as progress:
        task = progress.add_task("requests", total=len(prompts))
        blocks = recording.record_parts(
            parts, tokens, outputs, new_recorder, settings,
            part=part, on_progress=lambda count: progress.advance(task, count),
        )  # fmt: skip
    rows = list(zip(prompts, [len(asked) for asked in tokens], blocks, strict=True))
    trace = recording.make_trace(
        Path(out), rows, target.config.name, drafter.config,
        temperature=temperature, source=source, decimals=decimals,
    )  # fmt: skip
    write_trace(out, trace)
    if report is not None:
        write_json(report, unbiased(trace.ids, blocks))
    shutil.rmtree(parts)
    length = rounds_of(trace).accepted_length(trace)
    click.echo(
        f"{out}: {trace.requests:,} requests, {trace.rows:,} draft blocks, accepted length "
        f"{length:.2f}; `workbench evaluate {out}` says more"
    )
