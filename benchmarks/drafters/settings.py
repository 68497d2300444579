"""What a run is made of; no PyTorch."""

from __future__ import annotations

from pathlib import Path

import msgspec

DOMAINS = ("math", "code", "chat")
HEADS = {"dspark": "markov", "dflash": "dflash"}
# drafter, temperature: what is recorded of every domain
RECORDED = (("dspark", 1.0), ("dflash", 1.0), ("dspark", 0.6), ("dspark", 0.0))
RUNNING = (1, 8, 64)  # R of live decoding
# accepted lengths of the first prototype by domain, by replay at temperature 1
TO_BEAT = {"dspark": (2.49, 2.33, 2.11), "dflash": (2.16, 2.17, 1.92)}
SPECS = ("static:2", "static:γ", "threshold:0.5", "greedy", "topk")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Of one run; commands that share ``folder`` have to agree on them."""

    folder: str
    target: str | None = None  # a .gguf
    prompts: str  # for evaluation
    training: str
    training_prompts: int | None = None  # the first so many
    samples: int = 1  # answers per training prompt
    answer_tokens: int = 512
    minutes_train: float = 4.5  # per drafter
    prompt_tokens: int = 512  # longer evaluation prompts are left out
    new_tokens: int = 256  # of an evaluation output
    decoded: int | None = None  # evaluation prompts of a check, per domain
    trace_bytes: int = 740_000  # of a shipped trace file
    seed: int = 0
    toy: bool = False

    @property
    def model(self) -> Path:
        """The target's folder."""
        return Path(self.folder, "target")


def read_settings(path: Path) -> Settings:
    """What a command wrote for its processes."""
    return msgspec.json.decode(path.read_bytes(), type=Settings)


def trace_name(domain: str, kind: str, temperature: float) -> str:
    """``math``, ``math-dflash``, ``math-t0.6``: the shipped names."""
    name = domain + ("" if kind == "dspark" else f"-{kind}")
    return name if temperature == 1 else f"{name}-t{temperature:g}"
