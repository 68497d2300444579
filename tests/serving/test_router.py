"""Which replica a request goes to, and what several of them do on one clock."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.serving.samples import arrivals, cost, serve
from tests.support import workbench
from workbench.errors import InputError
from workbench.serving import ROUTERS, Load
from workbench.serving.router import make_router


@dataclass
class Fake:
    """What a router sees of a replica."""

    in_system: int = 0
    outstanding_tokens: int = 0


# The rules alone ----------------------------------------------------------------------------------


def test_round_robin_takes_turns_whatever_the_load():
    route = make_router("round-robin", [Fake(9, 9), Fake(), Fake()])
    assert [route(serial, -1) for serial in range(7)] == [0, 1, 2, 0, 1, 2, 0]


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 999)), min_size=1, max_size=6),
)
def test_shortest_queue_counts_requests_and_least_loaded_counts_tokens(state):
    replicas = [Fake(*numbers) for numbers in state]
    queue = make_router("shortest-queue", replicas)(0, -1)
    assert queue == min(range(len(state)), key=lambda i: (state[i][0], i))
    load = make_router("least-loaded", replicas)(0, -1)
    assert load == min(range(len(state)), key=lambda i: (state[i][1], i))


def test_a_session_stays_where_it_began_and_others_go_to_the_shortest_queue():
    replicas = [Fake(), Fake(), Fake()]
    route = make_router("session", replicas)
    assert route(0, 7) == 0
    replicas[0].in_system = 5
    assert route(1, 8) == 1
    assert route(2, 7) == 0  # though the longest
    replicas[1].in_system = 6
    assert route(3, -1) == 2
    replicas[2].in_system = 9
    assert route(4, 8) == 1
    assert route(5, -1) == 0  # a request without a session has no home


def test_every_router_is_fresh():
    for name in ROUTERS:
        first, second = (make_router(name, [Fake(), Fake()]) for _ in range(2))
        assert first(0, 1) == second(0, 1) == 0


def test_an_unknown_router_is_refused():
    with pytest.raises(InputError, match="round-robin, shortest-queue, least-loaded, session"):
        make_router("random", [Fake()])


# In the simulated clock, steps of one second ------------------------------------------------------


@pytest.mark.parametrize(
    ("router", "expected"),
    [
        ("round-robin", [0, 1, 0, 1, 0]),
        # at 0.2 one each, the tie to the first; at 2.5 two against one (done at 5.5);
        # at 6.5 one each again
        ("shortest-queue", [0, 1, 0, 1, 0]),
        # 51 tokens on the first; on the second 10, 13 and 17 and in the end 10
        ("least-loaded", [0, 1, 1, 1, 1]),
    ],
)
def test_where_requests_go(router, expected):
    come = arrivals([(1, 50), (1, 9), (1, 4), (1, 2), (1, 1)], at=[0, 0.1, 0.2, 2.5, 6.5])
    run, _ = serve(come, replicas=2, router=router)
    assert run.recorder.replica.tolist() == expected


def test_requests_in_turn_are_as_if_each_replica_were_alone():
    rng = np.random.default_rng(5)
    requests = [(int(p), int(o)) for p, o in zip(*rng.integers(1, 30, (2, 60)), strict=True)]
    at = np.cumsum(rng.exponential(2.0, 60))
    options = {"max_running": 3, "token_budget": 12, "kv_tokens": 96}
    both, result = serve(arrivals(requests, at=at), replicas=2, **options)
    assert both.recorder.replica.tolist() == [0, 1] * 30
    for index in (0, 1):
        mine = slice(index, None, 2)
        alone, single = serve(arrivals(requests[mine], at=at[mine]), **options)
        for name in ("issued", "first", "last"):
            assert getattr(both.recorder, name)[mine] == pytest.approx(
                getattr(alone.recorder, name), abs=1e-9
            )
        part = result["replicas"][index]
        assert part["requests_completed"] == 30
        assert part["output_tokens"] == single["output_tokens"]
        assert part["steps"] == single["steps"]
        assert part["preemptions"] == single["preemptions"]


def test_throughput_is_per_gpu_and_replicas_add_up():
    price = cost(seconds=[0.5], hardware={"gpu": "x", "gpus": 2})
    run, result = serve(arrivals([(1, 20)] * 12), price=price, replicas=3)
    # 4 requests a replica, a step every half second, 2 GPUs each
    assert result["throughput_tok_s_gpu"] == pytest.approx(4 / 0.5 / 2)
    parts = result["replicas"]
    assert [part["throughput_tok_s_gpu"] for part in parts] == pytest.approx([4 / 0.5 / 2] * 3)
    assert [part["requests_completed"] for part in parts] == [4, 4, 4]
    assert [part["output_tokens"] for part in parts] == [80, 80, 80]
    assert [part["steps"] for part in parts] == [20, 20, 20]
    assert result["steps"] == 60 and result["output_tokens"] == 240
    assert result["simulated_s"] == pytest.approx(10)
    assert np.bincount(run.recorder.replica).tolist() == [4, 4, 4]


def test_one_replica_has_no_list_of_replicas():
    assert "replicas" not in serve(arrivals([(1, 2)]))[1]


def test_the_shortest_queue_beats_taking_turns_where_lengths_alternate():
    # long and short by turns: round robin gives one replica all of the long ones
    come = arrivals([(1, 20), (1, 2)] * 20, at=np.arange(40) * 8.0)
    waits = {
        router: float(np.mean(run.recorder.first - run.recorder.issued))
        for router in ROUTERS
        for run in [serve(come, replicas=2, router=router, max_running=1)[0]]
    }
    # one step each for all that find a free replica; in turn, the long ones (20 s) come every 16 s
    # to the same one, so that the n-th waits 4 n seconds
    assert waits["round-robin"] == pytest.approx(1 + np.mean(4 * np.arange(20)) / 2)
    assert waits["shortest-queue"] < 5
    assert waits["least-loaded"] < 5


def test_session_affinity_finds_the_prefix_and_taking_turns_misses_it():
    # three turns of one session, with other requests between them
    come = arrivals(
        [(32, 17), (8, 1), (80, 17), (8, 1), (8, 1), (128, 17)],
        at=[0, 50, 100, 150, 200, 250], session=[4, -1, 4, -1, -1, 4],
    )  # fmt: skip
    cached = {
        router: serve(come, replicas=2, router=router, kv_tokens=3200, prefix_caching=True)[1][
            "cached_tokens"
        ]
        for router in ("session", "round-robin")
    }
    # 49 tokens leave 48, 97 leave 96; in turns 0 1 0 1 0 1 the third turn meets a cold replica
    assert cached == {"session": 48 + 96, "round-robin": 48}


@settings(max_examples=40, deadline=None)
@given(
    data=st.lists(
        st.tuples(st.integers(1, 20), st.integers(1, 12), st.floats(0, 3), st.integers(-1, 3)),
        min_size=1,
        max_size=20,
    ),
    replicas=st.integers(2, 4),
    router=st.sampled_from(list(ROUTERS)),
    users=st.none() | st.integers(1, 6),
)
def test_no_request_is_lost_between_replicas(data, replicas, router, users):
    prompt, output, gaps, session = zip(*data, strict=True)
    come = arrivals(
        list(zip(prompt, output, strict=True)), at=np.cumsum(gaps), session=list(session)
    )
    run, result = serve(
        come, replicas=replicas, router=router, load=Load(concurrency=users) if users else None
    )
    where = run.recorder.replica
    assert result["output_tokens"] == sum(output)
    parts = result["replicas"]
    assert [p["requests_completed"] for p in parts] == np.bincount(
        where, minlength=replicas
    ).tolist()
    assert [p["output_tokens"] for p in parts] == np.bincount(
        where, weights=output, minlength=replicas
    ).tolist()
    if router == "round-robin":
        assert where.tolist() == [serial % replicas for serial in range(len(data))]
    if router == "session":
        homes = {}
        for index, key in zip(where.tolist(), session, strict=True):
            assert key < 0 or homes.setdefault(key, index) == index
    for replica in run.replicas:
        assert not replica.busy and replica.outstanding_tokens == 0


def test_a_router_needs_something_to_choose_from():
    code, out, err = workbench(
        "simulate", "--trace", "chat.jsonl", "--router", "session", "--concurrency", 1
    )
    assert code == 2 and out == "" and "--router" in err and "--replicas" in err


@pytest.mark.parametrize("at", [[0, 2.0], [0, 1.5, 2.0]])
def test_what_arrives_at_the_instant_of_a_step_joins_it(at):
    run, _ = serve(arrivals([(1, 9)] * len(at), at=at))  # steps of one second
    assert run.recorder.first[-1] == 3


def test_what_completes_elsewhere_at_the_instant_of_a_step_sends_requests_that_join_it():
    run, _ = serve(arrivals([(1, 4)] * 12), load=Load(concurrency=4), replicas=2)
    assert (run.recorder.first - run.recorder.issued == 1).all()
