import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.profiles.samples import FULL, changed, cost, profile, worked_example
from workbench.profiles import TruthBelief, profile_belief

ASK = dict(mean_context=1000.0, draft_tokens=7, sync=True)


@given(st.integers(0, 6), st.sampled_from([0, 16, 40]), st.integers(0, 42), st.booleans())
def test_the_default_belief_is_the_truth(requests, prefill, drafts, mixed):
    document = changed(FULL, "attention.mixed", 1.5)
    document = changed(document, "host.per_request_seconds", 1e-4)
    document = changed(document, "draft.per_prefill_token_seconds", 1e-6)
    document = changed(document, "draft.context_layers", 5)
    if not mixed:
        del document["mixed"]
        document = changed(document, "verify.prefill_token_seconds", -1e-5)
        table = document["attention"]["seconds"]
        document["attention"] |= {"query_tokens": [1, 5], "seconds": [table, [[0.001] * 2] * 2]}
    truth = cost(document)
    chunks, contexts = ([prefill], [500]) if prefill else ([], [])
    believed = TruthBelief(truth).step_seconds(
        requests, prefill, drafts, **ASK, prefill_other=truth.prefill_seconds(chunks, contexts)
    )
    charged = [
        truth.step_seconds(
            requests=requests,
            batch_tokens=requests + prefill + k,
            mean_context=1000.0,
            chunk_tokens=chunks,
            context_tokens=contexts,
            draft_tokens=7,
            sync=True,
        )
        for k in range(drafts + 1)
    ]
    assert believed.shape == (drafts + 1,) and believed.dtype == np.float64
    assert believed == pytest.approx(charged, rel=1e-12)


def test_the_answer_is_the_callers_to_change():
    belief = TruthBelief(cost(worked_example()))
    first = belief.step_seconds(2, 0, 14, **ASK)
    first[:] = 0
    assert belief.step_seconds(2, 0, 14, **ASK)[14] == pytest.approx(0.0157)


def test_a_profile_as_table_prices_its_own_parts():
    belief = profile_belief(profile(worked_example()))
    assert belief.by_batch.rule == "linear"
    seconds = belief.step_seconds(2, 0, 14, **ASK)
    # linear between the verify points, not padded: 2 tokens lie 1/7 of the way from 10 to 11 ms
    assert seconds[0] == pytest.approx(0.010 + 0.001 / 7 + 0.002 + 0.0012 + 0.0005)
    assert seconds[14] == pytest.approx(0.0157)
    # prefill tokens count in B, and the prefill attention of the step is added
    mixed = belief.step_seconds(2, 16, 0, **ASK, prefill_other=0.001)
    assert mixed[0] == pytest.approx(0.0125 + 0.002 + 0.0012 + 0.0005 + 0.001)


def test_probes_of_a_profile_past_the_limit_are_its_eager_points():
    document = changed(worked_example(), "verify.batch_tokens.3", 40)
    linear, ceil = (profile_belief(profile(document), rule).by_batch for rule in ("linear", "ceil"))
    assert linear.points.tolist() == [1, 8, 16, 48, 64]
    assert ceil.points.tolist() == [8, 16, 32, 48, 64]
    del document["graphs"]["beyond"]
    assert profile_belief(profile(document), "ceil").by_batch.points.tolist() == [8, 16, 32, 40]
    del document["graphs"]
    bare = profile_belief(profile(document), "ceil").by_batch
    assert bare.points.tolist() == [1, 8, 16, 40]
    assert bare.span(50, 0)[0] == 0.016  # no graphs: clamped
