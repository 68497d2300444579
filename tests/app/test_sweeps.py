"""Sweeps in the background: quick then full, ended, failed; and the closed form before them."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import numpy as np
import pytest

from app.sweeps import Results, Sweep, Wanted
from tests.support import random_requests, write_profile, write_trace
from workbench.frontier import Task
from workbench.profiles import StepCost, read_profile
from workbench.serving import Arm, Demand, Load, build_population, stream
from workbench.traces import read_trace


@pytest.fixture(scope="module")
def demand(tmp_path_factory):
    path = tmp_path_factory.mktemp("sweep") / "t.jsonl"
    write_trace(path, random_requests(np.random.default_rng(5), 30, 3))
    return Demand(build_population([read_trace(path)], stream(0, "densify")), np.ones(1))


@pytest.fixture(scope="module")
def cost(tmp_path_factory):
    path = write_profile(tmp_path_factory.mktemp("sweep") / "p.json")
    return StepCost(read_profile(path))


def _wanted(cost, spec="static:2", full=200, quick=20) -> Wanted:
    def task(count):
        return Task(f"{spec} {count}", Arm(spec, cost), 0, Load(concurrency=2), 0, spec, count)

    return Wanted(task(full), task(quick) if quick else None)


def _work(sweep: Sweep) -> None:
    for task in sweep.steps:
        sweep.step(task)


def test_the_quick_pass_comes_first_and_is_replaced(demand, cost):
    sweep = Sweep(demand, [_wanted(cost), _wanted(cost, "none")], Results())
    assert [task.requests for task in sweep.steps] == [20, 20, 200, 200]
    for task in sweep.steps[:2]:
        sweep.step(task)
    assert [(run["quick"], run["requests"]) for run in sweep.runs()] == [(True, 20)] * 2
    assert not sweep.finished
    for task in sweep.steps[2:]:
        sweep.step(task)
    assert sweep.finished
    assert [(run["quick"], run["requests"]) for run in sweep.runs()] == [(False, 200)] * 2


class _Queue:
    """An executor that runs nothing by itself."""

    def __init__(self):
        self.tasks = []

    def submit(self, _, task):
        self.tasks.append(task)


def test_what_only_sharpens_waits_for_what_is_waited_for(demand, cost):
    sweep = Sweep(demand, [_wanted(cost), _wanted(cost, "none", full=30, quick=0)], Results())
    workers = SimpleNamespace(prompt=_Queue(), patient=_Queue())
    sweep.start(workers)
    assert [task.requests for task in workers.prompt.tasks] == [20, 30]
    for task in workers.prompt.tasks:
        assert not workers.patient.tasks
        sweep.step(task)
    assert [task.requests for task in workers.patient.tasks] == [200]
    sweep.step(workers.patient.tasks[0])
    assert sweep.finished

    again = Sweep(demand, [_wanted(cost)], sweep.results)
    again.start(workers)
    assert again.finished and len(workers.patient.tasks) == 1


def test_what_is_known_is_not_simulated_again(demand, cost):
    results = Results()
    _work(Sweep(demand, [_wanted(cost)], results))
    again = Sweep(demand, [_wanted(cost), _wanted(cost, "none")], results)
    assert {task.name for task in again.steps} == {"none"}
    assert Sweep(demand, [_wanted(cost)], results).finished


def test_cancel_ends_a_simulation_that_runs(demand, cost):
    sweep = Sweep(demand, [_wanted(cost, full=2_000_000, quick=0)], Results())
    worker = threading.Thread(target=_work, args=(sweep,), daemon=True)
    worker.start()
    sweep.cancel()
    worker.join(30)
    assert not worker.is_alive()
    assert sweep.finished and sweep.cancelled and sweep.runs() == []


def test_a_scheduler_that_fails_leaves_the_others(cost, tmp_path):
    requests = [
        {**request, "confidence": None}
        for request in random_requests(np.random.default_rng(6), 5, 3)
    ]
    path = write_trace(tmp_path / "bare.jsonl", requests)
    demand = Demand(build_population([read_trace(path)], stream(0, "densify")), np.ones(1))
    sweep = Sweep(demand, [_wanted(cost, "topk"), _wanted(cost, "none")], Results())
    _work(sweep)
    assert sweep.finished
    assert list(sweep.errors) == ["topk"] and "confidences" in sweep.errors["topk"]
    assert {run["scheduler"] for run in sweep.runs()} == {"none"}


def test_results_are_bounded(monkeypatch):
    monkeypatch.setattr("app.sweeps._KEPT", 3)
    results = Results()
    for number in range(5):
        results.put(str(number), {})
    assert results.get("1") is None and results.get("4") is not None


def test_the_closed_form_is_near_the_simulation():
    from app.estimate import estimate
    from app.scene import library, scene

    profile = next(iter(library("profiles").choices().values()))
    trace = library("traces").choices()["chat"]
    made = scene(profile, (trace,), (1.0,))
    loads = [Load(concurrency=4, stagger=True), Load(concurrency=64, stagger=True)]
    frame = estimate(made, ["none", "static:3", "topk"], loads)
    assert set(frame["scheduler"]) == {"none", "static:3"}
    for row in frame.to_dict("records"):
        run = Arm(row["scheduler"], made.cost).run(
            made.demand, Load(concurrency=row["load"], stagger=True)
        )
        run.run()
        result = run.result()
        assert row["tok/s/GPU"] == pytest.approx(result["throughput_tok_s_gpu"], rel=0.08)
        assert row["tok/s/user"] == pytest.approx(result["speed_tok_s_user"]["mean"], rel=0.12)
