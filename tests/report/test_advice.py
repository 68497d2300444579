"""Advice and its sentences on made-up runs whose best is plain to see."""

from __future__ import annotations

import pytest

from tests.frontier.test_bands import run
from workbench.frontier import group_frontier
from workbench.report.advice import advise, stretches
from workbench.report.sentences import (
    at_the_sla,
    how_sure,
    loads_words,
    what_it_gives,
    what_would_change_it,
    which_k,
)
from workbench.report.study import FitErrors

RUNS = [
    run("none", 1, 100, 100),
    run("none", 2, 90, 180),
    run("none", 4, 80, 300),
    run("static:3", 1, 150, 150),
    run("static:3", 2, 120, 220),
    run("static:3", 4, 60, 240),
    run("topk", 1, 160, 160, verification_budget=4.5),
    run("topk", 2, 130, 242, verification_budget=2.5),
    run("topk", 4, 70, 290),
]


def test_the_best_at_each_load_and_its_leads():
    advices = advise(RUNS, "static:3")
    assert [(one.load["concurrency"], one.best) for one in advices] == [
        (1, "topk"),
        (2, "topk"),
        (4, "none"),
    ]
    first = advices[0]
    assert first.drafts == 3.5
    assert (first.second.over, first.second.band.mean) == ("static:3", pytest.approx(160 / 150 - 1))
    assert first.plain.band.mean == pytest.approx(0.6)
    assert first.fixed.over == "static:3"
    last = advices[-1]
    assert last.plain is None and last.baseline.band.mean == pytest.approx(300 / 240 - 1)
    assert [len(part) for part in stretches(advices)] == [2, 1]


def test_what_is_said_of_a_stretch():
    advices = advise(RUNS, "static:3")
    low, high = stretches(advices)
    assert loads_words([one.load for one in low]) == "1 to 2 users"
    assert what_it_gives(low, "static:3") == (
        "160 to 242 tok/s/GPU at 160.0 to 130.0 tok/s/user: +6.7% to +10.0% over static:3; "
        "+34.4% to +60.0% over no speculation."
    )
    assert which_k(low) == (
        "It verifies 3.5 to 1.5 drafts per request and round. The best fixed k of those tried is "
        "3; this is +6.7% to +10.0% over it."
    )
    assert which_k(high) == "k = 0: no draft is made."
    assert what_would_change_it(advices, low) == [
        "The smallest lead is +6.7% over static:3, at 1 user: it is gone once steps of topk alone "
        "cost 6.7% more, or emit 6.2% fewer tokens (accepted length 1.88 for 2.00).",
        "From 4 users on, none is best instead.",
    ]
    assert what_would_change_it(advices, high)[-1] == "Up to 2 users, topk is best instead."


def test_a_lead_below_the_profiles_error_is_no_lead():
    (low, _) = stretches(advise(RUNS, "static:3"))
    lines = how_sure(low, FitErrors(median=0.07))
    assert lines[0].startswith("One seed")
    assert lines[1].startswith("At 1 user the lead over static:3 is +6.7%, no more than")
    assert len(how_sure(low, FitErrors(median=0.05))) == len(how_sure(low, None)) == 1


def test_gains_are_paired_by_seed_and_seeds_are_counted():
    runs = [
        run("none", 1, 100, 100, 0),
        run("none", 1, 100, 200, 1),
        run("topk", 1, 100, 150, 0),
        run("topk", 1, 100, 190, 1),
    ]
    (one,) = advise(runs, "none")
    assert one.best == "topk" and (one.ahead, one.seeds) == (1, 2)
    band = one.baseline.band
    assert (band.min, band.mean, band.max) == pytest.approx((-0.05, 0.225, 0.5))
    assert how_sure([one], None) == ["At 1 user it is ahead in 1 of 2 seeds only."]


def test_what_biases_the_output_or_knows_the_outcome_is_not_advised():
    runs = [
        *RUNS[:1],
        run("global", 1, 200, 200, lossless=False),
        run("oracle", 1, 300, 300, hindsight=True),
    ]
    (one,) = advise(runs, "none")
    assert one.best == "none" and one.second is None
    assert (one.biased.of, one.biased.band.mean) == ("global", 1.0)
    assert what_would_change_it([one], [one]) == [
        "global would give more, but changes what the model says."
    ]
    assert advise(runs[1:], "none") == []


def test_an_open_loop_is_judged_by_speed_among_those_that_keep_up():
    runs = [
        run("none", 0, 100, 50, rate=2.0, overloaded=False),
        run("topk", 0, 130, 50, rate=2.0, overloaded=False),
        run("static:3", 0, 200, 50, rate=2.0, overloaded=True),
    ]
    (one,) = advise(runs, "none")
    assert one.best == "topk" and one.value.mean == 130 and one.merit == "tok/s/user"
    assert one.second.over == "none"


def test_equals_are_called_equal():
    slo = {"slo": {}, "attainment": 1.0, "requests_per_s": 2.0}
    runs = [
        run("none", 0, 100, 50, rate=2.0, overloaded=False, goodput=slo),
        run("topk", 0, 130, 50, rate=2.0, overloaded=False, goodput=slo),
    ]
    (one,) = advise(runs, "none")
    assert (one.best, one.merit) == ("topk", "requests/s within the SLO")
    assert how_sure([one], FitErrors(median=0.05))[1:] == [
        "At 2 req/s none gives as much; of equals the faster is named."
    ]
    assert what_would_change_it([one], [one]) == [
        "The smallest lead is +0.0% over none, at 2 req/s."
    ]
    assert what_it_gives([one], "none") == (
        "50 tok/s/GPU at 130.0 tok/s/user, 2.00 requests/s within the SLO: in requests/s within "
        "the SLO, +0.0% over none."
    )


def test_piling_up_is_said():
    (one,) = advise([run("none", 0, 100, 50, rate=2.0, overloaded=True)], "none")
    assert one.overloaded
    assert how_sure([one], None)[0] == (
        "At 2 req/s no scheduler keeps up: requests pile up, and only throughput was compared."
    )


def test_the_sla_is_kept_by_the_best_that_reaches_it():
    group = group_frontier("g", RUNS, "static:3", [70.0, 110.0, 155.0, 500.0])
    assert at_the_sla(group) == [
        "For 70 tok/s/user: none, at least 300 tok/s/GPU, about +26.8% over static:3, at 4 users, "
        "the highest load simulated.",
        "For 110 tok/s/user: topk, 258 tok/s/GPU, +15.5% over static:3, between 2 and 4 users.",
        "For 155 tok/s/user: topk, 174 tok/s/GPU; static:3 does not reach it, between 1 and "
        "2 users.",
        "500 tok/s/user is not reachable at any load that was simulated.",
    ]
