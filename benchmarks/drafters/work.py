"""What all stages share: the folder they keep their results in, models, prompts and outputs."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import msgspec
import numpy as np
import torch

from benchmarks.drafters.settings import DOMAINS, Settings
from workbench.drafting.checkpoints import load_drafter
from workbench.drafting.config import DrafterConfig, drafter_config, read_config
from workbench.drafting.data import read_sequences, write_sequences
from workbench.drafting.dspark import Drafter
from workbench.drafting.generate import generate, random_choices
from workbench.drafting.models import choose_device, load_model
from workbench.drafting.prompts import Prompt, read_prompts
from workbench.drafting.recording import outputs_of
from workbench.drafting.sampling import Choices
from workbench.files import atomic_write


class Work:
    """Loads what a stage needs once per process."""

    def __init__(self, settings: Settings):
        self.settings, self.folder = settings, Path(settings.folder)
        self.device = choose_device("cpu" if settings.toy else "auto")
        # recording and live decoding in TF32; the check of equal text turns it off
        torch.set_float32_matmul_precision("high")

    @cached_property
    def model(self):
        """Target in float32, and its tokenizer."""
        return load_model(self.settings.model, self.device.type, "float32")

    @property
    def target(self):
        return self.model[0]

    def drafter(self, kind: str, dtype: torch.dtype | None = None) -> Drafter:
        """``dspark`` or ``dflash`` as it was trained."""
        return load_drafter(self.folder / kind, self.target, dtype)

    def drafter_config(self, kind: str) -> DrafterConfig:
        """Its shapes alone."""
        path = self.folder / kind / "config.json"
        return drafter_config(read_config(path), path)

    @cached_property
    def prompts(self) -> list[tuple[Prompt, list[int]]]:
        """Evaluation prompts and their tokens, in an order that mixes benchmarks, by domain."""
        mixed = []
        for domain in DOMAINS:
            pairs = [(p, self.model[1].chat([p.text])) for p in read_prompts(
                self.settings.prompts, domain)]  # fmt: skip
            fits = [pair for pair in pairs if len(pair[1]) <= self.settings.prompt_tokens]
            order = np.random.default_rng(self.settings.seed).permutation(len(fits))
            mixed += [fits[i] for i in order]
        return mixed

    @cached_property
    def checked(self) -> list[int]:
        """Indices into ``prompts`` of those that are decoded live, none of the longest."""
        chosen, most = [], self.settings.prompt_tokens // 2
        for domain in DOMAINS:
            mine = [
                i
                for i, (p, tokens) in enumerate(self.prompts)
                if p.domain == domain and len(tokens) <= most
            ]
            chosen += mine[: self.settings.decoded]
        return chosen

    def choices(self, *seed: int) -> Choices:
        """Random choices that follow the run's seed and ``seed``."""
        return random_choices(np.random.default_rng((self.settings.seed, *seed)), self.device)

    def outputs(self, temperature: float) -> list[list[int]]:
        """The target's output to every evaluation prompt, written once and the same for all."""
        path = self.folder / f"outputs-{temperature:g}.safetensors"
        if not path.is_file():
            asked = [tokens for _, tokens in self.prompts]
            written = generate(
                self.target,
                asked,
                self.choices(round(1000 * temperature)),
                temperature=temperature,
                max_new_tokens=self.settings.new_tokens,
                max_running=min(len(asked), 2048),
            )
            write_sequences(path, written)
        return outputs_of(read_sequences(path))

    def save(self, name: str, document: object) -> None:
        """Keep a stage's figures as ``NAME.json``."""
        with atomic_write(self.folder / f"{name}.json") as file:
            file.write(msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n")

    def load(self, name: str) -> dict:
        """What ``save`` kept."""
        return msgspec.json.decode((self.folder / f"{name}.json").read_bytes())
