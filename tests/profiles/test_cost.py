import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.profiles.samples import FULL, V4_FLASH, changed, cost, worked_example
from workbench.profiles import StepCost, read_profile

BARE = {"format": "workbench.profile/1", "name": "bare"}
VERIFY = {"verify": {"batch_tokens": [1, 8, 16, 32], "seconds": [0.010, 0.011, 0.012, 0.016]}}


def test_padding():
    steps = cost(worked_example())
    assert [steps.padded(n) for n in (0, 1, 8, 9, 16, 17, 32, 33, 40)] == [
        *(8, 8, 8, 16, 16, 32, 32),
        *(33, 40),  # past the last captured size nothing is padded
    ]
    assert steps.padded(np.array([1, 9, 32, 33])).tolist() == [8, 16, 32, 33]
    assert steps.last_captured == 32


def test_without_graphs_nothing_is_padded():
    steps = cost(BARE | VERIFY)
    assert steps.padded(3) == 3 and steps.last_captured is None
    assert steps.padded(np.array([3, 50])).tolist() == [3, 50]
    assert steps.verify_seconds(12) == pytest.approx(0.0115)
    assert steps.verify_seconds(64) == pytest.approx(0.024)  # the last two points go on


@pytest.mark.parametrize(
    ("batch_tokens", "seconds"),
    [
        (0, 0.0),
        (1, 0.011),
        (9, 0.012),
        (17, 0.016),
        (32, 0.016),
        (33, 0.040),  # the eager line would be 0.03625 there: never below its edge
        (56, 0.042),
        (80, 0.048),
    ],
)
def test_verify_by_hand(batch_tokens, seconds):
    assert cost(worked_example()).verify_seconds(batch_tokens) == pytest.approx(seconds)


def test_past_the_graphs_without_an_eager_curve_the_verify_curve_holds_unpadded():
    steps = cost(worked_example(), graphs={"batch_tokens": [8]})
    assert steps.verify_seconds(3) == 0.011
    assert steps.verify_seconds(12) == pytest.approx(0.0115)


def test_a_captured_size_between_verify_points_is_interpolated():
    steps = cost(BARE | VERIFY, graphs={"batch_tokens": [24]})
    assert steps.verify_seconds(2) == pytest.approx(0.014)


@st.composite
def curves(draw, least=1, most=400):
    x = draw(st.lists(st.integers(least, most), min_size=1, max_size=6, unique=True).map(sorted))
    y = draw(st.lists(st.floats(1e-4, 1), min_size=len(x), max_size=len(x)))
    return {"batch_tokens": x, "seconds": y}


@st.composite
def profiles(draw):
    document = BARE | {"verify": draw(curves())}
    if draw(st.booleans()):
        sizes = draw(st.lists(st.integers(1, 300), min_size=1, max_size=8, unique=True).map(sorted))
        document["graphs"] = {"batch_tokens": sizes}
        if draw(st.booleans()):
            document["graphs"]["beyond"] = draw(curves(sizes[-1] + 1, sizes[-1] + 400))
    return document


@given(profiles(), st.integers(0, 600))
def test_verify_table_and_arrays_equal_scalar_calls(document, n):
    steps = cost(document)
    scalars = [steps.verify_seconds(b) for b in range(n + 1)]
    assert steps.verify_table(n).tolist() == scalars
    assert steps.verify_seconds(np.arange(n + 1)).tolist() == scalars
    assert steps.verify_span(n // 2, n - n // 2).tolist() == scalars[n // 2 :]


@given(profiles(), st.integers(1, 900))
def test_rising_curves_charge_no_less_than_the_edge_and_never_less_for_more(document, b):
    for table in (document["verify"], document.get("graphs", {}).get("beyond")):
        if table:
            table["seconds"].sort()
    steps = cost(document)
    first = document["verify"]["seconds"][0]
    beyond = document.get("graphs", {}).get("beyond")
    if beyond is None or b <= steps.last_captured:
        assert steps.verify_seconds(b) >= first
    else:
        assert steps.verify_seconds(b) >= beyond["seconds"][0]
    if beyond is None or steps.last_captured not in (b, b + 1):
        assert steps.verify_seconds(b + 1) >= steps.verify_seconds(b) * (1 - 1e-12)


def test_verify_table_grows_past_what_was_asked_before():
    steps = cost(worked_example())
    small = steps.verify_table(5)
    large = steps.verify_table(5000)
    assert large[:6].tolist() == small.tolist() and len(large) == 5001
    with pytest.raises(ValueError):
        large[0] = 1.0


def test_absent_parts_cost_nothing_and_are_named():
    steps = cost(BARE | VERIFY)
    assert steps.missing == ["attention", "prefill", "draft", "host", "graphs"]
    assert steps.attention_seconds(8, 5000) == 0
    assert steps.prefill_seconds([512], [4096]) == 0
    assert steps.draft_seconds(8, 7, 5000) == 0
    assert steps.host_seconds(True, 8, 8) == 0
    assert steps.watts(8) is None and steps.kv_capacity_tokens is None
    assert steps.gpus == 1 and steps.admission_lag_steps == 0
    assert cost(worked_example()).missing == []


def test_nothing_to_do_costs_nothing():
    steps = cost(FULL)
    assert steps.attention_seconds(0, 1000) == 0
    assert steps.draft_seconds(0, 7) == 0 and steps.draft_seconds(4, 0) == 0
    assert steps.prefill_seconds([], []) == 0 and steps.prefill_seconds([0], [1000]) == 0


def test_prefill_sums_chunks_alike_in_scalars_and_arrays():
    steps = cost(worked_example())
    chunks, contexts = [16, 40, 0, 64], [500, 1000, 1000, 0]
    # (0 + 2)/2, halfway between 2 and 5, nothing, 1 (ms)
    assert steps.prefill_seconds(chunks, contexts) == pytest.approx(0.001 + 0.0035 + 0.001)
    many = steps.prefill_seconds(np.array(chunks * 50), np.array(contexts * 50))
    assert many == pytest.approx(50 * 0.0055)


def test_sequential_drafter_pays_for_the_tokens_it_drafts():
    draft = {"requests": [1], "tokens": [1, 3], "seconds": [[0.001, 0.003]]}
    steps = cost(worked_example(), draft=draft)
    assert [steps.draft_seconds(1, k) for k in (1, 2, 3, 4)] == pytest.approx(
        [0.001, 0.002, 0.003, 0.004]
    )


def test_draft_pass_is_padded_to_captured_requests():
    steps = cost(worked_example(), graphs={"batch_tokens": [8], "requests": [1, 4]})
    assert steps.draft_seconds(2, 7) == steps.draft_seconds(4, 7) == 0.0016
    assert steps.draft_seconds(7, 7) == pytest.approx(0.0022)


def test_draft_context_layers_take_their_share_of_attention():
    document = changed(worked_example(), "draft.context_layers", 5) | {"target": {"layers": 10}}
    steps = cost(document)
    assert steps.draft_seconds(4, 7, 1000) == pytest.approx(0.0016 + 0.5 * 0.004)
    assert steps.draft_seconds(4, 7) == 0.0016  # as measured
    steps = cost(changed(document, "draft.reference_context", 500))
    assert steps.draft_seconds(4, 7, 1000) == pytest.approx(0.0016 + 0.5 * 0.002)
    assert steps.draft_seconds(4, 7, 0) == pytest.approx(0.0016 - 0.5 * 0.002)


def test_attention_between_its_query_tokens():
    document = changed(FULL, "attention.query_tokens", [1, 3])
    one = [[0, 0.001], [0, 0.004]]
    three = [[0.0005, 0.002], [0.001, 0.006]]
    steps = cost(changed(document, "attention.seconds", [one, three]))
    assert steps.attention_seconds(4, 1000) == 0.004
    assert steps.attention_seconds(4, 1000, queries=2) == pytest.approx(0.005)
    assert steps.attention_seconds(4, 1000, queries=4) == pytest.approx(0.007)  # the line goes on
    assert steps.attention_seconds(1, 500, queries=3) == pytest.approx(0.00125)
    verified = steps.span(np.zeros(13), 4, 0, 1000, 0, False, 0.0)  # 0..12 drafts of 4 requests
    one_by_one = [steps.attention_seconds(4, 1000, queries=(4 + k) / 4) for k in range(13)]
    assert verified.tolist() == [seconds + steps.host_seconds(False, 4) for seconds in one_by_one]
    # 4 anchors, 4 drafts, 8 prefill tokens: two query tokens each
    step = dict(requests=4, batch_tokens=16, mean_context=1000, chunk_tokens=[8])
    assert steps.step_parts(**step, context_tokens=[0]).attention == pytest.approx(0.005)
    assert steps.span(np.zeros(1), 0, 0, 1000, 0, False, 0.0)[0] == steps.host_seconds(False, 0)


def test_draft_between_its_contexts():
    draft = {"requests": [1], "tokens": [1, 3], "context_tokens": [100, 300]}
    steps = cost(worked_example(), draft=draft | {"seconds": [[[0.001, 0.003]], [[0.002, 0.006]]]})
    assert steps.draft_seconds(1, 3) == steps.draft_seconds(1, 3, 100) == 0.003
    assert steps.draft_seconds(1, 2, 200) == pytest.approx(0.003)
    assert steps.draft_seconds(1, 3, 400) == pytest.approx(0.0075)
    assert steps.draft_seconds(1, 3, 0) == 0.003  # never below the edge


def test_verify_beside_prefill():
    document = changed(worked_example(), "verify.prefill_token_seconds", -1e-4)
    steps = cost(document)
    assert steps.verify_seconds(16) == 0.012
    assert steps.verify_seconds(16, prefill_tokens=10) == pytest.approx(0.011)
    assert steps.verify_seconds(16, prefill_tokens=1000) == 0  # never below nothing
    assert steps.verify_span(15, 2, 10) == pytest.approx([0.011, 0.011, 0.015])
    assert steps.verify_seconds(np.array([16]), 10).tolist() == [steps.verify_seconds(16, 10)]


def test_host():
    host = {
        "sync_seconds": 5e-4,
        "async_seconds": 1e-4,
        "per_request_seconds": 1e-5,
        "per_new_request_seconds": 3e-5,
        "admission_lag_steps": 1,
    }
    steps = cost(worked_example(), host=host)
    assert steps.host_seconds(True) == 5e-4
    assert steps.host_seconds(False, 10, 2) == pytest.approx(1e-4 + 1e-4 + 6e-5)
    assert steps.admission_lag_steps == 1


def test_steps_with_prefill():
    document = changed(FULL, "attention.mixed", 1.5)
    document = changed(document, "draft.per_prefill_token_seconds", 1e-5)
    steps = cost(document)
    # mixed is looked up at B padded, in place of verify; one row: the same for any prefill
    assert steps.verify_seconds(12, prefill_tokens=8) == 0.02
    assert steps.verify_seconds(17, prefill_tokens=8) == 0.03
    assert steps.verify_span(15, 2, prefill_tokens=8) == pytest.approx([0.02, 0.02, 0.03])
    assert steps.attention_seconds(4, 1000, prefill_tokens=8) == pytest.approx(0.006)
    assert steps.attention_seconds(4, 1000) == 0.004
    step = dict(requests=4, batch_tokens=12, mean_context=1000, chunk_tokens=[8], draft_tokens=7)
    parts = steps.step_parts(**step, context_tokens=[0])
    assert parts.draft == pytest.approx(0.0016 + 8e-5)
    assert steps.step_seconds(**step, context_tokens=[0]) == parts.total == sum(parts)
    assert steps.step_parts(**step, context_tokens=[0], drafter=False).draft == 0.0016
    table = {"requests": [1], "context_tokens": [0], "seconds": [[0.009]]}
    steps = cost(changed(FULL, "attention.mixed", table))
    assert steps.attention_seconds(4, 1000, prefill_tokens=8) == 0.009


def test_room_and_power():
    steps = cost(FULL)
    assert (steps.gpus, steps.kv_capacity_tokens, steps.kv_block_tokens) == (2, 600000, 16)
    assert steps.watts(1) == 300 and steps.watts(16.5) == 450
    assert steps.watts(64) == 700  # the line goes on to 910 W, the limit holds


def test_vllm_curve_is_a_staircase_with_a_cliff():
    steps = StepCost(read_profile(V4_FLASH))
    ms = (steps.verify_table(2048) * 1e3).round(2)
    assert ms[[161, 240, 241, 256, 257, 272]].tolist() == [11.39, 11.39, 11.51, 11.51, 12.52, 12.52]
    assert ms[[1024, 1025, 1536]].tolist() == [20.63, 104.49, 104.49]
    assert math.isclose(steps.draft_seconds(200, 7), 0.00483)
