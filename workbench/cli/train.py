"""``workbench train``: a DFlash or DSpark drafter for a target, on the target's own answers."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np
from rich.progress import Progress, TextColumn

from workbench.cli.console import make_console
from workbench.cli.drafting_options import drafting_options, room_for_prompts
from workbench.cli.values import Number, Numbers
from workbench.drafting.extra import require
from workbench.drafting.prompts import read_prompts
from workbench.errors import InputError


class Part(click.ParamType):
    """I/N, 1 ≤ I ≤ N."""

    name = "part"

    def convert(self, value, param, ctx):
        first, _, second = str(value).partition("/")
        if not (first.isdecimal() and second.isdecimal() and 1 <= int(first) <= int(second)):
            self.fail(f"{value!r} is no part; 1/2 is the first of two", param, ctx)
        return int(first), int(second)


@click.command()
@drafting_options
@click.option("--out", required=True, metavar="FOLDER", help="Checkpoint and answers go there.")
@click.option(
    "--head",
    type=click.Choice(["dflash", "markov", "rnn"]),
    default="markov",
    show_default=True,
    help="DFlash, or DSpark with this sequential head.",
)
@click.option("--block-size", type=click.IntRange(1, 64), default=7, show_default=True, help="γ.")
@click.option("--layers", type=click.IntRange(1), default=5, show_default=True)
@click.option(
    "--target-layers", type=Numbers(int), help="Layers, 1-based, that feed the drafter.  [5 evenly]"
)
@click.option("--markov-rank", type=click.IntRange(1), default=256, show_default=True)
@click.option("--mask-token-id", type=click.IntRange(0), help="[the vocabulary's last]")
@click.option("--ce-only", is_flag=True, help="Cross-entropy alone, as DFlash's authors train it.")
@click.option("--temperature", type=Number(0), default=1.0, show_default=True, help="Of answers.")
@click.option("--max-new-tokens", type=click.IntRange(2), default=512, show_default=True)
@click.option(
    "--max-prompt-tokens", type=click.IntRange(1), help="Longer ones are left out.  [what fits]"
)
@click.option(
    "--samples", type=click.IntRange(1), default=1, show_default=True, help="Answers per prompt."
)
@click.option(
    "--part",
    type=Part(),
    metavar="I/N",
    help="Write the I-th of N parts of the answers and stop: one process per GPU.",
)
@click.option("--steps", type=click.IntRange(1), default=1000, show_default=True)
@click.option("--minutes", type=Number(0.01), help="Train this long, whatever the steps.")
@click.option("--sequences", type=click.IntRange(1), default=8, show_default=True, help="Per step.")
@click.option(
    "--anchors", type=click.IntRange(1), default=64, show_default=True, help="Per sequence."
)
@click.option(
    "--length", type=click.IntRange(2), help="Of sequences.  [GPU: 512, else as they come]"
)
@click.option(
    "--optimiser",
    type=click.Choice(["adamw", "muon"]),
    default="adamw",
    show_default=True,
    help="Muon: for the backbone's matrices, beside AdamW.",
)
@click.option(
    "--learning-rate", type=Number(0), default=6e-4, show_default=True, help="AdamW's highest."
)
@click.option(
    "--muon-rate", type=Number(0), default=0.02, show_default=True, help="Muon's highest."
)
@click.option("--save-every", type=click.IntRange(1), default=200, show_default=True, help="Steps.")
@click.option(
    "--save-seconds", type=Number(1), default=60, show_default=True, help="With --minutes."
)
@click.option("--resume", is_flag=True, help="Go on from the checkpoint in --out.")
def command(
    target_path, prompts_path, limit, max_running, seed, device, dtype, out, head, block_size,
    layers, target_layers, markov_rank, mask_token_id, ce_only, temperature, max_new_tokens,
    max_prompt_tokens, samples, part, steps, minutes, sequences, anchors, length, optimiser,
    learning_rate, muon_rate, save_every, save_seconds, resume,
):  # fmt: skip
    """Let the target answer the prompts, then train a drafter on the answers.

    Answers are kept in --out/answers and used again by the next run with the same settings. A
    resumed run ends with the same weights as one that was never interrupted.
    """
    folder = Path(out)
    if not resume and (folder / "config.json").exists():
        raise InputError(
            "holds a checkpoint", file=folder, mend="add --resume or name another folder"
        )
    prompts = read_prompts(prompts_path, None, limit)
    models, answers, training, checkpoints, dspark = require(
        "models", "answers", "training", "checkpoints", "dspark"
    )
    target, text = models.load_model(target_path, device, dtype)
    config = _drafter_config(
        target.config, head, block_size, layers, target_layers, markov_rank, mask_token_id
    )
    tokens = [text.chat([prompt.text]) for prompt in prompts]
    room = room_for_prompts(target.config.context, max_new_tokens)
    room = min(room, max_prompt_tokens or room)
    tokens = [prompt for prompt in tokens if len(prompt) <= room]
    if not tokens:
        raise InputError(
            f"no prompt has at most {room} tokens", file=prompts_path, mend="give shorter ones"
        )
    written = folder / "answers"
    checkpoints.make_folder(written)
    with Progress(console=make_console(stderr=True)) as progress:
        writing = progress.add_task("answers", total=len(tokens) * samples)
        number, parts = part or (1, 1)
        together = answers.answers(
            written, target, tokens, seed, samples=samples, part=number - 1, parts=parts,
            temperature=temperature, max_new_tokens=max_new_tokens, max_running=max_running,
            on_progress=lambda count: progress.advance(writing, count),
        )  # fmt: skip
    if part:
        click.echo(f"{written}: part {number} of {parts} is written; train without --part next")
        return

    import torch

    drafter = dspark.Drafter(config, target, torch.Generator().manual_seed(seed))
    drafter = drafter.to(target.device, torch.float32).train()
    weights = training.Weights(1.0, 0.0, 0.0) if ce_only else training.Weights()
    fast = target.device.type == "cuda"
    options = training.Options(
        steps=steps, minutes=minutes, sequences=sequences, anchors=anchors, seed=seed,
        length=length or (512 if fast else None), optimiser=optimiser,
        learning_rate=learning_rate, muon_rate=muon_rate, weights=weights, fast=fast,
        blocks_per_chunk=1024 if fast else 64,
    )  # fmt: skip
    trainer = training.Trainer(target, drafter, together, options)
    if resume and (folder / training.STATE).exists():
        trainer.resume(folder)
    _train(trainer, folder, save_every, save_seconds if minutes else None)
    click.echo(f"{folder}: {config.kind}, {trainer.step:,} steps; `workbench record` tries it")


def _train(trainer, folder: Path, save_every: int, save_seconds: float | None) -> None:
    shown = TextColumn("loss {task.fields[loss]:.3f}  overlap {task.fields[overlap]}")
    with Progress(
        *Progress.get_default_columns(), shown, console=make_console(stderr=True)
    ) as progress:
        task = progress.add_task(
            "training", total=1.0, completed=trainer.done, loss=float("nan"), overlap=""
        )
        saved = trainer.seconds
        while trainer.done < 1:
            losses = trainer.train_step()
            if trainer.step % 10 == 0 or trainer.done == 1:
                overlap = " ".join(f"{a:.2f}" for a in losses.acceptance.tolist())
                progress.update(task, loss=losses.total.item(), overlap=overlap)
            progress.update(task, completed=trainer.done)
            if save_seconds is None:
                due = trainer.step % save_every == 0
            else:
                due = trainer.seconds >= saved + save_seconds
            if due or trainer.done == 1:
                trainer.save(folder)
                saved = trainer.seconds


def _drafter_config(target, head, block_size, layers, target_layers, rank, mask):
    from workbench.drafting.config import DrafterConfig

    if target_layers is None:
        # from the second to the third last, as DeepSpec's configurations have them
        first, last = (1, target.layers - 3) if target.layers > 7 else (0, target.layers - 1)
        chosen = np.rint(np.linspace(first, last, min(5, target.layers)))
        ids = tuple(int(i) for i in chosen)
    else:
        ids = tuple(sorted(layer - 1 for layer in target_layers))
        if ids[-1] >= target.layers:
            raise InputError(
                f"the target has {target.layers} layers", place="--target-layers", mend="name those"
            )
    mask = target.vocabulary - 1 if mask is None else mask
    if mask >= target.vocabulary:
        raise InputError(
            f"the target has {target.vocabulary} tokens", place="--mask-token-id", mend="name one"
        )
    sequential = head != "dflash"
    return DrafterConfig(
        hidden=target.hidden,
        layers=layers,
        heads=target.heads,
        kv_heads=target.kv_heads,
        head_dim=target.head_dim,
        ffn=target.ffn,
        vocabulary=target.vocabulary,
        rope_theta=target.rope_theta,
        rms_eps=target.rms_eps,
        qk_norm=True,
        block_size=block_size,
        target_layer_ids=ids,
        mask_token_id=mask,
        markov_rank=rank if sequential else 0,
        markov_head_type="rnn" if head == "rnn" else "vanilla",
        enable_confidence_head=sequential,
        confidence_head_with_markov=sequential,
    )
