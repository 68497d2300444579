"""Figure 6 against plain loops over the held-out half."""

from __future__ import annotations

import numpy as np
import pytest

from tests.report.figures.samples import recorded
from workbench.calibration.sample import split
from workbench.report.figures.reliability import reliability_figure


def rows_of(requests, ids, k):
    """(a_k, whether the prefix 1..k passed) of every block that tells, of these requests."""
    rows = []
    for number, request in enumerate(requests):
        if f"r{number}" not in ids:
            continue
        count = len(request["accepted"])
        for anchor, (c, n) in enumerate(
            zip(request["confidence"], request["accepted"], strict=True)
        ):
            if anchor + k <= count:
                rows.append((float(np.prod(np.float32(c[:k]).astype(float))), n >= k))
    return rows


def ece(rows):
    bins: dict[int, list] = {}
    for a, passed in rows:
        bins.setdefault(min(int(a * 15), 14), []).append(a - passed)
    return sum(abs(sum(gaps)) for gaps in bins.values()) / len(rows)


def auc(rows):
    won = total = 0.0
    for a in (a for a, passed in rows if passed):
        for b in (b for b, passed in rows if not passed):
            won += (a > b) + 0.5 * (a == b)
            total += 1
    return won / total


def test_errors_and_auc_are_those_of_plain_loops(tmp_path):
    requests, trace = recorded(tmp_path, count=60, domain="chat")
    made = reliability_figure({"chat": trace}, shown="chat")
    half, held_out = split([trace], 0.5, np.random.default_rng(0))
    assert half.requests + held_out.requests == 60
    # the same draw by hand: 30 ids to fit on, the others held out
    order = np.random.default_rng(0).permutation(60)
    ids = {f"r{i}" for i in range(60)} - {f"r{i}" for i in order[:30]}
    for one in made.numbers["chat"]:
        rows = rows_of(requests, ids, one["position"])
        assert one["rows"] == len(rows)
        assert one["ece_before"] == pytest.approx(ece(rows), rel=1e-9)
        assert one["auc_before"] == pytest.approx(auc(rows), rel=1e-9)
    assert [one["position"] for one in made.numbers["chat"]] == [1, 3]
    assert made.numbers["chat"][0]["paper"]["ece_before"] == 0.057


def test_thin_bins_are_left_out_of_the_picture_and_kept_in_the_numbers(tmp_path):
    _, trace = recorded(tmp_path, count=60, domain="chat")
    made = reliability_figure({"chat": trace}, shown="chat")
    for panel, one in zip(made.figure.axes, made.numbers["chat"], strict=False):
        before, after = panel.collections
        for drawn, bins in ((before, one["before"]), (after, one["after"])):
            thick = [
                x for x, rows in zip(bins["predicted"], bins["rows"], strict=True) if rows >= 30
            ]
            np.testing.assert_array_equal(drawn.get_offsets()[:, 0], thick)
        assert min(one["before"]["rows"]) < 30
