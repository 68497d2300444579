from gpu_probe.shapes import MODELS


def test_qwen3_8b_has_its_published_parameter_count():
    assert MODELS["qwen3-8b"].parameters == 8_190_735_360


def test_kv_bytes_per_token():
    shape = MODELS["qwen3-8b"]
    assert shape.kv_bytes() == 36 * 2 * 8 * 128 * 2 == 147_456
    assert shape.kv_bytes(layers=41) == 147_456 + 5 * 4_096
