import pytest

from gpu_probe import compare

DOCUMENT = {
    "target": {"name": "Qwen3-8B", "layers": 36},
    "hardware": {"gpu": "NVIDIA H200"},
    "drafter": {"kind": "dspark", "block_size": 7},
    "verify": {"batch_tokens": [1, 8], "seconds": [0.004, 0.005]},
    "graphs": {
        "batch_tokens": [1, 8],
        "beyond": {"batch_tokens": [64, 2048], "seconds": [0.01, 0.05]},
    },
    "attention": {
        "requests": [1, 8],
        "context_tokens": [16, 1024],
        "seconds": [[0.0, 0.001], [0.0, 0.008]],
    },
    "draft": {"requests": [1, 8], "tokens": [7], "seconds": [[0.001], [0.002]]},
}


def measured(*cells):
    return {
        "streamed_weight_bytes": 8e9,
        "target_kv_bytes": 1e5,
        "copy_bandwidth": 4e12,
        "verify_whole": {"context_tokens": [16, 64], "seconds": [[0.004, 0.005]] * 2},
        "whole_steps": list(cells),
    }


def cell(requests, seconds, context=1024):
    at = {"requests": requests, "query_tokens": 1, "context_tokens": context}
    return {**at, "seconds": seconds}


def test_ratios_of_a_made_up_run():
    found = compare.ratios(DOCUMENT, measured(cell(1, 0.005), cell(8, 0.010)))
    assert found["ratio_to_floor"] == pytest.approx(2.0)
    assert [c["tables_ratio"] for c in found["whole_steps"]] == pytest.approx([1.0, 1.3])
    floor = (8e9 + 8 * 1024 * 1e5) / 4e12
    assert found["whole_steps"][1]["ratio_to_floor"] == pytest.approx(0.010 / floor, abs=1e-4)
    rows = {(r["arm"], r["requests"]): r["ratio"] for r in found["vllm_ratio"]}
    assert rows["no drafts", 1] == pytest.approx(5 / 5.2039, abs=1e-4)
    assert rows["dspark 7", 1] == pytest.approx((5 + 1 + 1) / 6.8603, abs=1e-4)


def test_no_comparison_for_another_card():
    other = {**DOCUMENT, "hardware": {"gpu": "cpu"}}
    assert "vllm_ratio" not in compare.ratios(other, measured(cell(1, 0.004, 16)))
