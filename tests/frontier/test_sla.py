"""The SLA table against arithmetic by hand."""

from __future__ import annotations

import pytest

from workbench.frontier import Curve, sla_rows


def rows(anchor, **curves):
    made = {
        name: [
            Curve.through(*zip(*seed, strict=True)) if seed else Curve.through([], [])
            for seed in seeds
        ]
        for name, seeds in curves.items()
    }
    return {row.scheduler: row for row in sla_rows(made, "base", anchor)}


BASE = [(100, 10), (50, 30)]


def test_gains_by_hand():
    better = [(150, 10), (50, 60)]
    row = rows(75, base=[BASE], other=[better])["other"]
    assert row.throughput.mean == pytest.approx(47.5)
    assert row.throughput_gain.mean == pytest.approx(47.5 / 20 - 1)
    assert row.matched.mean == pytest.approx(130)  # at the baseline's 20 tok/s/GPU
    assert row.speed_gain.mean == pytest.approx(130 / 75 - 1)


def test_the_baseline_has_no_gain_over_itself():
    row = rows(75, base=[BASE])["base"]
    assert (row.throughput.mean, row.matched.mean) == (20, 75)
    assert row.throughput_gain is None and row.speed_gain is None


def test_an_anchor_that_the_baseline_does_not_reach():
    row = rows(120, base=[BASE], other=[[(150, 10), (50, 60)]])["other"]
    assert row.throughput.mean == pytest.approx(25)
    assert row.throughput_gain is None and row.matched is None and row.speed_gain is None


def test_a_scheduler_that_never_has_the_baselines_throughput():
    row = rows(75, base=[BASE], weak=[[(200, 15)]])["weak"]
    assert row.throughput.mean == 15 and row.throughput.edge
    assert row.throughput_gain.mean == pytest.approx(-0.25)
    assert row.matched is None and row.speed_gain is None


def test_gains_are_paired_by_seed():
    # twice the baseline under either seed, though the seeds differ fourfold
    base = [[(100, 10), (50, 30)], [(100, 40), (50, 120)]]
    other = [[(100, 20), (50, 60)], [(100, 80), (50, 240)]]
    row = rows(75, base=base, other=other)["other"]
    assert (row.throughput.min, row.throughput.max) == (40, 160)
    assert row.throughput_gain.min == row.throughput_gain.max == pytest.approx(1.0)


def test_seeds_that_do_not_reach_the_anchor_are_counted_out():
    row = rows(75, base=[BASE, BASE], other=[[(80, 12)], [(70, 12)]])["other"]
    assert row.throughput.reached == 1 and row.seeds == 2


def test_a_baseline_without_any_point():
    row = rows(75, base=[[]], other=[BASE])["other"]
    assert row.throughput.mean == 20 and row.throughput_gain is None
