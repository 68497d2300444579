import json

import pytest

from tests.profiles.samples import V4_FLASH, changed
from workbench.errors import InputError
from workbench.profiles import read_planner_table

ASK = dict(mean_context=1000.0, draft_tokens=7, sync=True)

SGLANG = {
    "sample_batch_tokens": [1, 2, 4, 8],
    "sample_steps_per_sec": [200.0, 125.0, 100.0, 50.0],
    "max_batch_tokens": 512,
}
ADDITIVE = {
    "bias_seconds": 0.011,
    "bs_probes": [1, 8, 64],
    "alpha_seconds": [0.0, 0.0007, 0.004],
    "m_probes": [0, 64, 512],
    "theta_seconds": [0.0, 0.001, 0.009],
}
TRT = {
    "token_counts": [8, 16, 32],
    "step_time_ms": [4.0, 6.0, 10.0],
    "fixed_overhead_ms": 1.0,
    "batch_sizes": [1, 4],
    "batch_overhead_ms": [0.0, 3.0],
    "minimum_predicted_gain": 0.02,
}


@pytest.fixture
def read(tmp_path):
    def write_and_read(table, lookup=None):
        path = tmp_path / "table.json"
        path.write_text(json.dumps(table))
        return read_planner_table(path, lookup)

    return write_and_read


def test_sglang_one_dimensional_is_floor_and_clamped(read):
    belief = read(SGLANG)
    seconds = belief.step_seconds(1, 0, 9, **ASK)
    assert seconds.tolist() == [0.005, 0.008, 0.008, 0.01, 0.01, 0.01, 0.01, 0.02, 0.02, 0.02]
    assert belief.kind == "SGLang 1-D SPS table" and belief.warnings == []
    # whole steps by R + drafts: neither prefill nor anything else is added
    assert belief.step_seconds(1, 500, 9, **ASK, prefill_other=1.0).tolist() == seconds.tolist()


def test_lookup_can_be_replaced(read):
    assert read(SGLANG, "linear").step_seconds(3, 0, 0, **ASK)[0] == pytest.approx(0.009)
    assert read(SGLANG, "ceil").step_seconds(3, 0, 0, **ASK)[0] == 0.01
    assert read(SGLANG, "linear").step_seconds(99, 0, 0, **ASK)[0] == 0.02  # still clamped
    with pytest.raises(InputError, match="no lookup rule 'near'"):
        read(SGLANG, "near")


def test_sglang_additive(read):
    belief = read(ADDITIVE)
    seconds = belief.step_seconds(8, 0, 56, **ASK)
    assert seconds[0] == pytest.approx(0.011 + 0.0007 + 0.001 / 8)
    assert seconds[56] == pytest.approx(0.011 + 0.0007 + 0.001)
    # both terms are clamped
    assert belief.step_seconds(600, 0, 0, **ASK)[0] == pytest.approx(0.011 + 0.004 + 0.009)


def test_trt_legacy(read):
    belief = read(TRT)
    seconds = belief.step_seconds(2, 0, 30, **ASK)
    assert seconds[[0, 6, 10, 30]] == pytest.approx([0.006, 0.006, 0.007, 0.012])
    assert belief.step_seconds(40, 0, 0, **ASK)[0] == pytest.approx(0.014)
    assert belief.minimum_predicted_gain == 0.02
    least = read({"token_counts": [8, 16], "step_time_ms": [4.0, 6.0]})
    assert least.minimum_predicted_gain == 0.01
    assert least.step_seconds(12, 0, 0, **ASK)[0] == pytest.approx(0.005)


def test_a_profile_is_read_with_its_own_rule():
    belief = read_planner_table(V4_FLASH)
    assert belief.by_batch.rule == "linear" and belief.source == str(V4_FLASH)
    ceil = read_planner_table(V4_FLASH, "ceil").step_seconds(256, 0, 1, **ASK)
    assert ceil * 1e3 == pytest.approx([11.51 + 5.38, 12.52 + 5.38])


@pytest.mark.parametrize(
    ("table", "path", "value", "warning"),
    [
        (SGLANG, "sample_steps_per_sec", [1.0] * 4, "flat table"),
        (SGLANG, "sample_steps_per_sec.3", 101.0, "8 batch tokens are priced below 4 (1 such"),
        (ADDITIVE, "theta_seconds", [0.0] * 3, "flat table"),
        (TRT, "step_time_ms", [2.0] * 3, "flat table"),
        (TRT, "step_time_ms.1", 3.0, "16 batch tokens are priced below 8"),
    ],
)
def test_warnings(read, table, path, value, warning):
    [found] = read(changed(table, path, value)).warnings
    assert warning in found
    assert read(table).warnings == []


def test_sglangs_uninitialised_table_is_flat(read):
    one = {"sample_batch_tokens": [1], "sample_steps_per_sec": [1.0], "max_batch_tokens": 384}
    assert "planners verify everything" in read(one).warnings[0]


@pytest.mark.parametrize(
    ("table", "path", "value", "place", "words"),
    [
        (SGLANG, "sample_batch_tokens", [], "sample_batch_tokens", "is empty"),
        (SGLANG, "sample_batch_tokens.1", 1, "sample_batch_tokens[1]", "does not come after"),
        (SGLANG, "sample_steps_per_sec", [1.0], "sample_steps_per_sec", "1 values for the 4"),
        (SGLANG, "sample_steps_per_sec.2", 0, "sample_steps_per_sec[2]", "more than 0"),
        (SGLANG, "max_batch_tokens", 7, "max_batch_tokens", "below the last probe 8"),
        (SGLANG, "max_batch_tokens", ..., None, "missing required field"),
        (ADDITIVE, "bias_seconds", 0, "bias_seconds", "more than 0"),
        (ADDITIVE, "bs_probes.1", 1, "bs_probes[1]", "does not come after"),
        (ADDITIVE, "m_probes.1", 0, "m_probes[1]", "does not come after"),
        (ADDITIVE, "alpha_seconds", [0.0], "alpha_seconds", "1 values for the 3"),
        (ADDITIVE, "theta_seconds", [], "theta_seconds", "0 values for the 3"),
        (ADDITIVE, "theta_seconds.0", -1.0, "bias_seconds", "cheapest step"),
        (TRT, "token_counts.1", 8, "token_counts[1]", "does not come after"),
        (TRT, "step_time_ms", [1.0], "step_time_ms", "1 values for the 3"),
        (TRT, "step_time_ms.0", -1.0, "step_time_ms[0]", "at least 0"),
        (TRT, "fixed_overhead_ms", -1, "fixed_overhead_ms", "at least 0"),
        (TRT, "batch_sizes", [], "batch_sizes", "is empty"),
        (TRT, "batch_overhead_ms", [], "batch_overhead_ms", "0 values for the 2"),
        (TRT, "minimum_predicted_gain", -0.1, "minimum_predicted_gain", "at least 0"),
        (
            {"token_counts": [1, 2], "step_time_ms": [0.0, 1.0]},
            "token_counts",
            [1, 2],
            "step_time_ms",
            "no time",
        ),
        ({"schema_version": 2, "cost_tables": {}}, "schema_version", 2, "cost_tables", "legacy"),
        ({"a": 1}, "a", 1, None, "no cost table that is known"),
        ({"format": "workbench.trace/1"}, "format", "workbench.trace/1", "format", "trace"),
    ],
)
def test_bad_tables(read, table, path, value, place, words):
    with pytest.raises(InputError) as caught:
        read(changed(table, path, value))
    assert caught.value.place == place
    assert words in str(caught.value) and "table.json" in str(caught.value)
    assert caught.value.mend
