import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_probe import compare

DOCUMENT = {
    "target": {"name": "Qwen3-8B"},
    "hardware": {"gpu": "NVIDIA H200"},
    "drafter": {"kind": "dspark", "block_size": 7},
    "verify": {"batch_tokens": [1, 8, 9, 16], "seconds": [0.004, 0.005, 0.008, 0.009]},
    "graphs": {"batch_tokens": [1, 8, 16]},
    "attention": {
        "requests": [1, 8],
        "context_tokens": [16, 1024],
        "seconds": [[0.0, 0.001], [0.0, 0.008]],
    },
    "draft": {"requests": [1, 8], "tokens": [7], "seconds": [[0.001], [0.002]]},
}


@given(st.floats(-5, 50))
def test_lookup_of_a_line_is_the_line_held_at_its_ends(x):
    assert compare.lookup([0, 10, 30], [1.0, 21.0, 61.0], x) == pytest.approx(
        1 + 2 * min(max(x, 0), 30)
    )


def test_a_step_runs_at_the_captured_size_above_it():
    assert compare.predicted(DOCUMENT, 9, 1, 16) == pytest.approx(0.009)  # not 0.008: padded to 16
    assert compare.predicted(DOCUMENT, 1, 7, 520) == pytest.approx(0.005 + 0.0005)
    assert compare.predicted(DOCUMENT, 8, 1, 1024) == pytest.approx(0.013)


def test_ratios_of_a_made_up_run():
    measured = {
        "streamed_weight_bytes": 8e9,
        "copy_bandwidth": 4e12,
        "whole_steps": [
            {"requests": 1, "query_tokens": 1, "context_tokens": 1024, "seconds": 0.005},
            {"requests": 8, "query_tokens": 1, "context_tokens": 1024, "seconds": 0.010},
        ],
    }
    result = compare.ratios(DOCUMENT, measured)
    assert result["ratio_to_floor"] == pytest.approx(2.0)
    assert [c["tables_ratio"] for c in measured["whole_steps"]] == pytest.approx([1.0, 1.3])
    assert result["fit_error"] == {"median": 0.3, "max": 0.3}
    rows = {(r["arm"], r["requests"]): r["ratio"] for r in result["vllm_ratio"]}
    assert rows["no drafts", 1] == pytest.approx(5 / 5.2039, abs=1e-4)
    assert rows["dspark 7", 1] == pytest.approx((5 + 1 + 1) / 6.8603, abs=1e-4)


def test_no_comparison_for_another_card():
    other = {**DOCUMENT, "hardware": {"gpu": "cpu"}}
    cell = {"requests": 1, "query_tokens": 1, "context_tokens": 16, "seconds": 0.004}
    measured = {"streamed_weight_bytes": 1e9, "copy_bandwidth": 1e12, "whole_steps": [cell]}
    assert "vllm_ratio" not in compare.ratios(other, measured)
