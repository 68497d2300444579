"""What the run on the GPU found, and the pages that quote it and the shipped traces."""

from __future__ import annotations

import pytest

from benchmarks.drafters import tables
from benchmarks.drafters.settings import DOMAINS, RUNNING, SPECS, TO_BEAT
from benchmarks.drafters.summary import worst
from workbench.drafting.evaluation import evaluate
from workbench.traces import read_trace

FOUND = tables.results()


@pytest.mark.parametrize("page", tables.PAGES)
def test_tables_are_of_the_shipped_traces_and_results(page):
    """Mended by ``python -m benchmarks.drafters.tables``."""
    assert tables.rendered(page) == (tables.ROOT / page).read_text(encoding="utf-8")


def test_recorded_acceptance_is_unbiased():
    assert set(FOUND["unbiased"]) == {"dspark-1", "dspark-0.6", "dspark-0", "dflash-1"}
    assert all(worst(positions) <= 3 for positions in FOUND["unbiased"].values())


def test_replay_predicts_live_decoding_within_two_percent():
    assert len(FOUND["live"]) == len(RUNNING) * len(SPECS)
    assert all(abs(row["ratio"] - 1) <= 0.02 for row in FOUND["live"])


def test_greedy_text_is_plain_text():
    greedy = FOUND["greedy"]
    assert greedy["equal"] == greedy["prompts"] == 200 and greedy["tokens"] > 10_000


@pytest.mark.parametrize("kind", TO_BEAT)
def test_the_prototype_is_beaten_in_every_domain(kind):
    suffix = "" if kind == "dspark" else f"-{kind}"
    for domain, before in zip(DOMAINS, TO_BEAT[kind], strict=True):
        [group] = evaluate(read_trace(domain + suffix)).domains
        assert group.accepted_length - 2 * group.standard_error > before


def test_the_trace_files_are_those_of_the_results():
    for row in FOUND["traces"]:
        [group] = evaluate(read_trace(row["file"].removesuffix(".jsonl.gz"))).domains
        assert group.accepted_length == pytest.approx(row["accepted_length"])
        assert (group.requests, group.anchors) == (row["requests"], row["anchors"])


def test_the_easiest_tenth():
    trace = read_trace("chat")
    best = tables.heavy(trace)
    request = trace.row_request()
    means = [trace.accepted[request == r].mean() for r in range(trace.requests)]
    assert best.sum() == 20
    assert min(m for m, b in zip(means, best, strict=True) if b) >= max(
        m for m, b in zip(means, best, strict=True) if not b
    )
