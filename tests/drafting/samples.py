"""Tiny random targets and drafters, in float64 so that equalities are equalities."""

from __future__ import annotations

from pathlib import Path

import torch

from workbench.drafting.config import DrafterConfig, TargetConfig
from workbench.drafting.dspark import Drafter
from workbench.drafting.layers import initialise
from workbench.drafting.target import Target

TEMPLATE = "{% for m in messages %}<|user|>{{ m['content'] }}{{ eos_token }}{% endfor %}"
HEADS = ("dflash", "dflash-shifted", "markov", "rnn")


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def tiny_target(seed: int = 0, *, std: float = 0.5, **fields) -> Target:
    shape = {
        "hidden": 16,
        "layers": 2,
        "heads": 4,
        "kv_heads": 2,
        "head_dim": 4,
        "ffn": 24,
        "vocabulary": 11,
        "context": 256,
        "name": "tiny",
    }
    target = Target(TargetConfig(**(shape | fields)))
    initialise(target, seeded(seed), std)
    return target.double().eval().requires_grad_(False)


def tiny_drafter(
    target: Target, head: str = "markov", seed: int = 1, *, std: float = 0.5, **fields
) -> Drafter:
    config = target.config
    shape = {
        "hidden": config.hidden,
        "layers": 2,
        "heads": 4,
        "kv_heads": 2,
        "head_dim": 4,
        "ffn": 24,
        "vocabulary": config.vocabulary,
        "qk_norm": True,
        "block_size": 3,
        "target_layer_ids": (0, 1),
        "mask_token_id": config.vocabulary - 1,
        "anchor_predicts": head != "dflash-shifted",
    }
    if head in ("markov", "rnn"):
        shape |= {
            "markov_rank": 5,
            "markov_head_type": "rnn" if head == "rnn" else "vanilla",
            "enable_confidence_head": True,
            "confidence_head_with_markov": True,
        }
    drafter = Drafter(DrafterConfig(**(shape | fields)), target, seeded(seed)).double().eval()
    for part in drafter.modules():
        if hasattr(part, "weight") and part.weight.ndim == 2:
            part.weight.data *= std / 0.02
    return drafter


def save_tokenizer(folder: Path) -> None:
    """A tokenizer of the 256 bytes and two special tokens, in the layout of Hugging Face."""
    import tokenizers

    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    names = {letter: i for i, letter in enumerate([*letters, "<|user|>", "<|end|>"])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=names, merges=[]))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|user|>", "<|end|>"])
    tokenizer.save(str(folder / "tokenizer.json"))
