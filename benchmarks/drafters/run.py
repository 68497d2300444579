"""One run on a GPU machine, from a target's file to traces and their checks.

    python -m benchmarks.drafters.run --target model.gguf --prompts eval.jsonl.gz \
        --training train.jsonl.gz --work DIR --out DIR

Each stage keeps what it made in --work; a later command goes on from there. A stage that the
deadline cuts off loses what it did not keep yet.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import click

from benchmarks.drafters import plan
from benchmarks.drafters.settings import HEADS
from workbench.files import atomic_write


class Late(BaseException):
    """The deadline has come."""


@click.command(context_settings={"show_default": True})
@click.option("--target", type=click.Path(path_type=Path), help="A .gguf; with --toy none.")
@click.option("--prompts", type=click.Path(path_type=Path), help="Evaluation prompts.")
@click.option("--training", type=click.Path(path_type=Path), help="Training prompts.")
@click.option("--work", "folder", type=click.Path(path_type=Path), required=True)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="One .tar goes here.")
@click.option("--stages", default=",".join(plan.STAGES), help="In this order.")
@click.option("--until", type=click.Choice(plan.STAGES), help="The last stage of this command.")
@click.option("--gpus", type=click.IntRange(1), default=1, help="Processes side by side.")
@click.option("--deadline", type=float, default=570, help="Seconds from the start on.")
@click.option("--minutes-train", type=float, default=4.5, help="Per drafter.")
@click.option("--training-prompts", type=int, help="The first so many.")
@click.option("--samples", type=int, default=1, help="Answers per training prompt.")
@click.option("--answer-tokens", type=int, default=512)
@click.option("--new-tokens", type=int, default=256, help="Of an evaluation output.")
@click.option("--prompt-tokens", type=int, default=512, help="Longer ones are not recorded.")
@click.option("--decoded", type=int, help="Prompts per domain that checks decode.")
@click.option("--drafters", default=",".join(HEADS), help="Those that the stage train trains.")
@click.option("--train", "train_options", default="", help="More options of workbench train.")
@click.option("--toy", is_flag=True, help="A tiny random target on the CPU, in seconds.")
def command(folder, out, stages, until, gpus, deadline, drafters, train_options, toy, **options):
    """Run stages that are not done yet, one after the other."""
    began = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    out.mkdir(parents=True, exist_ok=True)
    wanted = [stage for stage in plan.STAGES if stage in stages.split(",")]
    wanted = wanted[: wanted.index(until) + 1] if until else wanted
    described = plan.described(folder, toy, options)
    run = plan.Run(folder, described, drafters.split(","), train_options.split(), gpus)
    signal.signal(signal.SIGALRM, _alarm)
    signal.setitimer(signal.ITIMER_REAL, max(deadline - (time.monotonic() - began), 1))
    seconds, failed = {}, 0
    try:
        for stages_now in run.together(wanted):
            start = time.monotonic()
            for commands in run.rounds(stages_now):
                bad = _side_by_side(commands, gpus, toy)
                failed += len(bad)
                run.note(stages_now, [line for line in commands if line not in bad])
            seconds["+".join(stages_now)] = round(time.monotonic() - start, 1)
            click.echo(f"{stages_now}: {seconds['+'.join(stages_now)]} s", err=True)
            if failed and stages_now[0] in plan.NEEDED:
                break
    except Late:
        click.echo(f"deadline; run again to go on; done: {seconds}", err=True)
        sys.exit(3)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        _pack(folder, out, seconds)
    if failed:
        sys.exit(1)


def _alarm(number, frame):
    raise Late


def _side_by_side(commands: list[list[str]], gpus: int, toy: bool) -> list[list[str]]:
    """Run ``commands``, at most one per GPU, until the deadline; those that failed."""
    running: list[subprocess.Popen] = []
    try:
        for place, command_line in enumerate(commands):
            environment = os.environ | {"PYTHONUNBUFFERED": "1"}
            if toy:
                environment["OMP_NUM_THREADS"] = "1"  # tiny matrices
            else:
                visible = os.environ.get("CUDA_VISIBLE_DEVICES")
                names = visible.split(",") if visible else [str(i) for i in range(gpus)]
                environment["CUDA_VISIBLE_DEVICES"] = names[place % len(names)]
            running.append(subprocess.Popen([sys.executable, *command_line], env=environment))
        for process in running:
            if process.wait():
                click.echo(f"exit code {process.returncode}: {process.args}", err=True)
        return [line for line, process in zip(commands, running, strict=True) if process.returncode]
    finally:
        for process in running:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
        for process in running:
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()


def _pack(folder: Path, out: Path, seconds: dict) -> None:
    """Everything that is to come back, in one file; drafters and answers stay."""
    log = folder / "seconds.jsonl"
    with log.open("a") as file:
        file.write(json.dumps(seconds) + "\n")
    with atomic_write(out / "drafters.tar") as file, tarfile.open(fileobj=file, mode="w") as tar:
        for path in sorted([*folder.glob("*.json*"), *folder.glob("*/*.json*")]):
            if path.parent.name in ("target", "toy"):
                continue
            tar.add(path, path.relative_to(folder))


if __name__ == "__main__":
    command()
