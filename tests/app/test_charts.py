"""Charts: colours that are told apart on both pages, units on axes, data that is the runs'."""

from __future__ import annotations

import json

import pytest

from app.charts import sweep as charts
from app.charts.theme import tint
from workbench.frontier import group_frontier
from workbench.report.colours import style

NAMES = ["none", *(f"static:{k}" for k in range(1, 9)), "threshold:0.1", "threshold:0.5"]
NAMES += ["threshold:0.9", "greedy", "topk", "global", "oracle", "mine.py:Mine"]


def _contrast(a: str, b: str) -> float:
    def luminance(colour: str) -> float:
        total = 0.0
        for share, i in ((0.2126, 1), (0.7152, 3), (0.0722, 5)):
            part = int(colour[i : i + 2], 16) / 255
            total += share * (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4)
        return total

    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("name", NAMES)
def test_colours_stand_out_on_both_pages(name):
    assert _contrast(tint(name), "#14191E") >= 2.95
    assert _contrast(tint(name), "#FFFFFF") >= 1.8  # markers and dashes say the same again
    if _contrast(style(name).colour, "#14191E") >= 3:
        assert tint(name) == style(name).colour.upper()  # the reports' own colour


def test_colours_differ():
    shown = [
        "none",
        "static:1",
        "static:3",
        "static:7",
        "greedy",
        "topk",
        "threshold:0.5",
        "global",
    ]
    assert len({tint(name) for name in shown}) == len(shown)


def _run(scheduler: str, users: int, speed: float | None, throughput: float) -> dict:
    return {
        "scheduler": scheduler, "concurrency": users, "seed": 0, "lossless": True,
        "hindsight": False, "replay": "exact", "requests": 10, "accepted_length": 2.0,
        "acceptance_rate": 0.5, "verification_budget": 3.0, "rejected_share": 0.2,
        "speed_tok_s_user": {"mean": speed, "p50": speed, "p10": speed},
        "ttft_s": {"mean": 0.1, "p50": 0.1, "p99": 0.2}, "tpot_s": {"mean": 1, "p50": 1, "p99": 1},
        "throughput_tok_s_gpu": throughput, "window": {"kind": "steady"},
    }  # fmt: skip


def test_the_frontier_draws_the_runs():
    runs = [_run("none", 1, 100.0, 100.0), _run("none", 4, 80.0, 300.0), _run("topk", 1, None, 0.0)]
    frame = charts.table(runs)
    assert frame["TTFT p99 (ms)"].tolist() == [200.0] * 3
    group = group_frontier("", runs, "none", [90.0])
    spec = charts.frontier(frame, group, ["none", "topk"], 90.0).to_dict()
    text = json.dumps(spec)
    for unit in ("tok/s/user", "tok/s/GPU", "(ms)"):
        assert unit in text
    data = [row for rows in spec["datasets"].values() for row in rows if "best" in row]
    marked = {(row["scheduler"], row["load"]): row["best"] for row in data}
    assert marked["none", 1] and marked["none", 4]
    assert any(param["name"] == charts.PICK for param in spec["params"])


def test_parts_of_a_step_add_up():
    spec = charts.parts({"verify": 0.004, "host": 0.001}).to_dict()
    (rows,) = spec["datasets"].values()
    assert sum(row["ms"] for row in rows) == pytest.approx(5.0)
