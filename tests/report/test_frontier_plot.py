"""What is drawn is what the frontiers say."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontier.test_bands import run
from workbench.errors import InputError
from workbench.frontier import group_frontier
from workbench.report.colours import style
from workbench.report.frontier_plot import frontier_plot, write_plot
from workbench.report.frontier_table import best_lines


@pytest.fixture
def group():
    runs = [
        run("none", 1, 100, 10),
        run("none", 2, 90, 20),
        run("none", 4, 80, 15),
        run("topk", 1, 120, 12, lossless=False),
        run("topk", 2, 110, 24, lossless=False),
    ]
    return group_frontier("chat on toy", runs, "none", [95.0])


def test_lines_markers_and_anchors(group):
    panel = frontier_plot([group]).axes[0]
    lines = {line.get_color(): line for line in panel.lines if line.get_linestyle() != "None"}
    for one in group.schedulers:
        drawn = next(
            line
            for line in panel.lines
            if line.get_color() == style(one.scheduler).colour and len(line.get_xdata()) > 1
        )
        np.testing.assert_array_equal(drawn.get_xdata(), one.curve.speed)
        np.testing.assert_array_equal(drawn.get_ydata(), one.curve.throughput)
    hollow = [line for line in panel.lines if line.get_markerfacecolor() == "none"]
    assert [list(line.get_xdata()) for line in hollow] == [[80], []]
    assert list(lines["#999999"].get_xdata()) == [95, 95]
    assert [text.get_text() for text in panel.get_legend().get_texts()] == ["none", "topk (biased)"]
    assert "tok/s/user" in panel.get_xlabel() and "tok/s/GPU" in panel.get_ylabel()


def test_a_panel_per_group(group):
    figure = frontier_plot([group] * 4)
    assert [panel.get_title() for panel in figure.axes if panel.axison] == ["chat on toy"] * 4


def test_seeds_are_bars():
    runs = [run("none", 1, speed, 10, seed) for seed, speed in enumerate((100, 110))]
    panel = frontier_plot([group_frontier("g", runs, "none", [])]).axes[0]
    (bars, _) = panel.collections
    assert bars.get_segments()[0][:, 0].tolist() == [100, 110]


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_same_figure_gives_the_same_bytes(group, tmp_path, suffix):
    for name in ("a", "b"):
        write_plot(str(tmp_path / f"{name}.{suffix}"), frontier_plot([group]))
    one, two = (tmp_path / f"{name}.{suffix}" for name in ("a", "b"))
    assert one.read_bytes() == two.read_bytes() and one.stat().st_size > 1000


def test_an_unknown_suffix_is_refused(group, tmp_path):
    with pytest.raises(InputError, match="svg"):
        write_plot(str(tmp_path / "a.gif"), frontier_plot([group]))


def test_stretches_of_the_best(group):
    assert best_lines(group) == [
        "at 110.0–120.0 tok/s/user topk (biased) is best: 24–12 tok/s/GPU (2 users down to 1 user)"
    ]
