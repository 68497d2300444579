"""Which stages there are, what each runs on which GPU, and how commands agree on settings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from benchmarks.drafters.settings import HEADS, RECORDED, RUNNING, SPECS, read_settings

STAGES = ("target", "generate", "train", "outputs", "record", "traces", "check", "summary")
NEEDED = ("target", "generate", "train")  # nothing can follow where one of these fails
MODULE = "benchmarks.drafters.task"
# of ``workbench train``; more can be given
TRAIN = ["--optimiser", "muon", "--dtype", "bfloat16", "--sequences", "64", "--anchors", "64",
         "--save-seconds", "30"]  # fmt: skip
TOY_TRAIN = ["--layers", "1", "--block-size", "3", "--markov-rank", "4", "--sequences", "4",
             "--anchors", "4"]  # fmt: skip


def described(folder: Path, toy: bool, options: dict) -> Path:
    """Settings of the run as a file that its processes read."""
    path = folder / "settings.json"
    fields = {name: str(v) if isinstance(v, Path) else v for name, v in options.items()}
    fields |= {"folder": str(folder), "toy": toy}
    if toy:
        fields |= {"new_tokens": 24, "answer_tokens": 24, "prompt_tokens": 64}
        fields |= {
            "minutes_train": 0.02,
            "prompts": f"{folder}/prompts.gz",
            "training": f"{folder}/prompts.gz",
        }
    path.write_text(json.dumps(fields))
    return path


class Run:
    """The commands of one run."""

    def __init__(
        self, folder: Path, settings: Path, drafters: list[str], train: list[str], gpus: int
    ):
        """drafters: those to train; train: more options of ``workbench train``."""
        self.folder, self.settings, self.gpus = folder, settings, gpus
        self.options = read_settings(settings)
        self.toy, self.drafters, self.train = self.options.toy, drafters, train

    def together(self, stages: list[str]) -> Iterator[list[str]]:
        """Stages that one round of processes does: on one GPU as many as possible."""
        group: list[str] = []
        for stage in stages:
            own = stage in ("target", "generate", "train") or self.gpus > 1
            if own and group:
                yield group
                group = []
            group.append(stage)
            if own:
                yield group
                group = []
        if group:
            yield group

    def rounds(self, stages: list[str]) -> list[list[list[str]]]:
        """Rounds of commands; those of a round run side by side."""
        if stages == ["generate"]:
            if all((self.folder / kind / "done").is_file() for kind in HEADS):
                return []
            parts = range(1, self.gpus + 1)
            return [[self._train("dspark", "--part", f"{i}/{self.gpus}") for i in parts]]
        if stages == ["train"]:
            left = [kind for kind in self.drafters if not (self.folder / kind / "done").is_file()]
            return [
                [self._train(kind, "--minutes", str(self.options.minutes_train)) for kind in some]
                for some in _chunks(left, self.gpus)
            ]
        tasks = [task for stage in stages for task in self.tasks(stage)]
        dealt = [tasks[place :: self.gpus] for place in range(self.gpus)]
        return [[["-m", MODULE, str(self.settings), *mine] for mine in dealt if mine]]

    def note(self, stages: list[str], commands: list[list[str]]) -> None:
        """``commands`` of a round went well: a drafter is trained once."""
        if stages == ["train"]:
            for line in commands:
                Path(line[line.index("--out") + 1], "done").touch()

    def tasks(self, stage: str) -> list[str]:
        """What ``task`` does of a stage."""
        return {
            "target": ["target"],
            "outputs": [f"outputs:{t:g}" for t in sorted({t for _, t in RECORDED})],
            "record": [f"record:{kind}:{t:g}" for kind, t in RECORDED],
            "traces": ["traces"],
            "check": [
                "greedy",
                "latency",
                *(f"live:{spec.replace(':', '=')}:{r}" for r in RUNNING[::-1] for spec in SPECS),
            ],
            "summary": ["summary"],
        }[stage]

    def _train(self, kind: str, *more: str) -> list[str]:
        settings, mine = self.options, self.folder / kind
        mine.mkdir(exist_ok=True)
        shared = self.folder / "answers"
        shared.mkdir(exist_ok=True)
        if not (mine / "answers").exists():
            (mine / "answers").symlink_to(shared.resolve())
        options = {
            "--target": self.folder / "target", "--prompts": settings.training, "--out": mine,
            "--head": HEADS[kind], "--samples": settings.samples,
            "--max-new-tokens": settings.answer_tokens, "--limit": settings.training_prompts,
            "--max-running": 8 if self.toy else 4096,
            "--max-prompt-tokens": None if self.toy else 256,
        }  # fmt: skip
        given = [str(x) for pair in options.items() if pair[1] is not None for x in pair]
        extra = [*(TOY_TRAIN if self.toy else TRAIN), *self.train, "--resume", *more]
        return ["-m", "workbench.cli.main", "train", *given, *extra]


def _chunks(items: list, size: int) -> list[list]:
    return [items[first : first + size] for first in range(0, len(items), size)]
