"""Captured CUDA graphs: padding, the capture limit, filled tiers, uniform width."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.serving.samples import arrivals, cost, recorded, serve, steps
from workbench.serving import Load

# seconds by batch tokens: b tokens take b seconds, so that the padded size can be read off a step
LINEAR = {"batch_tokens": [1, 1024], "seconds": [1.0, 1024.0]}


def priced(sizes, beyond=None, **parts):
    graphs = {"batch_tokens": sizes} | ({"beyond": beyond} if beyond else {})
    requests = parts.pop("requests", None)
    if requests:
        graphs["requests"] = requests
    return cost(**LINEAR, graphs=graphs, **parts)


def decode(run) -> list[dict]:
    return [step for step in steps(run) if step["decoding"]]


# Padding ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("users", "padded"), [(1, 1), (2, 2), (3, 4), (4, 4), (5, 12), (12, 12), (13, 13), (40, 40)]
)
def test_a_step_runs_at_the_next_captured_size_and_the_padding_is_reported(users, padded):
    run, result = serve(arrivals([(1, 5)] * users), price=priced([1, 2, 4, 12]), record_steps=True)
    # the prompts, one token each, are a step of the same size
    assert [step["seconds"] for step in steps(run)] == pytest.approx([padded] * 5)
    assert result["padded_share"] == pytest.approx((padded - users) / padded)
    assert {(s["batch_tokens"], s["padded_tokens"]) for s in steps(run)} == {(users, padded)}


def test_prompt_tokens_are_padded_together_with_decoding_ones():
    come = arrivals([(1, 3), (5, 1)], at=[0, 0.5])
    run, _ = serve(come, price=priced([1, 8]), record_steps=True)
    # 1; 1 decoding + 5 prompt tokens in a graph of 8; 1
    assert [step["seconds"] for step in steps(run)] == pytest.approx([1, 8, 1])


def test_verified_drafts_are_padded_and_without_graphs_nothing_is():
    population = recorded([{"accepted": [0] * 20}])
    come = arrivals([(1, 5)] * 3)
    run, result = serve(
        come, "static:3", population=population, price=priced([3, 16]), record_steps=True
    )
    assert [step["seconds"] for step in steps(run)] == pytest.approx([3, 16, 16, 16, 16])
    assert result["padded_share"] == pytest.approx(4 * 4 / (3 + 4 * 16))
    _, bare = serve(come, "static:3", population=population, price=cost(**LINEAR))
    assert bare["padded_share"] == 0
    assert bare["simulated_s"] == pytest.approx(3 + 4 * 12)


@pytest.mark.parametrize(("users", "seconds"), [(1, 1.0), (2, 4.0), (4, 4.0), (5, 5.0)])
def test_the_draft_pass_is_padded_to_captured_requests(users, seconds):
    # the draft of r requests takes r seconds, the target nothing to speak of
    price = cost(
        seconds=[1e-9],
        draft={"requests": [1, 64], "tokens": [3], "seconds": [[1.0], [64.0]]},
        graphs={"batch_tokens": [1], "requests": [1, 4]},
    )
    run, _ = serve(
        arrivals([(1, 3)] * users), "static:3", price=price, record_steps=True,
        population=recorded([{"accepted": [0] * 9}]),
    )  # fmt: skip
    assert [step["seconds"] for step in decode(run)] == pytest.approx([seconds] * 2, abs=1e-6)


def test_past_the_capture_limit_a_step_is_eager_and_not_padded():
    price = priced([1, 2, 4], {"batch_tokens": [5, 100], "seconds": [50.0, 1000.0]})
    for users, seconds in ((4, 4), (5, 50), (100, 1000)):
        run, result = serve(arrivals([(1, 4)] * users), price=price, record_steps=True)
        assert [step["seconds"] for step in steps(run)] == pytest.approx([seconds] * 4)
        assert result["padded_share"] == 0


def test_a_prompt_can_push_the_decoding_requests_past_the_limit():
    price = priced([1, 2, 4], {"batch_tokens": [5, 100], "seconds": [50.0, 1000.0]})
    run, _ = serve(arrivals([(1, 3), (4, 1)], at=[0, 0.5]), price=price, record_steps=True)
    assert [step["seconds"] for step in steps(run)] == pytest.approx([1, 50, 1])


# Filling the tier ---------------------------------------------------------------------------------


def constant(confidence: list[float], accepted: int, rows: int = 40) -> dict:
    return {"accepted": [accepted] * rows, "confidence": [confidence] * rows}


def test_a_filled_tier_verifies_more_in_the_same_time():
    # nothing is above the threshold: 3 anchors in a graph of 8 leave room for 5 drafts
    population = recorded([constant([0.5] * 3, 3)])
    come, price = arrivals([(1, 13)] * 3), priced([8])
    plain, off = serve(come, "threshold:0.9", population=population, price=price, record_steps=True)
    filled, on = serve(
        come, "threshold:0.9", population=population, price=price, record_steps=True, align=True
    )
    assert off["padded_share"] == pytest.approx(5 / 8)
    assert off["verification_budget"] == 1 and off["accepted_length"] == 1
    assert [step["verified_drafts"] for step in decode(filled)][:3] == [5, 5, 5]
    assert {step["seconds"] for step in steps(plain)} == {step["seconds"] for step in steps(filled)}
    assert on["output_tokens"] == off["output_tokens"]
    assert on["simulated_s"] < off["simulated_s"]


def test_the_tier_is_filled_with_the_most_likely_drafts():
    # survivals 0.8, 0.64, 0.512 against 0.7, 0.49, 0.343: the three drafts that a graph of 5 has
    # room for beside 2 anchors are 0.8, 0.7 and 0.64
    population = recorded([constant([0.8] * 3, 3), constant([0.7] * 3, 3)])
    run, _ = serve(
        arrivals([(1, 41)] * 2), "threshold:0.9", population=population, price=priced([5]),
        align=True, record_steps=True,
    )  # fmt: skip
    one = decode(run)
    assert one[0]["verified_drafts"] == 3
    # the likely request emits 3 a step and the other 2: 40 tokens in 14 steps, then the other alone
    # with all three drafts: 40 − 28 = 12 tokens in 3 steps
    assert len(one) == 14 + 3
    source = run.workload.source
    assert run.recorder.last[source == 0] < run.recorder.last[source == 1]


@pytest.mark.parametrize(
    ("size", "lengths"),
    [
        (2, (0, 0)),
        (3, (1, 0)),  # the older request's first draft
        (4, (1, 1)),  # both first ones, though the older one's second is as likely
        (5, (2, 1)),
        (6, (2, 2)),
        (7, (3, 2)),
        (8, (3, 3)),
        (9, (3, 3)),  # no draft is left
    ],
)
def test_equal_drafts_fill_by_position_and_then_by_age(size, lengths):
    # all survivals are 0.5 and all drafts pass: 12 tokens after the first take 12 ÷ (1 + ℓ) steps
    population = recorded([constant([0.5, 1.0, 1.0], 3)])
    run, _ = serve(
        arrivals([(1, 13)] * 2), "threshold:0.9", population=population, align=True,
        price=cost(graphs={"batch_tokens": [size]}), record_steps=True,
    )  # fmt: skip
    assert decode(run)[0]["verified_drafts"] == sum(lengths)
    assert run.recorder.last[0] == 1 + 12 / (1 + lengths[0])
    assert run.recorder.last[0] <= run.recorder.last[1]


def test_static_widths_are_not_filled():
    population = recorded([constant([0.5] * 3, 3)])
    runs = [
        serve(arrivals([(1, 9)] * 2), "static:1", population=population, price=priced([16]),
              align=align)[1]
        for align in (False, True)
    ]  # fmt: skip
    assert runs[0]["verification_budget"] == runs[1]["verification_budget"] == 2


def test_past_the_last_graph_there_is_nothing_to_fill():
    population = recorded([constant([0.5] * 3, 3)])
    _, result = serve(
        arrivals([(1, 9)] * 4), "threshold:0.9", population=population, price=priced([1, 2]),
        align=True,
    )  # fmt: skip
    assert result["verification_budget"] == pytest.approx(1, abs=0.2)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    users=st.integers(1, 8),
    sizes=st.sets(st.integers(1, 40), min_size=1, max_size=6).map(sorted),
    scheduler=st.sampled_from(["threshold:0.3", "threshold:0.7", "greedy", "topk", "global"]),
)
def test_a_tier_has_padding_only_where_no_draft_is_left(seed, users, sizes, scheduler):
    rng = np.random.default_rng(seed)
    population = recorded(
        [
            {
                "accepted": rng.integers(0, 4, 25).tolist(),
                "confidence": rng.uniform(0.05, 0.99, (25, 3)).round(3).tolist(),
            }
            for _ in range(4)
        ]
    )
    come = arrivals([(int(p), 12) for p in rng.integers(1, 9, 16)])
    for align in (False, True):
        run, result = serve(
            come, scheduler, population=population, price=priced(sizes), align=align,
            load=Load(concurrency=users), record_steps=True,
        )  # fmt: skip
        assert result["output_tokens"] == 16 * 12
        used = padded = 0
        for step in steps(run):
            used, padded = used + step["batch_tokens"], padded + step["padded_tokens"]
            size = next((s for s in sizes if s >= step["batch_tokens"]), step["batch_tokens"])
            assert step["padded_tokens"] == size
            assert step["seconds"] == pytest.approx(size)
            if align and step["padded_tokens"] > step["batch_tokens"]:
                drafts = step["drafts_per_request"] * step["decoding"]
                assert step["verified_drafts"] == drafts
        if result["window"]["kind"] == "whole":
            assert result["padded_share"] == pytest.approx(1 - used / padded)


# Uniform width ------------------------------------------------------------------------------------


def test_a_uniform_verifier_pays_for_all_drafts_and_commits_the_trimmed_ones():
    population = recorded([constant([0.5] * 3, 3)])
    come = arrivals([(1, 9)] * 2)
    trimmed, off = serve(
        come, "threshold:0.9", population=population, price=priced([2, 4, 8]), record_steps=True
    )
    padded, on = serve(
        come, "threshold:0.9", population=population, price=priced([2, 4, 8]), record_steps=True,
        uniform_width=True,
    )  # fmt: skip
    assert [step["seconds"] for step in decode(trimmed)] == pytest.approx([2] * 8)
    # 2 · (1 + 3) tokens run, 2 are of use
    assert [step["seconds"] for step in decode(padded)] == pytest.approx([8] * 8)
    assert on["verification_budget"] == off["verification_budget"] == 1
    assert on["accepted_length"] == off["accepted_length"] == 1
    assert on["rejected_share"] == 0
    assert on["padded_share"] == pytest.approx(1 - (2 + 8 * 2) / (2 + 8 * 8))


def test_a_planner_that_knows_of_the_uniform_width_trims_nothing():
    # trimming saves no time there, so that any draft that may pass is worth it
    population = recorded([constant([0.3] * 3, 0)])
    budgets = {
        width: serve(
            arrivals([(1, 30)] * 4), "greedy", population=population, price=cost(**LINEAR),
            uniform_width=width,
        )[1]["verification_budget"]
        for width in (False, True)
    }  # fmt: skip
    assert budgets == {False: 1, True: 4}


def test_static_full_width_is_the_same_either_way():
    population = recorded([constant([0.5] * 3, 2)])
    runs = [
        serve(arrivals([(1, 9)] * 2), "static:3", population=population, price=priced([2, 8]),
              uniform_width=width)[1]
        for width in (False, True)
    ]  # fmt: skip
    for run in runs:
        del run["wall_s"]
    assert runs[0] == runs[1]
