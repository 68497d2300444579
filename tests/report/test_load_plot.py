"""Lines against the load are the points' means, shades their ranges; and figures inside a page."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np

from tests.frontier.test_bands import run
from workbench.frontier import group_frontier
from workbench.report.colours import style, tint
from workbench.report.inline_svg import inline_svg
from workbench.report.load_plot import load_plot


def group(**more):
    runs = [
        run("none", users, 100 - users, 10 * users + seed, seed, verification_budget=1.0, **more)
        for users in (1, 4)
        for seed in (0, 1)
    ]
    runs += [
        run("topk", users, 100, 12 * users, verification_budget=5.0 - users) for users in (1, 4)
    ]
    return group_frontier("g", runs, "none", [50.0])


def lines(panel) -> dict:
    return {line.get_label(): line for line in panel.lines}


def test_throughput_and_budget_against_the_load():
    left, right = load_plot(group()).axes
    np.testing.assert_array_equal(lines(left)["none"].get_xdata(), [1, 4])
    np.testing.assert_array_equal(lines(left)["none"].get_ydata(), [10.5, 40.5])
    np.testing.assert_array_equal(lines(right)["topk"].get_ydata(), [4, 1])
    assert lines(left)["topk"].get_color() == style("topk").colour
    (shade,) = left.collections  # topk has one seed
    assert {tuple(point) for point in shade.get_paths()[0].vertices} >= {(1, 10), (1, 11), (4, 41)}
    assert right.collections[:] == []
    assert "concurrent users" in left.get_xlabel() and "tok/s/GPU" in left.get_ylabel()


def test_points_at_which_requests_pile_up_are_crossed():
    runs = [
        run("none", 0, 100, 10, rate=1.0, overloaded=False),
        run("none", 0, 90, 20, rate=2.0, overloaded=True),
    ]
    left, _ = load_plot(group_frontier("g", runs, "none", [])).axes
    (cross,) = (line for line in left.lines if line.get_marker() == "x")
    assert list(zip(*cross.get_data(), strict=True)) == [(2, 20)]
    assert "requests/s" in left.get_xlabel()


def test_a_figure_in_a_page():
    title = 'what "it" <shows>'
    colours = {style("topk").colour: tint("topk", "#000000")}
    text = inline_svg(lambda: load_plot(group()), "a1", title, colours)
    root = ElementTree.fromstring(text)
    assert root.get("role") == "img" and root.get("aria-label") == title
    assert root.get("viewBox") and root.get("width") is None
    assert "://" not in text and "#010203" not in text and "currentColor" in text
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert ids and len(ids) == len(set(ids)) and all(one.startswith("a1-") for one in ids)
    used = set(re.findall(r'(?:url\(#|href="#)([^)"]+)', text))
    assert used and used <= set(ids)
    assert (
        style("topk").colour.lower() not in text or tint("topk", "#000000") == style("topk").colour
    )
    assert text == inline_svg(lambda: load_plot(group()), "a1", title, colours)
