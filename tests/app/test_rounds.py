"""The lab's decode round: against definitions, and against what the simulator's schedulers do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.admission import path_of
from app.batch import batch_at
from app.rounds import decide, heat
from tests.support import random_requests, write_profile, write_trace
from workbench.profiles import StepCost, read_profile
from workbench.serving import Demand, build_population, stream
from workbench.traces import read_trace

SPECS = ("none", "static:2", "threshold:0.4", "greedy", "topk", "global", "oracle", "oracle:path")


@pytest.fixture(scope="module")
def demand(tmp_path_factory):
    path = tmp_path_factory.mktemp("lab") / "t.jsonl"
    write_trace(path, random_requests(np.random.default_rng(3), 40, 3))
    return Demand(build_population([read_trace(path)], stream(0, "densify")), np.ones(1))


@pytest.fixture(scope="module")
def cost(tmp_path_factory):
    path = tmp_path_factory.mktemp("lab") / "p.json"
    sizes = [1, 8, 16, 64]
    write_profile(path, sizes, [0.01, 0.011, 0.013, 0.03], graphs={"batch_tokens": sizes})
    return StepCost(read_profile(path))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 12), st.integers(0, 30), st.integers(0, 5))
def test_rows_stay_inside_their_requests(demand, requests, step, seed):
    batch = batch_at(demand, requests, step, seed)
    start = batch.population.row_start
    assert (batch.row >= start[batch.request]).all()
    assert (batch.row < start[batch.request + 1]).all()
    emitted = batch.row - start[batch.request] + 1
    np.testing.assert_array_equal(batch.context, batch.population.prompt[batch.request] + emitted)
    # a whole-block round never emits past the end: output = 1 + anchors
    assert (batch.accepted + 1 + batch.row <= start[batch.request + 1]).all()


def test_stepping_forward_follows_full_verification(demand):
    before, after = batch_at(demand, 6, 4), batch_at(demand, 6, 5)
    same = before.request == after.request
    assert same.any()
    np.testing.assert_array_equal(after.row[same], (before.row + before.accepted + 1)[same])
    np.testing.assert_array_equal(after.past[-1][1], before.survival)


def test_the_path_is_the_definition(demand, cost):
    batch = batch_at(demand, 5, 3)
    path = path_of(batch, cost)
    survival = np.sort(batch.survival.ravel())[::-1]
    np.testing.assert_array_equal(path.survival, survival)
    np.testing.assert_array_equal(batch.survival[path.request, path.position], survival)
    for place in range(5):  # a block is admitted from its front
        assert (np.diff(path.position[path.request == place]) == 1).all()
    assert path.padded_tokens.tolist() == [cost.padded(5 + k) for k in range(len(survival) + 1)]
    for drafts in range(len(survival) + 1):
        seconds = cost.verify_seconds(5 + drafts)
        assert path.seconds[drafts] == pytest.approx(seconds)
        assert path.theta[drafts] == pytest.approx((5 + survival[:drafts].sum()) / seconds)


@pytest.mark.parametrize("step", [0, 1, 6])
def test_decisions_against_brute_force(demand, cost, step):
    batch = batch_at(demand, 6, step)
    path = path_of(batch, cost)
    made = {spec: decide(spec, batch, cost) for spec in SPECS}
    assert made["none"].drafts == 0 and made["none"].theta == pytest.approx(path.theta[0])
    assert (made["static:2"].lengths == 2).all()
    assert made["global"].drafts == int(np.argmax(path.theta))
    assert made["global"].theta == pytest.approx(path.theta.max())
    first = next((k for k in range(1, len(path.theta)) if path.theta[k] <= path.theta[k - 1]), None)
    assert made["greedy"].drafts == (len(path.survival) if first is None else first - 1)
    np.testing.assert_array_equal(made["oracle"].lengths, batch.accepted)
    below = batch.confidence.astype(np.float32) < np.float32(0.4)
    cut = np.where(below.any(axis=1), below.argmax(axis=1), batch.survival.shape[1])
    np.testing.assert_array_equal(made["threshold:0.4"].lengths, cut)
    if step < 2:  # nobody has a past: all count as 1, so the budget is the argmax over ones
        tokens = 6 + np.arange(len(path.survival) + 1)
        assert made["topk"].drafts == int(np.argmax(tokens / path.seconds))


def test_what_is_kept_is_what_was_recorded(demand, cost):
    batch = batch_at(demand, 8, 2)
    for spec in SPECS:
        decision = decide(spec, batch, cost)
        assert decision.kept_tokens == 8 + np.minimum(decision.lengths, batch.accepted).sum()
        cells = heat(batch, decision)
        fate = np.array(cells["fate"])
        assert (fate != "not verified").sum() == decision.drafts
        assert (fate == "kept").sum() == decision.kept_tokens - 8


def test_greedy_says_where_it_stopped(demand, cost):
    decision = decide("greedy", batch_at(demand, 8, 2), cost)  # a captured size: the riser is next
    assert decision.drafts == 0
    assert "8 → 16 tokens" in decision.reason
