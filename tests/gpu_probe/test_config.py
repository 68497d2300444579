"""Hugging Face configs: what they give, and what is refused."""

import json

import pytest

from gpu_probe.config import from_config
from gpu_probe.errors import ProbeError
from gpu_probe.shapes import MODELS

CONFIG = {
    "num_hidden_layers": 36, "hidden_size": 4096, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 12288, "vocab_size": 151936,
    "rope_theta": 1000000, "rms_norm_eps": 1e-6, "tie_word_embeddings": False,
}  # fmt: skip


def test_a_config_gives_the_built_in_shape(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**CONFIG, "_name_or_path": "Qwen3-8B"}))
    assert from_config(path) == MODELS["qwen3-8b"]


def test_a_config_of_experts(tmp_path):
    path = tmp_path / "config.json"
    experts = {"num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768}
    path.write_text(json.dumps({**CONFIG, **experts}))
    shape = from_config(path)
    assert (shape.experts, shape.active, shape.mlp) == (128, 8, 768)
    assert shape.name == tmp_path.name


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"vocab_size": None}, "vocab_size is missing"),
        ({"vocab_size": -1}, "vocab_size is -1, no whole number"),
        ({"head_dim": 80}, "a head of 16, 32, 64"),
        ({"head_dim": 512}, "a head of 16, 32, 64"),
        ({"num_key_value_heads": 5}, "whole query groups"),
        ({"num_key_value_heads": 0}, "num_key_value_heads is 0"),
        ({"hidden_size": 0}, "hidden_size is 0"),
        ({"hidden_size": 64.7}, "hidden_size is 64.7"),
        ({"rope_theta": -1}, "rope_theta is -1, no positive number"),
        ({"rms_norm_eps": float("nan")}, "rms_norm_eps is nan"),
        ({"tie_word_embeddings": "false"}, "neither true nor false"),
        ({"num_experts": 4}, "num_experts_per_tok is missing"),
        ({"num_experts": 4, "num_experts_per_tok": 5}, "5 of 4 experts"),
        ({"num_experts": -4, "num_experts_per_tok": 1}, "num_experts is -4"),
        ({"kv_lora_rank": 512}, "latent attention is not built"),
        ({"n_routed_experts": 64}, "shared ones and dense layers are not built"),
        ({"text_config": {"hidden_size": 64}}, "several parts"),
    ],
)
def test_a_config_that_cannot_be_built_is_refused(tmp_path, change, said):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**CONFIG, **change}))
    with pytest.raises(ProbeError, match=said):
        from_config(path)


def test_a_config_without_layers_names_the_field(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({k: v for k, v in CONFIG.items() if k != "num_hidden_layers"}))
    with pytest.raises(ProbeError, match="num_hidden_layers is missing"):
        from_config(path)


@pytest.mark.parametrize(
    ("file", "own", "name"),
    [
        ("config.json", None, "folder"),
        ("small.json", None, "small"),
        ("config.json", "Qwen/Qwen3-8B", "Qwen3-8B"),
    ],
)
def test_a_config_is_named_by_itself_its_file_or_its_folder(tmp_path, file, own, name):
    path = tmp_path / "folder" / file
    path.parent.mkdir()
    path.write_text(json.dumps({**CONFIG, "_name_or_path": own}))
    assert from_config(path).name == name


@pytest.mark.parametrize("text", ["", "[]", "null", "{", "[" * 100_000, "\xff"])
def test_a_file_that_is_no_config_is_one_error(tmp_path, text):
    path = tmp_path / "config.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ProbeError, match=r"config\.json"):
        from_config(path)


def test_a_name_is_fit_for_a_file(tmp_path):
    path = tmp_path / "config.json"
    for own, name in (("../../evil", "evil"), ("a\nb c", "a-b-c"), ("x" * 300, "x" * 80)):
        path.write_text(json.dumps({**CONFIG, "_name_or_path": own}))
        assert from_config(path).name == name
