"""KV blocks: accounting, admission, preemption by recomputation, prefixes kept by session."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.serving.samples import arrivals, cost, recorded, serve, steps
from workbench.errors import InputError
from workbench.serving import Load
from workbench.serving.kv import KVCache

# The cache alone ----------------------------------------------------------------------------------


def test_blocks_are_whole_and_the_rest_of_the_capacity_is_lost():
    kv = KVCache(100, 16)
    assert kv.capacity == 6 == kv.free
    assert [kv.blocks(tokens) for tokens in (0, 1, 16, 17, 96)] == [0, 1, 1, 2, 6]
    assert kv.take(81) == 6 and kv.free == 0
    assert kv.take(1) is None
    kv.give(6)
    assert kv.free == 6


def test_without_a_capacity_there_is_always_room():
    kv = KVCache(None, 16)
    assert kv.take(10**12) == kv.blocks(10**12)


def test_a_finished_session_leaves_its_whole_blocks_for_its_next_request():
    kv = KVCache(160, 16)
    blocks = kv.take(50)
    kv.give(blocks, session=7, tokens=45)  # 2 whole blocks and 13 tokens
    assert kv.cached_blocks == 2 and kv.free == 8
    assert kv.hit(7, prompt=100) == 32
    assert kv.hit(7, prompt=33) == 32
    assert kv.hit(7, prompt=32) == 16  # one token has to be computed, and blocks are whole
    assert kv.hit(7, prompt=1) == 0
    assert kv.hit(8, prompt=100) == 0
    assert kv.take(100, session=7) == 7
    assert kv.free == 10 - 7 and kv.cached_blocks == 0


def test_the_least_recently_used_session_is_evicted_first_and_only_when_needed():
    kv = KVCache(160, 16)
    for session in (1, 2, 3):
        kv.give(kv.take(48), session=session, tokens=48)
    assert kv.cached_blocks == 9 and kv.free == 1
    kv.give(kv.take(48, session=1), session=1, tokens=48)  # session 1 is used again
    assert kv.take(64) == 4
    assert [kv.hit(session, 1000) for session in (1, 2, 3)] == [48, 0, 48]
    assert kv.free == 0


def test_a_request_never_evicts_the_prefix_that_it_is_about_to_use():
    kv = KVCache(96, 16)
    kv.give(kv.take(48), session=1, tokens=48)
    kv.give(kv.take(48), session=2, tokens=48)
    assert kv.take(96, session=1) == 6
    assert kv.hit(2, 1000) == 0 and kv.free == 0


@settings(max_examples=150)
@given(
    capacity=st.integers(0, 20),
    block=st.integers(1, 16),
    moves=st.lists(st.tuples(st.booleans(), st.integers(1, 200), st.integers(-1, 3)), max_size=60),
)
def test_every_block_is_free_held_or_cached(capacity, block, moves):
    kv = KVCache(capacity * block, block)
    held = []
    for take, tokens, session in moves:
        if take:
            known, room = kv.hit(session, tokens), kv.free + kv.cached_blocks
            assert 0 <= known < tokens and known % block == 0
            blocks = kv.take(tokens, session)
            assert (blocks is not None) == (kv.blocks(tokens) <= room)
            if blocks is not None:
                assert blocks == kv.blocks(tokens)
                held.append((blocks, tokens, session))
        elif held:
            blocks, used, owner = held.pop(tokens % len(held))
            kv.give(blocks, owner, used)
            assert owner < 0 or kv.hit(owner, 10**6) == used // block * block
        assert kv.free >= 0
        assert kv.free + kv.cached_blocks + sum(blocks for blocks, _, _ in held) == capacity


# Admission, in steps of one second ----------------------------------------------------------------


def test_a_request_is_admitted_when_blocks_for_its_prompt_and_lookahead_are_free():
    # 16 prompt tokens and 1 of lookahead are 2 blocks: two of three requests fit in 4
    run, _ = serve(arrivals([(16, 5)] * 3), kv_tokens=64)
    assert run.recorder.first.tolist() == [1, 1, 6]
    assert run.recorder.last.tolist() == [5, 5, 10]


@pytest.mark.parametrize(
    ("scheduler", "prompt", "together"),
    [
        ("none", 15, 2),  # 15 + 1 tokens are one block
        ("none", 16, 1),
        ("static:1", 14, 2),  # 14 + 2
        ("static:1", 15, 1),
        ("static:3", 12, 2),  # 12 + γ + 1
        ("static:3", 13, 1),
        ("greedy", 12, 2),  # reserves for γ whatever it verifies
        ("greedy", 13, 1),
        ("topk", 13, 1),
        ("oracle", 13, 1),
    ],
)
def test_each_running_request_reserves_its_drafts_and_the_anchor(scheduler, prompt, together):
    # prefill alone, so that only the admission is seen: 2 blocks, each request one or two
    run, _ = serve(
        arrivals([(prompt, 1)] * 2), scheduler, population=recorded([{"accepted": [0] * 4}]),
        kv_tokens=32,
    )  # fmt: skip
    assert run.recorder.first.tolist() == ([1, 1] if together == 2 else [1, 2])


def test_a_large_request_at_the_head_holds_back_small_ones_behind_it():
    # 6 blocks: the running request holds 4, the head wants 3, the small one 1
    run, _ = serve(arrivals([(60, 3), (40, 2), (5, 2)], at=[0, 0.1, 0.2]), kv_tokens=96)
    assert run.recorder.first.tolist() == [1, 4, 4]


def test_the_block_size_and_the_capacity_come_from_the_profile():
    price = cost(kv_cache={"capacity_tokens": 64, "block_tokens": 64})
    run, _ = serve(arrivals([(10, 5)] * 2), price=price)
    assert run.recorder.first.tolist() == [1, 6]
    run, _ = serve(arrivals([(10, 5)] * 2), price=price, kv_tokens=128)
    assert run.recorder.first.tolist() == [1, 1]


def test_a_request_that_can_never_fit_is_refused_before_the_run():
    with pytest.raises(InputError, match=r"request 1 needs 101 tokens .* --kv-tokens|--kv-tokens"):
        serve(arrivals([(10, 5), (60, 40)]), kv_tokens=96)
    run, _ = serve(arrivals([(10, 5), (60, 40)]), kv_tokens=112)
    assert run.recorder.completed_count == 2


# Preemption ---------------------------------------------------------------------------------------


def test_the_newest_is_preempted_and_its_tokens_are_computed_again():
    """64 tokens, two requests of 15 + 40.

    Decode step d holds 14 + d tokens each and reserves one more: 2 blocks each up to d = 17; at
    d = 18 both want a third and the newer one goes, 18 tokens emitted, 33 to be recomputed (15 + 18
    with its anchor). These and 1 of lookahead are 3 blocks, which are free once the older one is
    done after 40 steps; the recomputing step emits token 18, 21 further ones follow.
    """
    run, result = serve(arrivals([(15, 40)] * 2), kv_tokens=64, record_steps=True)
    assert run.recorder.first.tolist() == [1, 1]  # the first token stays where it was
    assert run.recorder.last.tolist() == [40, 40 + 1 + 21]
    assert result["preemptions"] == 1
    assert result["prefill_tokens"] == 15 + 15 + 33
    assert result["output_tokens"] == 80
    decoding = [step["decoding"] for step in steps(run)]
    assert decoding == [0] + [2] * 17 + [1] * 22 + [0] + [1] * 21


@pytest.mark.parametrize(("lucky", "saved"), [(47, [1, 2]), (48, [0, 0])])
def test_replay_goes_on_at_the_right_anchor_after_recomputation(lucky, saved):
    """50 tokens have anchors 0..48, of which one accepts its draft.

    Anchor 47 is met with two tokens left and saves a step (the second request starts a step sooner
    for it and saves one of its own); anchor 48 is the last and saves none. One anchor too far or
    too few after the recomputation, and it is the other way round.
    """
    accepted = [0] * 49
    accepted[lucky] = 1
    ends = []
    for rows in ([0] * 49, accepted):
        run, result = serve(
            arrivals([(15, 50)] * 2), "static:1", population=recorded([{"accepted": rows}]),
            kv_tokens=80,
        )  # fmt: skip
        assert result["preemptions"] == 1 and result["output_tokens"] == 100
        ends.append(run.recorder.last)
    assert (ends[0] - ends[1]).tolist() == saved


def test_a_prompt_that_is_still_being_prefilled_can_be_preempted():
    """3 blocks, a budget of 2 tokens a step.

    The old request's 15 prompt tokens take 7½ steps; the new one has the other 2 blocks and gets a
    token each in steps 8 and 9. In step 10 the old one wants its second block: the new one goes and
    waits for its two until the old one is done at 27, then starts from nothing, 15 steps long.
    """
    come = arrivals([(15, 20), (30, 1)], at=[0, 0.5])
    run, result = serve(come, kv_tokens=48, token_budget=2, max_running=2)
    assert result["preemptions"] == 1
    assert run.recorder.first.tolist() == [8, 42]
    assert run.recorder.last.tolist() == [27, 42]
    assert result["prefill_tokens"] == 15 + 2 + 30


def test_an_older_request_is_never_stopped_by_a_newer_one():
    # the oldest of many runs as if it were alone
    alone, _ = serve(arrivals([(10, 60)]), kv_tokens=80)
    crowd, result = serve(arrivals([(10, 60)] + [(10, 50)] * 8), kv_tokens=80)
    assert result["preemptions"] > 0
    assert crowd.recorder.last[0] == alone.recorder.last[0] == 60


@settings(max_examples=60, deadline=None)
@given(
    requests=st.lists(st.tuples(st.integers(1, 60), st.integers(1, 40)), min_size=1, max_size=14),
    spare=st.integers(0, 6),
    block=st.sampled_from([1, 4, 16]),
    budget=st.integers(8, 40),
    sessions=st.lists(st.integers(-1, 2), min_size=14, max_size=14),
    caching=st.booleans(),
    first=st.booleans(),
    queue=st.sampled_from(["fcfs", "shortest"]),
    scheduler=st.sampled_from(["none", "static:2", "topk", "threshold:0.4"]),
    users=st.none() | st.integers(1, 6),
)
def test_under_pressure_all_are_served_and_all_blocks_come_back(
    requests, spare, block, budget, sessions, caching, first, queue, scheduler, users
):
    count = len(requests)
    longest = max(prompt + output for prompt, output in requests) + 4
    population = recorded([{"accepted": [0, 3, 1, 0, 2] * 8}, {"accepted": [1] * 7}])
    run, result = serve(
        arrivals(requests, at=np.arange(count) * 0.7, session=sessions[:count]), scheduler,
        price=cost(kv_cache={"capacity_tokens": block, "block_tokens": block}),
        population=population, load=Load(concurrency=users) if users else None,
        kv_tokens=-(-longest // block) * block + spare * block, token_budget=budget, max_running=8,
        prefix_caching=caching, prefill_first=first, queue=queue,
    )  # fmt: skip
    recorder, (replica,) = run.recorder, run.replicas
    assert result["requests_completed"] == count
    assert result["output_tokens"] == sum(output for _, output in requests)
    assert (recorder.issued < recorder.first).all() and (recorder.first <= recorder.last).all()
    assert replica.kv.free + replica.kv.cached_blocks == replica.kv.capacity
    assert caching or replica.kv.cached_blocks == 0
    assert replica.in_system == replica.outstanding_tokens == 0
    prompts = sum(prompt for prompt, _ in requests)
    computed = result["prefill_tokens"] + result["cached_tokens"]
    # a request that is preempted while its prompt is in chunks may lose less than a prompt
    assert computed == prompts if not result["preemptions"] else computed >= prompts
    # Little's law: requests in the system, integrated, are the times spent in it, summed
    times = np.concatenate([recorder.issued, recorder.last])
    change = np.repeat([1, -1], count)
    order = np.argsort(times, kind="stable")
    inside = np.cumsum(change[order])[:-1] @ np.diff(times[order])
    assert inside == pytest.approx((recorder.last - recorder.issued).sum())


# Prefix caching -----------------------------------------------------------------------------------

TURNS = {"requests": [(20, 21), (60, 2)], "at": [0, 100], "session": [0, 0]}


def test_the_next_turn_of_a_session_skips_what_is_cached():
    # 41 tokens leave 2 whole blocks; of 60 prompt tokens 28 are left, in chunks of 10
    off, on = (
        serve(arrivals(**TURNS), kv_tokens=960, token_budget=10, max_running=4, prefix_caching=on)
        for on in (False, True)
    )
    assert off[1]["cached_tokens"] == 0 and off[1]["prefill_tokens"] == 80
    assert on[1]["cached_tokens"] == 32 and on[1]["prefill_tokens"] == 48
    assert off[0].recorder.first.tolist() == [2, 106]
    assert on[0].recorder.first.tolist() == [2, 103]


def test_sessions_do_not_share_and_an_evicted_one_is_computed_again():
    come = {"requests": [(20, 21), (60, 2), (60, 2)], "at": [0, 100, 200]}
    _, other = serve(arrivals(**come, session=[0, 1, -1]), kv_tokens=960, prefix_caching=True)
    assert other["cached_tokens"] == 0
    # 5 blocks: the second session's 63 tokens take 4, so that the first's 2 cannot stay
    _, tight = serve(arrivals(**come, session=[0, 1, 0]), kv_tokens=80, prefix_caching=True)
    assert tight["cached_tokens"] == 0 and tight["preemptions"] == 0
    _, roomy = serve(arrivals(**come, session=[0, 1, 0]), kv_tokens=160, prefix_caching=True)
    assert roomy["cached_tokens"] == 32


def test_a_second_turn_before_the_first_has_ended_finds_nothing():
    run, result = serve(
        arrivals([(20, 21), (60, 2)], at=[0, 5], session=[0, 0]), kv_tokens=960, prefix_caching=True
    )
    assert result["cached_tokens"] == 0
    assert run.recorder.completed_count == 2


def test_recorded_cache_hits_are_used_where_there_is_no_session():
    come = arrivals([(20, 2), (30, 2)], cached=[0, 30])
    _, result = serve(come, prefix_caching=True)
    assert result["cached_tokens"] == 29  # one token of a prompt is always computed
    assert result["prefill_tokens"] == 21
    assert serve(come)[1]["cached_tokens"] == 0


def restored(loss: float, *, share: float = 1.0, gamma: int = 4, tokens: int = 20_000):
    """One request of always accepted drafts after a prefix that covers ``share`` of its context."""
    prompt = 10**8
    come = arrivals([(prompt, tokens)], cached=[int(prompt * share)])
    population = recorded([{"accepted": [gamma] * 1000}], block_size=gamma)
    return serve(
        come, f"static:{gamma}", population=population, prefix_caching=True, undrafted_loss=loss,
        token_budget=prompt, seed=1,
    )[1]  # fmt: skip


@pytest.mark.parametrize(("loss", "share"), [(0.5, 1.0), (0.25, 1.0), (0.5, 0.5), (0.8, 0.75)])
def test_restored_prefixes_cost_acceptance(loss, share):
    """A draft passes with probability q = 1 − loss·share: τ = Σ_{k≤γ} q^k."""
    gamma, result = 4, restored(loss, share=share)
    q = 1 - loss * share
    chance = np.append(q ** np.arange(gamma) * (1 - q), q**gamma)
    lengths = np.arange(gamma + 1) + 1.0
    expected = chance @ lengths
    assert expected == pytest.approx(sum(q**k for k in range(gamma + 1)))
    error = np.sqrt(chance @ (lengths - expected) ** 2 / result["rounds"])
    assert abs(result["accepted_length"] - expected) < 4 * error


def test_the_loss_is_off_by_default_and_total_at_one():
    assert restored(0.0)["accepted_length"] == 5
    assert restored(1.0, tokens=200)["accepted_length"] == pytest.approx(1, abs=1e-6)
    assert restored(0.5, share=0.0, tokens=200)["accepted_length"] == 5


def test_the_loss_fades_as_the_context_grows():
    # 10 restored tokens of 11: hurt at first, hardly after thousands of tokens
    come = arrivals([(11, 40_000)], cached=[10])
    population = recorded([{"accepted": [3] * 1000}])
    options = {"prefix_caching": True, "undrafted_loss": 1.0, "population": population}
    _, long = serve(come, "static:3", **options)
    _, short = serve(arrivals([(11, 30)], cached=[10]), "static:3", **options)
    assert 1 <= short["accepted_length"] < 3.5 < 3.9 < long["accepted_length"] < 4


@pytest.mark.parametrize("kv", [None, 100_000])
def test_a_session_leaves_all_that_was_computed(kv):
    come = arrivals([(10, 101), (130, 1)], at=[0, 500], session=[0, 0])
    assert serve(come, kv_tokens=kv, prefix_caching=True)[1]["cached_tokens"] == 96


def test_the_last_token_is_never_computed_and_never_cached():
    come = arrivals([(10, 6), (120, 1)], at=[0, 500], session=[0, 0])  # 15 tokens, blocks of 16
    assert serve(come, kv_tokens=9600, prefix_caching=True)[1]["cached_tokens"] == 0
