"""Which rows are judged, and the split by request."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support import random_requests, write_trace
from tests.traces.samples import header, random_rounds, request, write
from workbench.calibration import Calibration
from workbench.calibration.evaluate import evaluate
from workbench.calibration.sample import pooled, split
from workbench.errors import InputError
from workbench.traces import read_trace, trace_statistics
from workbench.traces.rounds import judged


@pytest.fixture(params=["dense", "rounds"])
def trace(request, tmp_path):
    rng = np.random.default_rng(3)
    if request.param == "dense":
        return read_trace(write_trace(tmp_path / "d.jsonl", random_requests(rng, 30, 3)))
    return read_trace(write(tmp_path / "r.jsonl", *random_rounds(rng, np.array([0.8, 0.7]), 40)))


def test_rows_are_those_of_the_trace_statistics(trace):
    one = pooled([trace])
    reports = evaluate(one, Calibration((1.0,) * trace.block_size))
    for report, known in zip(reports, trace_statistics(trace).positions, strict=True):
        k = report.position
        assert np.array_equal(one.judged(k), judged(trace, k))
        assert report.judged == known.judged
        assert report.before.survival_ece == pytest.approx(known.survival_ece, abs=1e-12)


def test_a_split_is_a_partition_by_request(trace):
    halves = split([trace], 0.5, np.random.default_rng(0))
    assert sum(half.requests for half in halves) == trace.requests
    assert abs(halves[0].requests - halves[1].requests) <= 1
    assert sum(half.rows for half in halves) == trace.rows
    together = np.concatenate([half.confidence for half in halves])
    assert np.array_equal(np.sort(together, axis=0), np.sort(trace.confidence, axis=0))


def test_the_seed_decides_the_split(trace):
    first, again, other = (split([trace], 0.5, np.random.default_rng(s))[0] for s in (0, 0, 1))
    assert np.array_equal(first.confidence, again.confidence)
    assert not np.array_equal(first.confidence, other.confidence)


def test_one_id_in_two_traces_is_on_one_side(trace):
    marked = replace(trace, confidence=trace.confidence / 2)
    fit_half, held_out = split([trace, marked], 0.3, np.random.default_rng(0))
    for half in (fit_half, held_out):
        one, other = np.split(half.confidence, 2)
        assert np.array_equal(one / 2, other)
    assert fit_half.requests == 2 * round(0.3 * trace.requests)


def test_too_few_requests(tmp_path):
    one = read_trace(write(tmp_path / "one.jsonl", header(), request()))
    with pytest.raises(InputError, match=r"one\.jsonl.*1 requests, too few"):
        split([one], 0.5, np.random.default_rng(0))
    silent = request(id="b", output_tokens=1, accepted=[], confidence=[])
    two = read_trace(write(tmp_path / "two.jsonl", header(), request(), silent))
    with pytest.raises(InputError, match="2 requests, too few"):
        split([two], 0.5, np.random.default_rng(0))


def test_what_cannot_be_calibrated(tmp_path):
    bare = read_trace(write(tmp_path / "bare.jsonl", header(), request(confidence=None)))
    with pytest.raises(InputError, match=r"bare\.jsonl: confidence: has no confidences"):
        pooled([bare])
    three = read_trace(write(tmp_path / "three.jsonl", header(), request()))
    requests = [{"accepted": [1, 0]}]
    two = read_trace(write_trace(tmp_path / "two.jsonl", requests, block_size=2))
    with pytest.raises(InputError, match=r"two.jsonl: line 1, block_size: is 2, .*three.jsonl"):
        pooled([three, two])
