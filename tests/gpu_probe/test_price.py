"""The additive form against steps worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_probe import held_out, price
from gpu_probe.grid import TINY
from workbench.profiles.cost import StepCost
from workbench.profiles.reader import parse_profile

DOCUMENT = {
    "format": "workbench.profile/1",
    "name": "by-hand",
    "target": {"name": "x", "layers": 4},
    "verify": {"batch_tokens": [1, 8, 9, 16], "seconds": [0.004, 0.005, 0.008, 0.009]},
    "graphs": {
        "batch_tokens": [1, 8, 16],
        "beyond": {"batch_tokens": [24, 32], "seconds": [0.030, 0.034]},
    },
    "attention": {
        "requests": [1, 8],
        "context_tokens": [16, 1024],
        "seconds": [[0.0, 0.001], [0.0, 0.008]],
    },
    "prefill": {
        "chunk_tokens": [4, 8],
        "context_tokens": [0, 100],
        "seconds": [[0.001, 0.002], [0.003, 0.006]],
    },
    "draft": {
        "requests": [1, 8],
        "tokens": [7],
        "seconds": [[0.001], [0.002]],
        "per_prefill_token_seconds": 1e-5,
    },
}
AXES = {
    **DOCUMENT,
    "verify": {**DOCUMENT["verify"], "prefill_token_seconds": -1e-4},
    "attention": {
        "query_tokens": [1, 3],
        "requests": [1, 8],
        "context_tokens": [16, 1024],
        "seconds": [[[0.0, 0.001], [0.0, 0.008]], [[0.0, 0.002], [0.0, 0.016]]],
    },
    "draft": {
        "context_tokens": [16, 1024],
        "requests": [1, 8],
        "tokens": [3, 7],
        "seconds": [[[0.001, 0.002], [0.002, 0.003]], [[0.002, 0.004], [0.003, 0.006]]],
    },
}


@given(st.floats(-5, 50))
def test_lookup_of_a_line_is_the_line_never_below_its_first_point(x):
    assert price.lookup([0, 10, 30], [1.0, 21.0, 61.0], x) == pytest.approx(max(1, 1 + 2 * x))


def test_a_step_runs_at_the_captured_size_above_it():
    assert price.target(DOCUMENT, price.Step(9, 9, 16)) == pytest.approx(0.009)  # not 0.008
    assert price.target(DOCUMENT, price.Step(1, 7, 520)) == pytest.approx(0.005 + 0.0005)
    assert price.target(DOCUMENT, price.Step(8, 8, 1024)) == pytest.approx(0.013)


def test_past_the_last_graph_the_eager_curve_holds():
    assert price.target(DOCUMENT, price.Step(8, 28, 16)) == pytest.approx(0.032)


def test_the_query_axis_lies_between_its_slices():
    assert price.target(AXES, price.Step(8, 16, 1024)) == pytest.approx(0.009 + 0.012)
    assert price.draft(AXES, price.Step(8, 16, 520)) == pytest.approx(0.0045)


def test_a_chunk_adds_its_attention_and_its_injection():
    step = price.Step(8, 8, 1024, chunk=6, before=50)
    assert price.target(DOCUMENT, step) == pytest.approx(0.009 + 0.008 + 0.003)
    assert price.draft(DOCUMENT, step) == pytest.approx(0.002 + 6e-5)


def test_the_mixed_table_replaces_the_curve_beside_a_chunk_only():
    mixed = {"prefill_tokens": [4, 8], "batch_tokens": [8, 16], "seconds": [[0.1, 0.2], [0.3, 0.4]]}
    assert price.verify(DOCUMENT, price.Step(8, 8, 16, chunk=4), mixed) == pytest.approx(0.2)
    assert price.verify(DOCUMENT, price.Step(8, 8, 16), mixed) == pytest.approx(0.005)


steps = st.builds(
    price.Step,
    requests=st.integers(1, 12),
    queries=st.integers(12, 40),
    context=st.floats(0, 3000),
    chunk=st.integers(0, 12),
    before=st.integers(0, 300),
)


@given(steps, st.sampled_from([DOCUMENT, AXES]))
def test_it_prices_a_step_as_the_workbench_does(step, document):
    parts = StepCost(parse_profile(document, "by-hand.json")).step_parts(
        requests=step.requests,
        batch_tokens=step.queries + step.chunk,
        mean_context=step.context,
        chunk_tokens=[step.chunk] if step.chunk else [],
        context_tokens=[step.before] if step.chunk else [],
        draft_tokens=7,
    )
    mine = price.target(document, step) + price.draft(document, step)
    assert mine == pytest.approx(parts.total, rel=1e-12)


def test_errors_of_known_ratios():
    found = held_out.errors([1.0, 1.01, 0.98, 1.1, 1.02])
    assert found == {"cells": 5, "median": 0.02, "p95": 0.084, "max": 0.1, "bias": 0.01}


@given(seed=st.integers(0, 50))
def test_random_rounds_fit_the_pool_and_a_quarter_has_a_chunk(seed):
    cells = held_out.random_cells(TINY, 7, 8, seed)
    assert sum(cell.chunk > 0 for cell in cells) == 2
    for cell in cells:
        assert 1 <= len(cell.queries) == len(cell.contexts) <= TINY.max_requests
        assert all(1 <= q <= 8 for q in cell.queries)
        assert sum(cell.contexts) <= 0.9 * TINY.cached_tokens + len(cell.contexts)
    assert cells == held_out.random_cells(TINY, 7, 8, seed)
