"""What must hold in every run, on random traces and configurations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import random_requests, write_profile, write_trace
from workbench.profiles import StepCost, read_profile
from workbench.schedulers import create
from workbench.serving import Load, Options, Run, build_population
from workbench.serving.metrics import named
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


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    gamma=st.integers(3, 5),
    scheduler=st.sampled_from(SCHEDULERS),
    users=st.integers(1, 9),
    running=st.integers(1, 6),
    budget=st.integers(6, 64),
    open_loop=st.booleans(),
)
def test_every_request_gets_exactly_its_tokens(
    folder, seed, gamma, scheduler, users, running, budget, open_loop
):
    rng = np.random.default_rng(seed)
    population = population_of(folder, rng, 12, gamma)
    load = Load(rate=float(rng.uniform(1, 200))) if open_loop else Load(concurrency=users)
    run = Run(
        population,
        staircase(folder),
        create(scheduler, gamma),
        load,
        options=Options(max_running=running, token_budget=budget),
        requests=30,
        seed=seed,
    )
    result = run.result()
    asked = population.output[run.workload.source]
    recorder = run.recorder
    assert not run.replica.slots["left"].any()
    assert result["output_tokens"] == asked.sum()
    assert result["requests_completed"] == 30
    assert (recorder.issued <= recorder.first).all() and (recorder.first <= recorder.last).all()
    one = asked == 1
    assert (recorder.first[one] == recorder.last[one]).all()
    assert (recorder.first[~one] < recorder.last[~one]).all()
    assert sorted(run.replica.free) == list(range(running))  # every slot came back
    counters = named(recorder.total())
    prompts = population.prompt[run.workload.source].sum()
    assert counters["batch_tokens"] == counters["rounds"] + counters["verified"] + prompts
    assert counters["padded_tokens"] >= counters["batch_tokens"]
    if scheduler.startswith("oracle"):
        assert counters["rejected"] == 0
    if scheduler == "none":
        assert counters["verified"] == 0


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), scheduler=st.sampled_from(SCHEDULERS))
def test_littles_law(folder, seed, scheduler):
    rng = np.random.default_rng(seed)
    population = population_of(folder, rng, 12, 3)
    run = Run(
        population,
        staircase(folder),
        create(scheduler, 3),
        Load(concurrency=5),
        requests=40,
        seed=seed,
    )
    result = run.result()
    # requests in the system, integrated over time, are the sum of the times spent in it
    times = np.concatenate([run.recorder.issued, run.recorder.last])
    steps = np.concatenate([np.ones(40), -np.ones(40)])
    order = np.argsort(times, kind="stable")
    inside = np.cumsum(steps[order])[:-1] @ np.diff(times[order])
    assert inside == pytest.approx((run.recorder.last - run.recorder.issued).sum())
    assert inside / result["simulated_s"] <= 5 + 1e-9


def test_oracle_with_one_request_needs_as_many_rounds_as_the_full_block(folder):
    for seed in range(20):
        population = population_of(folder, np.random.default_rng(seed), 6, 5)
        rounds = {}
        for name in ("static:5", "oracle", "oracle:path"):
            run = Run(
                population,
                staircase(folder),
                create(name, 5),
                Load(concurrency=1),
                requests=6,
                seed=1,
            )
            rounds[name] = run.result()["rounds"]
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
    rng = np.random.default_rng(seed)
    population = population_of(folder, rng, 5, gamma)
    expected = 0
    for request in range(5):
        rows = slice(population.row_start[request], population.row_start[request + 1])
        expected += fewest_rounds(population.accepted[rows].tolist())
    results = {}
    for name in ("oracle:path", "oracle", f"static:{gamma}", "topk"):
        run = Run(
            population,
            staircase(folder),
            create(name, gamma),
            Load(concurrency=2),
            requests=5,
            seed=0,
        )
        results[name] = run.result()["rounds"]
    assert results["oracle:path"] == expected == min(results.values())


def test_schedulers_meet_the_same_requests_and_arrivals(folder):
    population = population_of(folder, np.random.default_rng(3), 12, 3)
    runs = [
        Run(population, staircase(folder), create(name, 3), Load(rate=30.0), requests=50, seed=9)
        for name in ("none", "greedy")
    ]
    assert (runs[0].workload.source == runs[1].workload.source).all()
    assert (runs[0].workload.due == runs[1].workload.due).all()
    other = Run(
        population, staircase(folder), create("none", 3), Load(rate=30.0), requests=50, seed=10
    )
    assert (other.workload.due != runs[0].workload.due).all()
