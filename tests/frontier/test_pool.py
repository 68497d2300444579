"""Simulations in processes: same results, nothing twice, stopping, and what a death leaves."""

from __future__ import annotations

import json
import os
import pickle
import threading

import pytest

from tests.frontier.samples import arm, demand
from workbench.errors import InputError
from workbench.frontier import Cache, Group, Pool, Study, Task
from workbench.frontier.pool import _start_method
from workbench.serving import Load


def study(**more) -> Study:
    arms = {name: arm(name) for name in ("none", "static:1", "greedy")}
    groups = [Group("g", demand(), arms, "static:1")]
    return Study(groups, [Load(concurrency=n) for n in (1, 4)], **more)


def figures(runs):
    return [{k: v for k, v in run.items() if k != "wall_s"} for run in runs]


def simulate(some: Study, cache=None, jobs=1) -> Pool:
    with Pool([group.demand for group in some.groups], jobs=jobs, cache=cache) as pool:
        for _ in some.simulate(pool):
            pass
    return pool


def test_processes_give_what_one_process_gives(tmp_path):
    alone, spread = study(seeds=(0, 1)), study(seeds=(0, 1))
    simulate(alone)
    pool = simulate(spread, Cache(tmp_path), jobs=2)
    assert pool.simulated == 12
    assert figures(spread.ordered(0)) == figures(alone.ordered(0))
    assert len(list(tmp_path.rglob("*.json"))) == 12  # kept by the processes themselves


def test_a_run_is_what_the_arm_gives_by_itself():
    some = study()
    simulate(some)
    run = arm("greedy").run(some.groups[0].demand, Load(concurrency=4))
    run.run()
    mine = next(r for r in some.ordered(0) if r["scheduler"] == "greedy" and r["concurrency"] == 4)
    for field in ("throughput_tok_s_gpu", "speed_tok_s_user", "steps", "accepted_length"):
        assert mine[field] == run.result()[field]


def test_nothing_is_simulated_twice(tmp_path):
    cache = Cache(tmp_path)
    first, second = study(), study()
    assert simulate(first, cache).simulated == 6
    pool = simulate(second, cache)
    assert (pool.cached, pool.simulated) == (6, 0)
    assert figures(second.ordered(0)) == figures(first.ordered(0))


def test_what_is_added_is_all_that_is_simulated(tmp_path):
    cache = Cache(tmp_path)
    simulate(study(), cache)
    more = study()
    more.loads = [*more.loads, Load(concurrency=2)]
    pool = simulate(more, cache)
    assert (pool.cached, pool.simulated) == (6, 3)


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"format": "workbench.point/1"}'])
def test_a_damaged_entry_is_simulated_again(tmp_path, damage):
    cache = Cache(tmp_path)
    simulate(study(), cache)
    victim = next(tmp_path.rglob("*.json"))
    whole = json.loads(victim.read_bytes())
    victim.write_bytes(damage)
    assert simulate(study(), cache).simulated == 1
    mended = json.loads(victim.read_bytes())
    assert figures([mended["run"]]) == figures([whole["run"]])


def test_an_entry_under_a_wrong_name_is_not_believed(tmp_path):
    cache = Cache(tmp_path)
    cache.put("ab" + "0" * 62, {"x": 1})
    cache._path("cd" + "0" * 62).parent.mkdir()
    os.rename(cache._path("ab" + "0" * 62), cache._path("cd" + "0" * 62))
    assert cache.get("cd" + "0" * 62) is None


def test_a_cache_that_cannot_be_made_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="--cache"):
        Cache(tmp_path / "file" / "cache").prepare()


def test_what_came_before_an_error_is_kept(tmp_path):
    tasks = [
        Task("a" * 64, arm("static:1"), 0, Load(concurrency=1), 0),
        Task("b" * 64, arm("no-such"), 0, Load(concurrency=1), 0),
    ]
    seen = []
    with (
        pytest.raises(InputError, match="no-such"),
        Pool([demand()], jobs=1, cache=Cache(tmp_path)) as pool,
    ):
        for index, _ in pool.results(tasks):
            seen.append(index)
    assert seen == [0]
    assert Cache(tmp_path).get("a" * 64) is not None


def test_an_error_in_a_process_is_the_same_error():
    tasks = [Task("a" * 64, arm("no-such"), 0, Load(concurrency=1), s) for s in (0, 1)]
    with (
        pytest.raises(InputError, match="no scheduler 'no-such'"),
        Pool([demand()], jobs=2) as pool,
    ):
        list(pool.results(tasks))


def test_recordings_stay_read_only_in_another_process():
    # compiled functions are made per kind of array: a writable copy would be compiled anew
    population = pickle.loads(pickle.dumps(demand().population))
    assert not population.accepted.flags.writeable
    assert not population.confidence.flags.writeable


def test_processes_are_not_forked_beside_threads():
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert _start_method() == "spawn"
    finally:
        done.set()
        thread.join()


def test_a_process_that_dies_is_said(tmp_path):
    file = tmp_path / "fatal.py"
    file.write_text(
        "import os, signal\n"
        "from workbench.schedulers import Scheduler\n"
        "class Fatal(Scheduler):\n"
        "    def verify_lengths(self, view, survival):\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    tasks = [Task(str(s) * 64, arm(f"{file}:Fatal"), 0, Load(concurrency=1), s) for s in (0, 1)]
    with pytest.raises(InputError, match="fewer --jobs"), Pool([demand()], jobs=2) as pool:
        list(pool.results(tasks))


def test_requests_of_a_task_override_the_demands():
    task = Task("a" * 64, arm(), 0, Load(concurrency=2), 0, requests=5)
    with Pool([demand(requests=9)], jobs=1) as pool:
        ((_, run),) = pool.results([task])
    assert run["requests_completed"] == 5
