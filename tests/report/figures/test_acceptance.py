"""Figure 2 against counting in plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.report.figures.samples import GAMMA, recorded
from workbench.report.figures import published
from workbench.report.figures.acceptance import acceptance_figure, conditional_acceptance


def counted(requests, k):
    """(tried, passed) of position k, per request, in the rounds of full verification."""
    found = []
    for request in requests:
        accepted, anchor, tried, passed = request["accepted"], 0, 0, 0
        while anchor < len(accepted):
            n = accepted[anchor]
            if n >= k - 1 and anchor + k <= len(accepted):
                tried += 1
                passed += n >= k
            anchor += n + 1
        found.append((tried, passed))
    return found


@pytest.mark.parametrize("k", [1, 2, 3])
def test_shares_and_errors_are_those_of_plain_loops(tmp_path, k):
    requests, trace = recorded(tmp_path)
    one = conditional_acceptance(trace)[k - 1]
    pairs = [pair for pair in counted(requests, k) if pair[0]]
    tried = sum(pair[0] for pair in pairs)
    share = sum(pair[1] for pair in pairs) / tried
    assert (one["position"], one["judged"]) == (k, tried)
    assert one["acceptance"] == pytest.approx(share, rel=1e-12)
    # the delta method for a ratio of sums over independent requests
    residuals = np.array([passed - share * n for n, passed in pairs])
    mean = tried / len(pairs)
    error = residuals.std(ddof=1) / math.sqrt(len(pairs)) / mean
    assert one["error"] == pytest.approx(error, rel=1e-9)


def test_what_is_drawn_is_in_the_numbers(tmp_path):
    _, dspark = recorded(tmp_path, "a", 0, drafter="dspark-markov", domain="math")
    _, other = recorded(tmp_path, "b", 1, drafter="mine", domain="math")
    made = acceptance_figure({"math": {"dspark-markov": dspark, "mine": other}})
    (panel,) = made.figure.axes
    drawn = {line.get_label(): line for line in panel.lines}
    numbers = made.numbers["math"]
    lines = [bars.lines[0] for bars in panel.containers]
    for line, drafter in zip(lines, ("dspark-markov", "mine"), strict=True):
        shares = [one["acceptance"] for one in numbers[drafter]["positions"]]
        np.testing.assert_array_equal(line.get_ydata(), shares)
    assert numbers["dspark-markov"]["paper"] == published.acceptance("dspark", "math")
    assert numbers["mine"]["paper"] == []
    dashed = [line for line in panel.lines if len(line.get_xdata()) == 7]
    assert len(dashed) == 1 and "paper, Qwen3-4B" in drawn
    assert [row[0] for row in made.table[1:]] == [
        "math, DSpark",
        "math, DSpark, paper",
        "math, mine",
    ]
    assert len(numbers["mine"]["positions"]) == GAMMA


def test_the_papers_values_are_whole():
    for drafter in ("dspark", "dflash", "eagle3"):
        for domain in ("math", "code", "chat"):
            assert len(published.acceptance(drafter, domain)) == 7
    assert published.acceptance("dspark", "math")[0] == 0.9053
    for domain in ("math", "code", "chat"):
        for row in published.thresholds(domain):
            if row["kept"] and row["verified"]:
                assert row["kept"] / row["verified"] == pytest.approx(row["share"], abs=2e-3)
                assert row["kept"] <= row["verified"] <= 8
    assert published.stated(2) is None and published.stated(7)["auc"] == 0.907
