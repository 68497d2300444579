"""Waiting, admission and prefill: who runs when, with every time worked out by hand."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.serving.samples import arrivals, recorded, serve, steps
from tests.support import workbench, write_profile, write_trace
from workbench.errors import InputError
from workbench.serving import Load, Options
from workbench.serving.queueing import WaitingQueue

# The queue alone ----------------------------------------------------------------------------------


def drained(queue: WaitingQueue) -> list[int]:
    order = []
    while len(queue):
        assert queue.peek() == queue.peek()
        order.append(queue.peek())
        assert queue.pop() == order[-1]
    return order


@given(st.lists(st.integers(0, 4), max_size=30), st.booleans())
def test_lowest_key_first_and_equal_keys_by_arrival(keys, keyed):
    queue = WaitingQueue(np.array(keys, float) if keyed else None)
    for serial in range(len(keys)):
        queue.push(serial)
    assert len(queue) == len(keys)
    expected = sorted(range(len(keys)), key=lambda serial: (keys[serial] if keyed else 0, serial))
    assert drained(queue) == expected


@pytest.mark.parametrize("key", [None, np.arange(9.0)[::-1]])
def test_preempted_requests_go_before_all_others_and_the_older_of_them_first(key):
    queue = WaitingQueue(key)
    for serial in (5, 6):
        queue.push(serial)
    for serial in (4, 3):  # the newest is preempted first
        queue.push_front(serial)
    assert drained(queue) == [3, 4, *([5, 6] if key is None else [6, 5])]


@given(
    st.lists(st.tuples(st.sampled_from(["push", "front", "pop"]), st.integers(0, 3)), max_size=60)
)
def test_nothing_is_lost_or_doubled(moves):
    keys = np.array([key for _, key in moves], float)
    queue, inside = WaitingQueue(keys), set()
    for serial, (move, _) in enumerate(moves):
        if move == "pop":
            if inside:
                inside.remove(queue.pop())
        else:
            (queue.push if move == "push" else queue.push_front)(serial)
            inside.add(serial)
        assert len(queue) == len(inside)
    assert set(drained(queue)) == inside


# In a replica: steps of one second ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("running", "first", "last"),
    [
        (1, [1, 4, 7, 10], [3, 6, 9, 12]),
        (2, [1, 1, 4, 4], [3, 3, 6, 6]),
        (3, [1, 1, 1, 4], [3, 3, 3, 6]),
        (4, [1, 1, 1, 1], [3, 3, 3, 3]),
    ],
)
def test_no_more_than_max_running_run_at_once(running, first, last):
    run, _ = serve(arrivals([(1, 3)] * 4), max_running=running)
    assert run.recorder.first.tolist() == first
    assert run.recorder.last.tolist() == last


@pytest.mark.parametrize(("queue", "order"), [("fcfs", [0, 1, 2, 3]), ("shortest", [1, 3, 2, 0])])
def test_the_queue_decides_who_is_served_next(queue, order):
    # one at a time, one step each; equal prompts (1 and 3) keep their order of arrival
    run, _ = serve(arrivals([(30, 1), (10, 1), (20, 1), (10, 1)]), max_running=1, queue=queue)
    assert np.argsort(run.recorder.first).tolist() == order
    assert sorted(run.recorder.first) == [1, 2, 3, 4]


def test_shortest_prompt_first_does_not_interrupt_who_runs():
    # the long prompt arrives alone and keeps its slot; the short ones overtake the other long one
    come = arrivals([(50, 3), (50, 1), (5, 1), (4, 1)], at=[0, 0.1, 0.2, 0.3])
    run, _ = serve(come, max_running=1, queue="shortest")
    assert run.recorder.last.tolist() == [3, 6, 5, 4]


def test_shortest_prompt_first_has_the_least_mean_waiting_of_all_orders():
    # prefill of p tokens takes p steps of one token: shortest processing time first is optimal
    prompts = [7, 2, 9, 4, 4, 1]
    waits = {}
    for queue in ("fcfs", "shortest"):
        come = arrivals([(p, 1) for p in prompts])
        run, _ = serve(come, max_running=1, token_budget=1, queue=queue)
        waits[queue] = run.recorder.first.mean()
    assert waits["fcfs"] == np.cumsum(prompts).mean()
    assert waits["shortest"] == np.cumsum(sorted(prompts)).mean()


def test_priority_by_domain_lowest_first(tmp_path):
    profile = write_profile(tmp_path / "p.json")
    requests = [
        {"accepted": [0] * 3, "domain": domain}
        for domain in ("chat", "code", "math")
        for _ in "abc"
    ]
    trace = write_trace(tmp_path / "t.jsonl", requests)
    out = tmp_path / "requests.csv"
    code, _, err = workbench(
        "simulate", "--trace", trace, "--profile", profile, "--scheduler", "none", "--concurrency",
        9, "--requests", 9, "--max-running", 1, "--queue", "priority", "--priority",
        "code=-1,chat=2", "--requests-out", out,
    )  # fmt: skip
    assert code == 0, err
    rows = sorted(csv.DictReader(out.open()), key=lambda row: float(row["first_token_s"]))
    # math is not named and so 0; inside a domain by arrival
    assert [row["domain"] for row in rows] == ["code"] * 3 + ["math"] * 3 + ["chat"] * 3
    for start in (0, 3, 6):
        assert [int(row["request"]) for row in rows[start : start + 3]] == sorted(
            int(row["request"]) for row in rows[start : start + 3]
        )


def test_priority_without_priorities_is_refused():
    with pytest.raises(InputError, match="no request has a priority"):
        serve(arrivals([(1, 1)]), queue="priority")


def test_an_idle_replica_starts_when_a_request_arrives_and_a_busy_one_at_its_next_step():
    run, _ = serve(arrivals([(1, 2), (1, 2), (1, 1)], at=[0.25, 0.75, 10]))
    assert run.recorder.first.tolist() == [1.25, 2.25, 11]
    assert run.recorder.last.tolist() == [2.25, 3.25, 11]


def test_a_successor_in_a_closed_loop_joins_the_next_step():
    run, result = serve(arrivals([(1, 4)] * 6), load=Load(concurrency=2))
    assert run.recorder.issued.tolist() == [0, 0, 4, 4, 8, 8]
    assert run.recorder.first.tolist() == [1, 1, 5, 5, 9, 9]
    assert result["steps"] == 12


# Chunked prefill ----------------------------------------------------------------------------------


def chunks(run) -> list[tuple[int, int]]:
    return [(step["decoding"], step["prefill_tokens"]) for step in steps(run)]


def test_a_long_prompt_is_prefilled_in_chunks_of_the_budget():
    run, _ = serve(arrivals([(25, 2)]), token_budget=10, max_running=4, record_steps=True)
    assert chunks(run) == [(0, 10), (0, 10), (0, 5), (1, 0)]
    assert run.recorder.first.tolist() == [3]


def test_the_oldest_prompt_takes_the_budget_first():
    run, _ = serve(arrivals([(15, 1), (10, 1)]), token_budget=10, max_running=4, record_steps=True)
    assert chunks(run) == [(0, 10), (0, 10), (0, 5)]  # 10; 5 + 5; 5
    assert run.recorder.first.tolist() == [2, 3]


def test_mixed_prefill_has_what_decoding_leaves_of_the_budget():
    come = arrivals([(1, 6), (25, 2)], at=[0, 0.5])
    run, _ = serve(come, token_budget=10, max_running=4, record_steps=True)
    # token 0 of the first; three mixed steps; both decode; the first's last token
    assert chunks(run) == [(0, 1), (1, 9), (1, 9), (1, 7), (2, 0), (1, 0)]
    assert run.recorder.first.tolist() == [1, 4]
    assert run.recorder.last.tolist() == [6, 5]


def test_prefill_first_stops_decoding_until_the_prompts_are_in():
    come = arrivals([(1, 6), (25, 2)], at=[0, 0.5])
    run, _ = serve(come, token_budget=10, max_running=4, prefill_first=True, record_steps=True)
    # the whole budget is the prompt's: 10 + 10 + 5, and the first request stands still
    assert chunks(run) == [(0, 1), (0, 10), (0, 10), (0, 5), (2, 0), (1, 0), (1, 0), (1, 0), (1, 0)]
    assert run.recorder.first.tolist() == [1, 4]
    assert run.recorder.last.tolist() == [9, 5]


def test_drafts_take_their_part_of_the_budget_before_prefill_does():
    # budget 8: a decoding request is charged 1 + 3, so that a prompt of 8 takes two steps of 4
    population = recorded([{"accepted": [0] * 8}])
    come = arrivals([(1, 4), (8, 1)], at=[0, 0.5])
    run, _ = serve(
        come, "static:3", population=population, token_budget=8, max_running=4, record_steps=True
    )
    assert chunks(run) == [(0, 1), (1, 4), (1, 4), (1, 0)]
    assert run.recorder.first.tolist() == [1, 3]


def test_drafts_shrink_until_the_running_requests_fit_the_budget():
    # 3 requests in a budget of 8: 1 + 1 tokens each, though static:3 asks for 3 drafts
    population = recorded([{"accepted": [3] * 9}])
    run, result = serve(
        arrivals([(1, 9)] * 3), "static:3", population=population, token_budget=8, max_running=3,
        record_steps=True,
    )  # fmt: skip
    assert [step["verified_drafts"] for step in steps(run)] == [0, 3, 3, 3, 3]
    assert result["steps"] == 1 + 8 / 2


def test_a_budget_below_max_running_limits_what_runs():
    assert Options(max_running=9, token_budget=8).slots == 8
    assert Options(max_running=7, token_budget=8).slots == 7


def test_an_unknown_queue_is_refused():
    with pytest.raises(InputError, match="fcfs, priority, shortest"):
        Options(queue="lifo")


@settings(max_examples=40, deadline=None)
@given(
    requests=st.lists(st.tuples(st.integers(1, 40), st.integers(1, 9)), min_size=1, max_size=12),
    gaps=st.lists(st.floats(0, 5), min_size=12, max_size=12),
    running=st.integers(1, 5),
    budget=st.integers(5, 30),
    first=st.booleans(),
    kv_blocks=st.none() | st.integers(4, 9),
)
def test_first_come_is_first_served(requests, gaps, running, budget, first, kv_blocks):
    come = arrivals(requests, at=np.cumsum(gaps[: len(requests)]))
    run, _ = serve(
        come, max_running=running, token_budget=budget, prefill_first=first, record_steps=True,
        kv_tokens=None if kv_blocks is None else 16 * kv_blocks,
    )  # fmt: skip
    assert (np.diff(run.recorder.first) >= 0).all()  # nobody overtakes, preempted or not
    taken = steps(run)
    assert all(step["decoding"] <= running for step in taken)
    assert all(step["batch_tokens"] <= budget for step in taken)
    if first:
        assert not [step for step in taken if step["kind"] == "mixed"]
    # work conserving: no step is empty, and no second passes idle while anybody waits
    assert all(step["batch_tokens"] > 0 for step in taken)
    ends = np.array([step["start"] + step["seconds"] for step in taken])
    for begin, end in zip(np.array([step["start"] for step in taken])[1:], ends, strict=False):
        if begin > end + 1e-9:
            assert not (
                (run.recorder.issued < begin - 1e-9) & (run.recorder.last > end + 1e-9)
            ).any()
