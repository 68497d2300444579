"""The target as a Hugging Face folder: a GGUF dequantised once, or a tiny random one for a try."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import gguf
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from workbench.drafting.checkpoints import write_tensors
from workbench.drafting.config import TargetConfig
from workbench.drafting.gguf_weights import load_target, load_text
from workbench.drafting.layers import initialise
from workbench.drafting.target import Target

TOY_TEMPLATE = "{% for m in messages %}<|user|>{{ m['content'] }}{{ eos_token }}{% endfor %}"


def dequantise(path: Path, folder: Path) -> None:
    """Write ``folder`` from a GGUF file; its config.json comes last."""
    target, text = load_target(path), load_text(path)
    template = gguf.GGUFReader(path).get_field("tokenizer.chat_template")
    _write(folder, target, text.tokenizer, template.contents(), {})


def toy(folder: Path, prompts: Path) -> None:
    """Write a tiny random target and sums to do, for a run of seconds."""
    config = TargetConfig(
        hidden=16, layers=2, heads=4, kv_heads=2, head_dim=4, ffn=24, vocabulary=258,
        context=256, eos=(257,), name="toy",
    )  # fmt: skip
    target = Target(config)
    initialise(target, torch.Generator().manual_seed(3), 0.25)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    names = {letter: i for i, letter in enumerate([*letters, "<|user|>", "<|end|>"])}
    tokenizer = Tokenizer(models.BPE(vocab=names, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|user|>", "<|end|>"])
    _write(folder, target, tokenizer, TOY_TEMPLATE, {"eos_token": {"content": "<|end|>"}})
    lines = [
        json.dumps({"id": f"{domain}-{i}", "domain": domain, "prompt": f"{domain} {i}?"})
        for domain in ("math", "code", "chat")
        for i in range(12)
    ]
    with gzip.open(prompts, "wt") as file:
        file.write("\n".join(lines))


def _write(folder: Path, target: Target, tokenizer: Tokenizer, template: str, more: dict) -> None:
    config = target.config
    folder.mkdir(parents=True, exist_ok=True)
    state = {f"model.{name}": tensor for name, tensor in target.state_dict().items()}
    write_tensors(folder / "model.safetensors", state)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"chat_template": template} | more
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    described = {
        "_name_or_path": config.name.partition(".")[0],
        "model_type": "qwen3" if config.qk_norm else "llama",
        "hidden_size": config.hidden,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_dim,
        "intermediate_size": config.ffn,
        "vocab_size": config.vocabulary,
        "rope_theta": config.rope_theta,
        "rms_norm_eps": config.rms_eps,
        "tie_word_embeddings": config.tied,
        "max_position_embeddings": config.context,
        "eos_token_id": list(config.eos),
    }
    (folder / "config.json").write_text(json.dumps(described))
