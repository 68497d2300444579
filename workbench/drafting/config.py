"""Shapes of a target and of a drafter, read from a ``config.json`` in Hugging Face's terms."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from workbench.errors import InputError

MODEL_TYPES = {"llama": False, "qwen3": True}  # model_type → whether queries and keys are normed
HEAD_TYPES = ("vanilla", "rnn")  # DeepSpec's names; "vanilla" is the Markov head
SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size",
         "intermediate_size", "num_key_value_heads", "head_dim")  # fmt: skip


class BlockConfig(msgspec.Struct, kw_only=True, frozen=True):
    """What the layers of target and drafter have in common."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocabulary: int
    rope_theta: float = 10_000.0
    rms_eps: float = 1e-6
    qk_norm: bool = False  # Qwen3: RMSNorm over each head's query and key


class TargetConfig(BlockConfig, kw_only=True, frozen=True):
    """A Llama- or Qwen3-family decoder."""

    name: str = ""
    tied: bool = True  # the output head is the embedding
    context: int = 2048  # longest sequence, tokens
    eos: tuple[int, ...] = ()  # tokens that end an output


class DrafterConfig(BlockConfig, kw_only=True, frozen=True):
    """A DFlash or DSpark drafter; field names of DeepSpec where there is one."""

    block_size: int  # γ, drafts per round
    target_layer_ids: tuple[int, ...]  # outputs of these layers; −1: of the embedding
    mask_token_id: int
    anchor_predicts: bool = True  # DSpark: γ inputs, the anchor predicts first; DFlash: 1 + γ
    markov_rank: int = 0  # r; 0: no sequential head (DFlash)
    markov_head_type: str = "vanilla"
    enable_confidence_head: bool = False
    confidence_head_with_markov: bool = False  # the head sees W1[x_{k−1}] beside h_k

    @property
    def inputs(self) -> int:
        """Query tokens of a draft pass per request."""
        return self.block_size + (not self.anchor_predicts)

    @property
    def kind(self) -> str:
        """``dflash``, ``dspark-markov`` or ``dspark-rnn``."""
        if not self.markov_rank:
            return "dflash"
        return "dspark-rnn" if self.markov_head_type == "rnn" else "dspark-markov"

    @property
    def confidence_sees(self) -> str:
        """``prefix`` with a confidence head, else ``token``: the drafter's chance of its choice."""
        return "prefix" if self.enable_confidence_head else "token"


def read_config(path: str | os.PathLike) -> dict:
    """The object in a ``config.json``. Raises InputError naming the file."""
    try:
        raw = msgspec.json.decode(Path(path).read_bytes())
    except OSError as error:
        raise InputError(
            f"cannot be read ({error.strerror})", file=path, mend="give a model's folder"
        ) from error
    except msgspec.DecodeError as error:
        raise InputError(f"is no JSON ({error})", file=path, mend="restore the file") from error
    if not isinstance(raw, dict):
        raise InputError("is no object", file=path, mend="restore the file")
    return raw


def target_config(raw: dict, file: str | os.PathLike) -> TargetConfig:
    """The target that a Hugging Face ``config.json`` describes.

    Raises InputError for another family, a scaled RoPE or biased projections.
    """
    if raw.get("model_type") not in MODEL_TYPES:
        raise InputError(
            f"is a {raw.get('model_type')!r} model",
            file=file,
            place="model_type",
            mend=f"supported are {', '.join(MODEL_TYPES)}",
        )
    eos = raw.get("eos_token_id")
    return _convert(
        TargetConfig,
        _blocks(raw, file)
        | {
            "name": str(raw.get("_name_or_path") or Path(file).resolve().parent.name),
            "tied": raw.get("tie_word_embeddings", False),
            "context": raw.get("max_position_embeddings", 2048),
            "eos": [] if eos is None else eos if isinstance(eos, list) else [eos],
        },
        file,
    )


def drafter_config(raw: dict, file: str | os.PathLike) -> DrafterConfig:
    """The drafter that a ``config.json`` describes.

    DeepSpec's Qwen3DSparkModel (DFlash there has ``markov_rank`` 0, and the anchor predicts) or
    DFlash's own DFlashDraftModel (``dflash_config``; its block counts the anchor, which predicts
    nothing). Raises InputError for anything else.
    """
    nested = raw.get("dflash_config") or {}
    fields = nested | raw if isinstance(nested, dict) else raw
    architecture = next(iter(raw.get("architectures") or []), None)
    for name in ("block_size", "mask_token_id", "target_layer_ids"):
        if name not in fields:
            raise InputError(
                "is no drafter's configuration: the field is missing",
                file=file,
                place=name,
                mend="give a DFlash or DSpark checkpoint",
            )
    _check_whole("block_size", fields["block_size"], 1, file)
    rank = fields.get("markov_rank") or 0
    _check_whole("markov_rank", rank, 0, file)
    head = fields.get("markov_head_type") or "vanilla"
    if rank and head not in HEAD_TYPES:
        raise InputError(
            f"head {head!r} is not supported",
            file=file,
            place="markov_head_type",
            mend=f"supported are {', '.join(HEAD_TYPES)}",
        )
    original = architecture == "DFlashDraftModel" and not rank
    confident = bool(fields.get("enable_confidence_head", False))
    return _convert(
        DrafterConfig,
        _blocks(raw, file)
        | {
            "block_size": fields["block_size"] - original,
            "target_layer_ids": fields["target_layer_ids"],
            "mask_token_id": fields["mask_token_id"],
            "anchor_predicts": not original,
            "markov_rank": rank,
            "markov_head_type": head,
            "enable_confidence_head": confident,
            "confidence_head_with_markov": confident
            and bool(fields.get("confidence_head_with_markov", False)),
        },
        file,
    )


def drafter_json(config: DrafterConfig, target: TargetConfig) -> dict:
    """``config.json`` of a drafter in the layout that ``drafter_config`` reads."""
    return {
        "architectures": ["Qwen3DSparkModel" if config.anchor_predicts else "DFlashDraftModel"],
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
        "tie_word_embeddings": False,
        "block_size": config.block_size + (not config.anchor_predicts),
        "mask_token_id": config.mask_token_id,
        "target_layer_ids": list(config.target_layer_ids),
        "num_target_layers": target.layers,
        "target_model": target.name,
        "markov_rank": config.markov_rank,
        "markov_head_type": config.markov_head_type,
        "enable_confidence_head": config.enable_confidence_head,
        "confidence_head_with_markov": config.confidence_head_with_markov,
    }


def _blocks(raw: dict, file: str | os.PathLike) -> dict:
    rope = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind != "default":
        raise InputError(
            f"RoPE of type {kind!r} is not supported",
            file=file,
            place="rope_parameters",
            mend="only unscaled RoPE is",
        )
    _check_plain(raw, file)
    for name in SIZES:
        # the last two may be left to follow from others
        if name not in SIZES[-2:] or raw.get(name) is not None:
            _check_whole(name, raw.get(name), 1, file)
    heads = raw["num_attention_heads"]
    kv_heads = raw.get("num_key_value_heads") or heads
    if heads % kv_heads:
        raise InputError(
            f"{heads} heads cannot share {kv_heads}",
            file=file,
            place="num_key_value_heads",
            mend="restore the file",
        )
    return {
        "hidden": raw["hidden_size"],
        "layers": raw["num_hidden_layers"],
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": raw.get("head_dim") or raw["hidden_size"] // heads,
        "ffn": raw["intermediate_size"],
        "vocabulary": raw["vocab_size"],
        "rope_theta": raw.get("rope_theta") or rope.get("rope_theta", 10_000.0),
        "rms_eps": raw.get("rms_norm_eps", 1e-6),
        "qk_norm": MODEL_TYPES.get(raw.get("model_type"), False),
    }


def _check_whole(name: str, value: object, least: int, file: str | os.PathLike) -> None:
    if type(value) is not int or value < least:
        problem = f"has to be a whole number of at least {least}"
        raise InputError(problem, file=file, place=name, mend="restore the file")


def _check_plain(raw: dict, file: str | os.PathLike) -> None:
    """Refuse what would load and compute another model."""
    layers = raw.get("layer_types") or []
    for name, other, what in (
        ("attention_bias", raw.get("attention_bias"), "biased projections"),
        ("mlp_bias", raw.get("mlp_bias"), "biased projections"),
        ("hidden_act", raw.get("hidden_act", "silu") != "silu", "activations but silu"),
        ("use_sliding_window", raw.get("use_sliding_window"), "sliding windows"),
        ("layer_types", set(layers) - {"full_attention"}, "layers but full attention"),
    ):
        if other:
            raise InputError(
                f"{what} are not supported", file=file, place=name, mend="give a model without"
            )


def _convert(kind: type, fields: dict, file: str | os.PathLike):
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise InputError(f"{error}", file=file, mend="correct it there") from error
