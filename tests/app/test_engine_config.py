"""Exported settings: read back by the workbench's own reader of engines' tables, or by a shell."""

from __future__ import annotations

import json
import shlex
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine_config import BY_BATCH, additive_table, batch_table, export
from workbench.errors import InputError
from workbench.profiles import StepCost, read_planner_table, read_profile
from workbench.serving import Options


@pytest.fixture(scope="module")
def cost():
    return StepCost(read_profile())


def _flags(command: str) -> dict[str, str]:
    words = shlex.split(command)
    return {a: b for a, b in pairwise(words) if a.startswith("--")}


def test_sglangs_table_says_what_the_profile_charges(cost, tmp_path):
    path = tmp_path / "sps.json"
    path.write_text(json.dumps(additive_table(cost, 256, 7, 500.0)))
    belief = read_planner_table(path)
    for requests in (1, 4, 64, 256):
        said = belief.step_seconds(
            requests, 0, 7 * requests, mean_context=500.0, draft_tokens=7, sync=False
        )
        batch = requests + np.arange(7 * requests + 1)
        true = (
            cost.verify_seconds(batch)
            + cost.attention_seconds(requests, 500.0)
            + cost.draft_seconds(requests, 7, 500.0)
            + cost.host_seconds(False)
        )
        np.testing.assert_allclose(said, true, rtol=1e-9)


def test_sglang_topk(cost):
    config = export("SGLang", "topk:lag=3", cost, 7, Options(max_running=96), context=500.0)
    flags = _flags(config.command)
    assert flags["--max-running-requests"] == "96"  # 48 if it were left out
    assert flags["--speculative-num-draft-tokens"] == "8"
    assert "SGLANG_DSPARK_CONFIDENCE_RELAY_LAG_STEPS=3" in config.command
    assert "SGLANG_RAGGED_VERIFY_MODE=compact" in config.command
    table = json.loads(config.files["sps_table.json"])
    assert table["bias_seconds"] > 0
    assert table["theta_seconds"][0] == table["alpha_seconds"][0] == 0
    for axis in ("bs_probes", "m_probes"):
        assert (np.diff(table[axis]) > 0).all()
    assert table["m_probes"][-1] == 96 * 8


def test_vllm(cost):
    options = Options(max_running=128, token_budget=4096)
    config = export("vLLM", "topk", cost, 7, options, context=500.0)
    flags = _flags(config.command)
    assert flags["--max-num-seqs"] == "128" and flags["--max-num-batched-tokens"] == "4096"
    speculative = json.loads(flags["--speculative-config"])
    assert speculative["enable_adaptive_verification"] is True
    assert speculative["num_speculative_tokens"] == 7
    graphs = json.loads(flags["--compilation-config"])
    assert graphs["max_cudagraph_capture_size"] == cost.last_captured

    plain = export("vLLM", "none", cost, 7, options, context=500.0)
    assert "--speculative-config" not in plain.command
    fixed = export("vLLM", "static:3", cost, 7, options, context=500.0)
    assert json.loads(_flags(fixed.command)["--speculative-config"])["num_speculative_tokens"] == 3
    rows = [[1, 32, 3], [33, 128, 0]]
    table = export("vLLM", BY_BATCH, cost, 7, options, context=500.0, table=rows)
    speculative = json.loads(_flags(table.command)["--speculative-config"])
    assert speculative["num_speculative_tokens_per_batch_size"] == rows
    assert speculative["num_speculative_tokens"] == 3


@pytest.mark.parametrize("engine", ["vLLM", "SGLang"])
def test_what_an_engine_cannot_do_is_said(cost, engine):
    with pytest.raises(InputError, match="no setting"):
        export(engine, "threshold:0.5", cost, 7, Options(), context=500.0)


@given(st.dictionaries(st.integers(1, 600), st.integers(0, 7), min_size=1), st.integers(1, 600))
def test_batch_tables_are_as_vllm_wants_them(best, most):
    table = batch_table(best, most)
    assert table[0][0] == 1 and table[-1][1] == most
    for (low, high, k), (after, _, other) in pairwise(table):
        assert low <= high and after == high + 1 and k != other
    for size, k in best.items():
        if size <= most:
            row = next(row for row in table if row[0] <= size <= row[1])
            assert row[2] == k


def test_a_batch_table_needs_fixed_lengths():
    with pytest.raises(InputError, match="no fixed draft length"):
        batch_table({}, 256)
