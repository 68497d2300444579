"""What changes a key and what must not."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.frontier.samples import arm, demand
from tests.support import write_profile, write_trace
from workbench.frontier import digest as module
from workbench.frontier.digest import arm_digest, demand_digest, digest, point_key
from workbench.profiles import StepCost, profile_belief, read_profile
from workbench.serving import Load, Options, build_population
from workbench.traces import read_trace


def test_types_borders_and_order_count():
    different = [
        (1,),
        (1.0,),
        ("1",),
        (True,),
        (None,),
        (b"1",),
        ("a", "b"),
        ("ab",),
        (["a", "b"],),
        ([["a"], "b"],),
        ({"a": "b"},),
        (np.arange(4),),
        (np.arange(4).reshape(2, 2),),
        (np.arange(4, dtype=np.int32),),
    ]
    assert len({digest(*values) for values in different}) == len(different)
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})


def test_equal_content_has_one_key():
    assert arm_digest(arm()) == arm_digest(arm())
    assert demand_digest(demand()) == demand_digest(demand())
    assert demand_digest(demand(0)) != demand_digest(demand(1))


def test_a_key_does_not_change_by_use():
    used, fresh = arm("greedy"), arm("greedy")
    some = demand()
    before = demand_digest(some)
    run = used.run(some, Load(concurrency=4))
    run.run()
    assert arm_digest(used) == arm_digest(fresh)
    assert demand_digest(some) == before


@pytest.mark.parametrize(
    "other",
    [
        arm("static:2"),
        arm(seconds=(0.01, 0.03)),
        arm(options=Options(max_running=8)),
        arm(replicas=2),
        arm(lag=3),
        arm(belief=profile_belief(arm().cost.profile)),
    ],
    ids=["scheduler", "profile", "options", "replicas", "lag", "belief"],
)
def test_every_part_of_an_arm_counts(other):
    assert arm_digest(other) != arm_digest(arm())


def test_beliefs_differ_by_their_rule(tmp_path):
    profile = read_profile(str(write_profile(tmp_path / "p.json", [1, 8, 64], [1, 2, 4])))
    made = {
        rule: arm_digest(arm(belief=profile_belief(profile, rule))) for rule in ("floor", "linear")
    }
    assert made["floor"] != made["linear"]
    again = arm_digest(arm(belief=profile_belief(profile, "floor")))
    assert again == made["floor"]


def test_load_seed_requests_and_metrics_count():
    keys = {
        point_key("a", "d", Load(concurrency=4), 0, 10),
        point_key("a", "d", Load(concurrency=5), 0, 10),
        point_key("a", "d", Load(concurrency=4, stagger=True), 0, 10),
        point_key("a", "d", Load(rate=4.0), 0, 10),
        point_key("a", "d", Load(concurrency=4), 1, 10),
        point_key("a", "d", Load(concurrency=4), 0, 11),
        point_key("a", "d", Load(concurrency=4), 0, 10, {"slo": {"ttft": 1.0}}),
        point_key("b", "d", Load(concurrency=4), 0, 10),
        point_key("a", "e", Load(concurrency=4), 0, 10),
    }
    assert len(keys) == 9


def test_a_users_scheduler_counts_by_its_text(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("class A: pass\n")
    before = arm_digest(arm(f"{file}:A"))
    file.write_text("class A: x = 1\n")
    assert arm_digest(arm(f"{file}:A")) != before


def test_the_file_name_of_a_trace_does_not_count(tmp_path):
    def population(name, **more):
        path = write_trace(tmp_path / name, [{"accepted": [1, 2], **more}])
        return build_population([read_trace(str(path))], np.random.default_rng(0))

    one, two = population("a.jsonl"), population("b.jsonl")
    longer = population("c.jsonl", prompt_tokens=9)
    some = demand()

    def key(value):
        return demand_digest(dataclasses.replace(some, population=value))

    assert key(one) == key(two) != key(longer)


def test_the_simulators_own_text_counts(monkeypatch):
    before = point_key("a", "d", Load(concurrency=4), 0, 10)
    monkeypatch.setattr(module, "sources", lambda: "another version")
    assert point_key("a", "d", Load(concurrency=4), 0, 10) != before


def test_sources_cover_the_packages_that_decide(monkeypatch, tmp_path):
    import shutil
    from pathlib import Path

    import workbench

    copy = tmp_path / "workbench"
    shutil.copytree(
        Path(workbench.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__")
    )
    monkeypatch.setattr(workbench, "__file__", str(copy / "__init__.py"))
    read = module.sources.__wrapped__
    seen = {read()}
    for name in ("serving/kv.py", "schedulers/topk.py", "profiles/cost.py", "compiled.py"):
        with open(copy / name, "a") as file:
            file.write("# changed\n")
        seen.add(read())
    assert len(seen) == 5
    with open(copy / "report/comparison.py", "a") as file:
        file.write("# changed\n")
    assert read() in seen


def test_step_cost_counts_by_its_profile():
    profile = arm().cost.profile
    assert digest(StepCost(profile)) == digest(StepCost(profile))


def test_how_many_requests_count_once():
    assert demand_digest(demand(requests=5)) == demand_digest(demand(requests=6))
