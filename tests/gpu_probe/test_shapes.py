import json

import pytest

from gpu_probe.errors import ProbeError
from gpu_probe.shapes import MODELS, from_config

CONFIG = {
    "num_hidden_layers": 36, "hidden_size": 4096, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 12288, "vocab_size": 151936,
    "rope_theta": 1000000, "rms_norm_eps": 1e-6, "tie_word_embeddings": False,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("qwen3-8b", 8_190_735_360),
        ("qwen3-4b", 4_022_468_096),
        ("qwen3-0.6b", 596_049_920),
        ("qwen3-14b", 14_768_307_200),
        ("qwen3-30b-a3b", 30_532_122_624),
    ],
)
def test_the_published_parameter_counts(name, parameters):
    assert MODELS[name].parameters == parameters


def test_kv_bytes_per_token():
    shape = MODELS["qwen3-8b"]
    assert shape.kv_bytes() == 36 * 2 * 8 * 128 * 2 == 147_456
    assert shape.kv_bytes(layers=41) == 147_456 + 5 * 4_096


def test_a_shard_holds_an_eighth_of_the_matrices():
    shard = MODELS["llama-3.1-70b-tp8"]
    assert shard.gpus == 8
    assert 8 * shard.parameters == pytest.approx(70.55e9, rel=0.01)


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
        ({"vocab_size": None}, "no readable config.json"),
        ({"head_dim": 80}, "a head of 16, 32, 64"),
        ({"num_key_value_heads": 5}, "whole query groups"),
        ({"hidden_size": 0}, "a dimension below 1"),
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
    with pytest.raises(ProbeError, match="has no num_hidden_layers"):
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
