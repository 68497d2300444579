"""Figures 7 and 8: their numbers are the runs', their tables the SLA rows'."""

from __future__ import annotations

from tests.frontier.test_bands import run
from workbench.frontier import group_frontier
from workbench.report.figures.loads import frontier_figure, load_figure

RUNS = [
    run("static:1", 1, 100, 100),
    run("static:1", 4, 50, 200),
    run("topk", 1, 150, 150, verification_budget=5.5),
    run("topk", 4, 80, 320, verification_budget=2.5),
    run("global", 1, 900, 900, lossless=False),
    run("global", 4, 800, 3200, lossless=False),
]


def test_the_best_lossless_scheduler_at_each_anchor():
    group = group_frontier("toy", RUNS, "static:1", [75.0, 140.0, 500.0])
    made = frontier_figure([group])
    assert made.table[1:] == [
        ("toy", "75", "topk", "≥320", "~+113.3%", "150.0", "+100.0%"),
        ("toy", "140", "topk", "174", "–", "–", "–"),
        ("toy", "500", "not reachable", "", "", "", ""),
    ]
    points = made.numbers["toy"]["schedulers"]["topk"]["points"]
    assert [(p["concurrency"], p["throughput_tok_s_gpu"]) for p in points] == [(1, 150), (4, 320)]
    assert made.numbers["toy"]["schedulers"]["topk"]["frontier"]["speed_tok_s_user"] == [80, 150]


def test_throughput_of_all_and_budgets_of_the_adaptive():
    made = load_figure(group_frontier("toy", RUNS, "static:1", []))
    assert made.table == [
        (
            "users",
            "static:1, tok/s/GPU",
            "topk, tok/s/GPU",
            "global, tok/s/GPU",
            "topk, budget",
            "global, budget",
        ),
        ("1", "100", "150", "900", "5.50", "2.00"),
        ("4", "200", "320", "3,200", "2.50", "2.00"),
    ]
    left, _ = made.figure.axes
    drawn = {line.get_label(): list(line.get_ydata()) for line in left.lines}
    for name, points in made.numbers.items():
        label = f"{name} (biased)" if name == "global" else name
        assert drawn[label] == [point["throughput_tok_s_gpu"] for point in points]
