"""The shape that a Hugging Face ``config.json`` describes, or why it cannot be built."""

from __future__ import annotations

import json
import re
from pathlib import Path

from gpu_probe.errors import ProbeError
from gpu_probe.shapes import ModelShape

LARGEST_HEAD = 256  # of torch's flash attention
# fields whose models would be measured wrong without a word
_NOT_BUILT = {
    "kv_lora_rank": "multi-head latent attention is not built here",
    "n_routed_experts": "experts beside shared ones and dense layers are not built here",
    "n_shared_experts": "shared experts are not built here",
    "shared_expert_intermediate_size": "shared experts are not built here",
    "mlp_only_layers": "dense layers among those with experts are not built here",
    "text_config": "a model of several parts; give that part's fields as a file of their own",
}


def _name(config: dict, path: Path) -> str:
    """The model's own name, else the file's, or its folder's where the file is called config.

    It becomes a part of file names.
    """
    own = str(config.get("_name_or_path") or "").rstrip("/").rpartition("/")[2]
    path = path.absolute()
    name = own or (path.parent.name if path.stem == "config" else path.stem)
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")[:80] or "model"


class _Fields:
    """Fields of a config, each of its own type. Raises ProbeError naming the field."""

    def __init__(self, path: Path):
        self.path = path
        try:
            self.all = json.loads(path.read_text(encoding="utf-8-sig"))
        except (OSError, ValueError, RecursionError) as error:
            raise ProbeError(f"--model: {path} is no readable config.json: {error}") from error
        if not isinstance(self.all, dict):
            raise ProbeError(f"--model: {path} is no config.json: it holds no fields")

    def fail(self, field: str, said: str) -> ProbeError:
        return ProbeError(f"--model: {self.path}: {field} {said}")

    def count(self, field: str, default: int | None = None) -> int:
        """A whole number of at least 1; ``default`` where the field is absent or null."""
        value = self.all.get(field)
        if value is None:
            if default is None:
                raise self.fail(field, "is missing")
            return default
        if type(value) is not int or value < 1:
            raise self.fail(field, f"is {value!r}, no whole number of 1 or more")
        return value

    def positive(self, field: str, default: float) -> float:
        value = self.all.get(field)
        value = default if value is None else value
        if type(value) not in (int, float) or not 0 < value < 1e18:
            raise self.fail(field, f"is {value!r}, no positive number")
        return float(value)

    def switch(self, field: str) -> bool:
        value = self.all.get(field)
        if value not in (None, True, False):
            raise self.fail(field, f"is {value!r}, neither true nor false")
        return bool(value)


def from_config(path: Path) -> ModelShape:
    """The shape of a ``config.json``. Raises ProbeError naming what is missing or wrong."""
    fields = _Fields(path)
    for field, what in _NOT_BUILT.items():
        if fields.all.get(field):
            raise fields.fail(field, f"is given: {what}")
    hidden, heads = fields.count("hidden_size"), fields.count("num_attention_heads")
    names = ("num_experts", "num_local_experts")
    given = [name for name in names if fields.all.get(name) not in (None, 0)]
    experts = fields.count(given[0]) if given else 0
    active = fields.count("num_experts_per_tok") if experts else 0
    if active > experts:
        raise fields.fail("num_experts_per_tok", f"is {active} of {experts} experts")
    width = fields.count("moe_intermediate_size", 0) if experts else 0
    shape = ModelShape(
        name=_name(fields.all, path),
        layers=fields.count("num_hidden_layers"),
        hidden=hidden,
        heads=heads,
        kv_heads=fields.count("num_key_value_heads", heads),
        head=fields.count("head_dim", max(1, hidden // heads)),
        mlp=width or fields.count("intermediate_size"),
        vocabulary=fields.count("vocab_size"),
        rope_theta=fields.positive("rope_theta", 1e4),
        norm_eps=fields.positive("rms_norm_eps", 1e-6),
        experts=experts,
        active=active,
        tied=fields.switch("tie_word_embeddings"),
    )
    power_of_two = shape.head & (shape.head - 1) == 0
    if shape.heads % shape.kv_heads or not power_of_two or not 16 <= shape.head <= LARGEST_HEAD:
        raise ProbeError(
            f"--model: {path}: the kernels need whole query groups and a head of 16, 32, 64, 128 "
            "or 256"
        )
    return shape
