"""What must hold in every run, on random traces and configurations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import random_requests, write_profile, write_trace
from workbench.profiles import StepCost, read_profile
from workbench.serving import ROUTERS, Arm, Demand, Load, Options, build_population
from workbench.serving.metrics import named
from workbench.serving.state import FREE
from workbench.traces import read_trace

SCHEDULERS = (
    "none",
    "static:1",
    "static:3",
    "threshold:0.4",
    "greedy",
    "topk",
    "topk:1",
    "global",
    "oracle",
    "oracle:path",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


def population_of(folder, rng, count, gamma):
    path = write_trace(
        folder / "random.jsonl", random_requests(rng, count, gamma), block_size=gamma
    )
    return build_population([read_trace(str(path))], rng)


def simulated(population, cost, scheduler, load, *, requests, seed=0, **arm):
    """A finished run and its result."""
    run = Arm(scheduler, cost, **arm).run(Demand(population, requests=requests), load, seed=seed)
    run.run()
    return run, run.result()


def staircase(folder):
    return StepCost(
        read_profile(
            str(
                write_profile(
                    folder / "stairs.json",
                    [1, 4, 8, 16, 64],
                    [0.01, 0.011, 0.013, 0.02, 0.06],
                    graphs={"batch_tokens": [1, 2, 4, 8, 16]},
                    draft={"requests": [1, 16], "tokens": [3], "seconds": [[0.001], [0.002]]},
                )
            )
        )
    )


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    gamma=st.integers(3, 5),
    scheduler=st.sampled_from(SCHEDULERS),
    users=st.integers(1, 9),
    running=st.integers(1, 6),
    budget=st.integers(6, 64),
    open_loop=st.booleans(),
    prefill_first=st.booleans(),
    queue=st.sampled_from(["fcfs", "shortest"]),
    spare_blocks=st.none() | st.integers(0, 12),
    replicas=st.integers(1, 3),
    router=st.sampled_from(list(ROUTERS)),
    align=st.booleans(),
    uniform_width=st.booleans(),
)
def test_every_request_gets_exactly_its_tokens(
    folder, seed, gamma, scheduler, users, running, budget, open_loop, prefill_first, queue,
    spare_blocks, replicas, router, align, uniform_width,
):  # fmt: skip
    rng = np.random.default_rng(seed)
    population = population_of(folder, rng, 12, gamma)
    load = Load(rate=float(rng.uniform(1, 200))) if open_loop else Load(concurrency=users)
    longest = int((population.prompt + population.output).max()) + gamma + 1
    kv_tokens = None if spare_blocks is None else (-(-longest // 16) + spare_blocks) * 16
    run, result = simulated(
        population,
        staircase(folder),
        scheduler,
        load,
        requests=30,
        seed=seed,
        replicas=replicas,
        router=router,
        options=Options(
            max_running=running,
            token_budget=budget,
            prefill_first=prefill_first,
            queue=queue,
            kv_tokens=kv_tokens,
            align=align,
            uniform_width=uniform_width,
        ),
    )
    asked = population.output[run.workload.source]
    recorder = run.recorder
    assert result["output_tokens"] == asked.sum()
    assert result["requests_completed"] == 30 == recorder.completed_count
    assert (recorder.issued <= recorder.first).all() and (recorder.first <= recorder.last).all()
    one = asked == 1
    assert (recorder.first[one] == recorder.last[one]).all()
    assert (recorder.first[~one] < recorder.last[~one]).all()
    for replica in run.replicas:
        assert not replica.slots["left"].any()
        free = replica.lists[FREE, : replica.free_count]
        assert sorted(free) == list(range(running))  # every slot came back
        assert replica.kv.free == (replica.kv.capacity or 1 << 62)  # and every block
        assert not replica.parked and not replica.busy and replica.outstanding_tokens == 0
    counters = named(recorder.mark(0.0).sums)
    prefilled = counters["prefill_tokens"]
    assert counters["batch_tokens"] == counters["rounds"] + counters["verified"] + prefilled
    prompts = population.prompt[run.workload.source].sum()
    assert prefilled == prompts if not counters["preemptions"] else prefilled >= prompts
    assert counters["padded_tokens"] >= counters["batch_tokens"]
    if spare_blocks is None:
        assert counters["preemptions"] == 0
    if scheduler.startswith("oracle") and not align:
        assert counters["rejected"] == 0
    if scheduler == "none":
        assert counters["verified"] == 0


def test_preemption_recomputes_and_changes_nothing_but_time(folder):
    population = population_of(folder, np.random.default_rng(4), 12, 3)
    roomy, tight = (
        simulated(population, staircase(folder), "static:3", Load(concurrency=6), requests=40,
                  options=Options(max_running=6, kv_tokens=kv))
        for kv in (None, 160)
    )  # fmt: skip
    assert roomy[1]["preemptions"] == 0 < tight[1]["preemptions"]
    assert tight[1]["simulated_s"] > roomy[1]["simulated_s"]
    assert tight[1]["prefill_tokens"] > roomy[1]["prefill_tokens"]
    assert tight[1]["output_tokens"] == roomy[1]["output_tokens"]


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    scheduler=st.sampled_from(SCHEDULERS),
    kv_tokens=st.sampled_from([None, 160]),
)
def test_littles_law(folder, seed, scheduler, kv_tokens):
    population = population_of(folder, np.random.default_rng(seed), 12, 3)
    run, result = simulated(
        population, staircase(folder), scheduler, Load(concurrency=5), requests=40, seed=seed,
        options=Options(kv_tokens=kv_tokens, record_steps=True),
    )  # fmt: skip
    # requests in the system, integrated over the steps, are the sum of the times spent in it
    times = np.concatenate([run.recorder.issued, run.recorder.last])
    change = np.concatenate([np.ones(40), -np.ones(40)])
    order = np.argsort(times, kind="stable")
    inside = np.cumsum(change[order])[:-1] @ np.diff(times[order])
    assert inside == pytest.approx((run.recorder.last - run.recorder.issued).sum())
    # a closed loop holds all its users inside until the requests run out
    until = run.recorder.issued.max()
    steps = [step for step in run.replicas[0].steps if step[0] < until]
    assert len(steps) and all(step[2] <= 5 for step in steps)
    alone = inside / result["simulated_s"]
    assert alone <= 5 + 1e-9


def test_oracle_with_one_request_needs_as_many_rounds_as_the_full_block(folder):
    for seed in range(20):
        population = population_of(folder, np.random.default_rng(seed), 6, 5)
        rounds = {
            name: simulated(
                population, staircase(folder), name, Load(concurrency=1), requests=6, seed=1
            )[1]["rounds"]
            for name in ("static:5", "oracle", "oracle:path")
        }
        assert rounds["oracle"] == rounds["static:5"] >= rounds["oracle:path"]


def fewest_rounds(accepted: list[int]) -> int:
    """Dynamic programming in plain words: rounds from each anchor to the end."""
    left = len(accepted)
    rounds = [0] * (left + 1)
    for anchor in range(left - 1, -1, -1):
        reach = min(accepted[anchor], left - anchor - 1)
        rounds[anchor] = 1 + min(rounds[anchor + n + 1] for n in range(reach + 1))
    return rounds[0]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), gamma=st.integers(1, 7))
def test_oracle_path_takes_the_fewest_rounds_of_all(folder, seed, gamma):
    population = population_of(folder, np.random.default_rng(seed), 5, gamma)
    expected = 0
    for request in range(5):
        rows = slice(population.row_start[request], population.row_start[request + 1])
        expected += fewest_rounds(population.accepted[rows].tolist())
    results = {
        name: simulated(population, staircase(folder), name, Load(concurrency=2), requests=5)[1]
        for name in ("oracle:path", "oracle", f"static:{gamma}", "topk")
    }
    rounds = {name: result["rounds"] for name, result in results.items()}
    assert rounds["oracle:path"] == expected == min(rounds.values())


def test_schedulers_meet_the_same_requests_and_arrivals(folder):
    population = population_of(folder, np.random.default_rng(3), 12, 3)
    demand = Demand(population, requests=50)
    first, other = (demand.workload(Load(rate=30.0), seed) for seed in (9, 10))
    runs = [
        Arm(name, staircase(folder)).run(demand, Load(rate=30.0), seed=9)
        for name in ("none", "greedy")
    ]
    for run in runs:
        assert (run.workload.source == first.source).all()
        assert (run.workload.due == first.due).all()
    assert (other.due != first.due).all()
