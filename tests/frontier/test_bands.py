"""Frontiers over seeds, and what is left off them."""

from __future__ import annotations

import pytest

from workbench.frontier import group_frontier


def run(scheduler, users, speed, throughput, seed=0, **more):
    load = {} if "rate" in more else {"concurrency": users}
    return {
        "scheduler": scheduler,
        "lossless": True,
        "hindsight": False,
        "replay": "exact",
        "seed": seed,
        **load,
        "speed_tok_s_user": {"mean": speed},
        "throughput_tok_s_gpu": throughput,
        "ttft_s": {"p99": 0.1},
        "accepted_length": 2.0,
        "verification_budget": 2.0,
        **more,
    }


def test_points_are_means_and_ranges_over_seeds():
    group = group_frontier("g", [run("a", 1, 100, 10, 0), run("a", 1, 110, 14, 1)], "a", [105.0])
    (point,) = group.schedulers[0].points
    assert (point.speed.mean, point.speed.min, point.speed.max) == (105, 100, 110)
    assert point.throughput.mean == 12
    assert group.sla[105.0][0].throughput.reached == 1  # seed 0 is too slow


def test_own_frontier_and_that_of_all():
    runs = [
        run("a", 1, 100, 10),
        run("a", 2, 90, 20),
        run("a", 4, 80, 15),  # beaten by its own 2 users
        run("b", 1, 95, 12),  # on its own, between two of a
        run("b", 2, 85, 18),  # on its own, beaten by a at 2 users
    ]
    group = group_frontier("g", runs, "a", [])
    marks = [(p.on_frontier, p.best) for one in group.schedulers for p in one.points]
    assert marks == [(True, True), (True, True), (False, False), (True, True), (True, False)]


def test_hindsight_is_drawn_but_never_best():
    runs = [run("a", 1, 100, 10), run("oracle", 1, 200, 20, hindsight=True)]
    group = group_frontier("g", runs, "a", [])
    assert [one.points[0].best for one in group.schedulers] == [True, False]
    assert group.schedulers[1].points[0].on_frontier


def test_an_overloaded_run_is_no_operating_point():
    runs = [run("a", 0, 100, 10, rate=1.0), run("a", 0, 90, 20, rate=2.0, overloaded=True)]
    one = group_frontier("g", runs, "a", []).schedulers[0]
    assert one.curve.throughput.tolist() == [10]
    assert [point.on_frontier for point in one.points] == [True, False]


def test_requests_without_a_speed_leave_no_point():
    one = group_frontier("g", [run("a", 1, None, 10)], "a").schedulers[0]
    assert len(one.curve.speed) == 0 and one.points[0].speed is None


def test_default_anchors_lie_inside_the_baselines_range():
    runs = [run("a", 2, 100, 20), run("a", 1, 200, 10), run("b", 1, 999, 1)]
    assert list(group_frontier("g", runs, "a").sla) == [120.0, 150.0, 180.0]
    assert list(group_frontier("g", runs, "missing").sla) == []


@pytest.mark.parametrize(("slow", "fast"), [(309.77, 309.77), (1 / 3, 1 / 3), (309.2, 309.6)])
def test_default_anchors_can_be_reached_in_a_narrow_range_too(slow, fast):
    group = group_frontier("g", [run("a", 2, slow, 20), run("a", 1, fast, 10)], "a")
    assert group.sla and all(slow <= anchor <= fast for anchor in group.sla)


def test_loads_come_in_order():
    runs = [run("a", n, 100 - n, n) for n in (16, 2, 4)]
    points = group_frontier("g", runs, "a").schedulers[0].points
    assert [point.load["concurrency"] for point in points] == [2, 4, 16]
    assert points[0].speed.mean == pytest.approx(98)
