"""The compiled loop against the steps in Python: every figure equal, to the bit."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import random_requests, write_profile, write_trace
from workbench.compiled import why_slow
from workbench.profiles import StepCost, profile_belief, read_planner_table, read_profile
from workbench.serving import ROUTERS, Arm, Demand, Load, Options, build_population
from workbench.traces import read_trace

pytestmark = pytest.mark.skipif(why_slow() is not None, reason="there is no compiled loop")

SCHEDULERS = ("none", "static:1", "static:3", "threshold:0.4", "greedy", "topk", "topk:1", "global")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("loop")


MORE = {
    "full": {},
    "mixed": {
        "mixed": {"prefill_tokens": [1, 32], "batch_tokens": [1, 64],
                  "seconds": [[0.02, 0.07], [0.03, 0.08]]},
        "target": {"name": "x", "layers": 10},
    },
    "factor": {"target": {"name": "x", "layers": 10}},
    "axes": {
        "verify": {"batch_tokens": [1, 4, 8, 16, 64], "seconds": [0.01, 0.011, 0.013, 0.02, 0.06],
                   "prefill_token_seconds": -1e-5},
    },
}  # fmt: skip


def full_profile(folder, name="full"):
    more = MORE.get(name, {})
    attention, draft = {}, {}
    if name == "mixed":
        attention = {"mixed": {"requests": [1, 8], "context_tokens": [16, 256],
                               "seconds": [[0, 0.002], [0, 0.009]]}}  # fmt: skip
    if name == "factor":
        attention = {"mixed": 1.7}
        draft = {"context_layers": 3}
    if name == "axes":
        attention = {
            "query_tokens": [1, 3],
            "mixed": 1.3,
            "seconds": [[[0, 0.001], [0, 0.004]], [[0, 0.0013], [1e-4, 0.007]]],
        }
        draft = {
            "context_tokens": [8, 64, 200],
            "seconds": [
                [[0.001, 0.002], [0.002, 0.005]],
                [[0.001, 0.003], [0.002, 0.006]],
                [[0.004, 0.005], [0.007, 0.009]],
            ],
        }
    return read_profile(str(write_profile(
        folder / f"{name}.json", [1, 4, 8, 16, 64], [0.01, 0.011, 0.013, 0.02, 0.06],
        graphs={"batch_tokens": [1, 2, 4, 8, 16],
                "beyond": {"batch_tokens": [17, 64], "seconds": [0.05, 0.09]}},
        attention={"requests": [1, 8], "context_tokens": [16, 256],
                   "seconds": [[0, 0.001], [0, 0.004]], **attention},
        prefill={"chunk_tokens": [4, 64], "context_tokens": [0, 64],
                 "seconds": [[0.0, 1e-4], [1e-3, 2e-3]]},
        draft={"requests": [1, 8], "tokens": [1, 3], "seconds": [[0.001, 0.002], [0.002, 0.005]],
               "per_prefill_token_seconds": 1e-6, **draft},
        host={"sync_seconds": 4e-4, "async_seconds": 1e-5, "per_request_seconds": 1e-6,
              "per_new_request_seconds": 2e-6},
        kv_cache={"capacity_tokens": 4096, "block_tokens": 4},
        power={"batch_tokens": [1, 64], "watts": [100.0, 300.0]}, **more,
    )))  # fmt: skip


def table(folder, kind):
    if kind == "truth":
        return None
    if kind in ("floor", "ceil", "linear", "cells"):
        return profile_belief(full_profile(folder, "axes"), kind)
    path = folder / "sps.json"
    path.write_text(
        '{"sample_batch_tokens":[1,8,32],"sample_steps_per_sec":[90,70,30],"max_batch_tokens":64}'
        if kind == "sglang"
        else '{"bias_seconds":0.01,"bs_probes":[1,4],"alpha_seconds":[0.0,0.001],'
        '"m_probes":[0,16,64],"theta_seconds":[0.0,0.004,0.03]}'
    )
    return read_planner_table(str(path))


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    scheduler=st.sampled_from(SCHEDULERS),
    users=st.integers(1, 12),
    open_loop=st.booleans(),
    stagger=st.booleans(),
    running=st.integers(1, 8),
    budget=st.integers(8, 64),
    prefill_first=st.booleans(),
    spare=st.none() | st.integers(0, 30),
    replicas=st.integers(1, 3),
    router=st.sampled_from(list(ROUTERS)),
    costs=st.sampled_from(list(MORE)),
    belief=st.sampled_from(["truth", "floor", "ceil", "linear", "cells", "sglang", "additive"]),
)
def test_both_paths_give_the_same_run(
    folder, seed, scheduler, users, open_loop, stagger, running, budget, prefill_first, spare,
    replicas, router, costs, belief,
):  # fmt: skip
    rng = np.random.default_rng(seed)
    path = write_trace(folder / "t.jsonl", random_requests(rng, 10, 3), block_size=3)
    population = build_population([read_trace(str(path))], rng)
    rate = float(rng.uniform(1, 300))
    load = Load(rate=rate) if open_loop else Load(concurrency=users, stagger=stagger)
    longest = int((population.prompt + population.output).max()) + 4
    options = Options(
        max_running=running,
        token_budget=budget,
        prefill_first=prefill_first,
        kv_tokens=None if spare is None else (-(-longest // 4) + spare) * 4,
    )
    runs = []
    for compiled in (True, False):
        arm = Arm(
            scheduler, StepCost(full_profile(folder, costs)), table(folder, belief),
            dataclasses.replace(options, compiled=compiled), replicas=replicas, router=router,
        )  # fmt: skip
        run = arm.run(Demand(population, requests=25), load, seed=seed)
        run.run()
        runs.append(run)
    fast, slow = runs
    assert all(replica._fast is None for replica in slow.replicas)
    assert all((replica._fast is None) == (belief == "cells") for replica in fast.replicas)
    assert (fast.recorder.times == slow.recorder.times).all()
    assert (fast.recorder.replica == slow.recorder.replica).all()
    results = [run.result(slo={"ttft": 0.1, "tpot": 0.02}) for run in runs]
    for result in results:
        del result["wall_s"]
    joules = [result.pop("energy_j_token") for result in results]
    assert joules[0] == pytest.approx(joules[1], rel=1e-12)  # added up in another order
    assert results[0] == results[1]
    for one, other in zip(fast.replicas, slow.replicas, strict=True):
        assert (one.counters == other.counters).all()
        assert one.kv.free == other.kv.free and one.outstanding_tokens == 0
