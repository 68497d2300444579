"""Engines' tables: read back by the workbench's own reader, or held to the engine's rules."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engines.samples import GAMMA, priced
from workbench.engines import additive_table, batch_table
from workbench.engines.tables import legacy_table
from workbench.errors import InputError
from workbench.profiles import read_planner_table


def charged(cost, requests: int, sync: bool) -> np.ndarray:
    """Seconds of steps that verify 0..γ·R drafts, by the profile."""
    batch = requests + np.arange(GAMMA * requests + 1)
    return (
        cost.verify_seconds(batch)
        + cost.attention_seconds(requests, 500.0)
        + cost.draft_seconds(requests, GAMMA, 500.0)
        + cost.host_seconds(sync)
    )


@pytest.mark.parametrize("make, sync", [(additive_table, False), (legacy_table, True)])
def test_a_table_says_what_the_profile_charges(make, sync, tmp_path):
    cost, path = priced(), tmp_path / "table.json"
    path.write_text(json.dumps(make(cost, 64, GAMMA, 500.0)))
    belief = read_planner_table(path)
    for requests in (1, 4, 64):
        said = belief.step_seconds(
            requests, 0, GAMMA * requests, mean_context=500.0, draft_tokens=GAMMA, sync=sync
        )
        np.testing.assert_allclose(said, charged(cost, requests, sync), rtol=1e-9)


def test_attention_is_that_of_half_the_drafts():
    one = [[0.0, 0.001], [0.0, 0.01]]
    eight = [[0.0, 0.002], [0.0, 0.03]]
    axes = {"query_tokens": [1, 1 + GAMMA], "requests": [1, 64], "context_tokens": [0, 4096]}
    cost = priced(attention={**axes, "seconds": [one, eight]})
    table = additive_table(cost, 64, GAMMA, 4096.0)
    draft = cost.draft_seconds(64, GAMMA, 4096.0) - cost.draft_seconds(1, GAMMA, 4096.0)
    mean = (0.01 + 0.03) / 2 - (0.001 + 0.002) / 2
    assert table["alpha_seconds"][-1] == pytest.approx(draft + mean)


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
