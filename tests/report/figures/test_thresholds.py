"""Figure 5 against plain loops and against the simulator."""

from __future__ import annotations

import pytest

from tests.report.figures.samples import recorded
from tests.support import simulate, write_profile, write_trace
from workbench.errors import InputError
from workbench.report.figures.thresholds import threshold_figure, threshold_round
from workbench.traces import read_trace

THRESHOLDS = [0.0, 0.3, 0.6, 0.9]


def looped(requests, threshold):
    kept = verified = rounds = 0
    for request in requests:
        accepted, anchor = request["accepted"], 0
        while anchor < len(accepted):
            length = 0
            for c in request["confidence"][anchor]:
                if c < threshold:
                    break
                length += 1
            n = min(length, accepted[anchor])
            if anchor + n + 1 < len(accepted):
                kept, verified, rounds = kept + n + 1, verified + length + 1, rounds + 1
            anchor += n + 1
    return kept / rounds, verified / rounds


@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_tokens_per_round_are_those_of_plain_loops(tmp_path, threshold):
    requests, trace = recorded(tmp_path)
    one = threshold_round(trace, threshold)
    kept, verified = looped(requests, threshold)
    assert (one["kept"], one["verified"]) == pytest.approx((kept, verified), rel=1e-12)
    assert one["share"] == pytest.approx(kept / verified, rel=1e-12)


@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_the_simulator_gives_the_same(tmp_path, threshold):
    requests, trace = recorded(tmp_path)
    one = threshold_round(trace, threshold)
    # as many users as requests: the window is the whole run
    (run,) = simulate(
        "--trace", trace.path, "--profile", write_profile(tmp_path / "p.json"),
        "--scheduler", f"threshold:{threshold}", "--concurrency", len(requests),
        "--requests", len(requests),
    )  # fmt: skip
    assert run["window"]["kind"] == "whole"
    assert run["accepted_length"] == pytest.approx(one["kept"], rel=1e-12)
    rate = (one["kept"] - 1) / (one["verified"] - 1)
    assert run["acceptance_rate"] == pytest.approx(rate, rel=1e-9)


def test_what_is_drawn_is_in_the_numbers(tmp_path):
    _, trace = recorded(tmp_path, domain="chat")
    made = threshold_figure({"chat": trace})
    (panel,) = made.figure.axes
    drawn = {line.get_label(): line.get_ydata() for line in panel.lines}
    found = made.numbers["chat"]["thresholds"]
    assert list(drawn["tokens kept"]) == [one["kept"] for one in found]
    assert list(drawn["tokens verified"]) == [one["verified"] for one in found]
    assert len(drawn["verified, paper"]) == 10
    assert made.table[1][:2] == ("chat", "0.0") and made.table[1][-1] == "45.7%"


def test_traces_that_cannot_be_cut_are_refused(tmp_path):
    path = write_trace(tmp_path / "t.jsonl", [{"accepted": [1, 0], "confidence": None}])
    with pytest.raises(InputError, match="no confidences"):
        threshold_round(read_trace(str(path)), 0.5)
    path = write_trace(tmp_path / "s.jsonl", [{"accepted": [0]}])
    with pytest.raises(InputError, match="two rounds"):
        threshold_round(read_trace(str(path)), 0.5)
