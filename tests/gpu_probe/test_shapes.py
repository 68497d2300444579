import pytest

from gpu_probe.shapes import MODELS


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
