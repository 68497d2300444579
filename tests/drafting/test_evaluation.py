"""Evaluation of dense traces, by hand and against ``trace info`` on shipped ones."""

import math

import numpy as np
import pytest

from tests.support import write_trace
from workbench.drafting.diagram import acceptance_diagram
from workbench.drafting.evaluation import evaluate
from workbench.errors import InputError
from workbench.traces import read_trace, trace_statistics


def test_by_hand(tmp_path):
    path = write_trace(
        tmp_path / "t.jsonl",
        [
            # rounds at 0 (2 accepted), 3 (0), 4 (1), which ends at 6: reaches the end
            {
                "id": "x-1", "accepted": [2, 9 % 4, 0, 0, 1, 0], "domain": "math",
                "confidence": [[0.95, 0.55, 0.05], [0.5] * 3, [0.5] * 3, [0.45, 0.9, 0.9],
                               [0.85, 0.85, 0.85], [0.5] * 3],
            },
            {"id": "y-1", "accepted": [0, 0, 0], "domain": "chat", "benchmark": "z"},
        ],
    )  # fmt: skip
    found = evaluate(read_trace(path))
    math_, chat = found.domains
    assert (math_.name, math_.rounds, math_.anchors) == ("math", 2, 6)
    assert math_.accepted_length == pytest.approx(1 + (2 + 0) / 2)
    assert (chat.rounds, chat.accepted_length) == (2, 1.0)
    # anchors 0..3 have the whole block inside: 2, 1, 0, 0
    assert math_.all_anchors == pytest.approx(1 + 3 / 4)
    # position 1: all six anchors, three pass; 2: of those three all inside, one passes
    assert math_.conditional[0] == pytest.approx(3 / 6)
    assert math_.conditional[1] == pytest.approx(1 / 3)
    assert math_.conditional[2] == 0 and math.isnan(chat.conditional[1])
    # the one request is all of its domain: nothing varies between requests
    assert math_.conditional_error[:3] == pytest.approx([0] * 3, abs=1e-12)
    assert [group.name for group in found.benchmarks] == ["x", "z"]
    half = found.sweep["math"][5]
    # at 0.5: ℓ = 2, 0 at anchors 0 and 3, then 3 at anchor 4, which reaches the end
    assert half.threshold == 0.5
    assert half.verification_budget == pytest.approx(1 + (2 + 0) / 2)
    assert half.accepted_length == 2 and half.acceptance_rate == 1
    low = found.sweep["math"][0]
    assert (low.accepted_length, low.verification_budget) == (2, 4)
    assert low.acceptance_rate == pytest.approx(2 / 6)


def test_standard_errors_are_clustered_by_request(tmp_path):
    path = write_trace(
        tmp_path / "t.jsonl",
        [{"id": "x-1", "accepted": [1, 0, 1, 0]}, {"id": "x-2", "accepted": [0, 0]}],
    )
    [group] = evaluate(read_trace(path)).domains
    # 2 of 6 pass position 1; by request 2 − 4·⅓ and 0 − 2·⅓
    assert group.conditional[0] == pytest.approx(1 / 3)
    assert group.conditional_error[0] == pytest.approx(np.hypot(2 / 3, 2 / 3) / 6)


def test_the_diagram_draws_every_trace_and_domain():
    found = [evaluate(read_trace(name)) for name in ("math", "math-t0", "chat-dflash")]
    math_panel, chat_panel = acceptance_diagram(found).axes
    assert [panel.get_title() for panel in (math_panel, chat_panel)] == ["math", "chat"]
    lines = [bars.lines[0] for bars in math_panel.containers]
    assert [line.get_ydata().tolist() for line in lines] == [
        one.domains[0].conditional for one in found[:2]
    ]
    assert [bars.get_label() for bars in math_panel.containers] == [
        "dspark-markov, T = 1",
        "dspark-markov, T = 0",
    ]
    assert [bars.get_label() for bars in chat_panel.containers] == ["dflash, T = 1"]


@pytest.mark.parametrize("name", ["math", "code-dflash", "chat"])
def test_shipped_traces_agree_with_trace_info(name):
    trace = read_trace(name)
    found, info = evaluate(trace), trace_statistics(trace)
    [domain] = found.domains
    assert domain.accepted_length == info.accepted_length.replayed_rounds
    assert domain.rounds == info.accepted_length.replayed_rounds_counted
    assert domain.all_anchors == pytest.approx(info.accepted_length.all_anchors)
    assert domain.conditional == pytest.approx([p.acceptance for p in info.positions])
    assert len(found.benchmarks) >= 2
    weights = [group.rounds for group in found.benchmarks]
    lengths = [group.accepted_length for group in found.benchmarks]
    assert np.average(lengths, weights=weights) == pytest.approx(domain.accepted_length)
    [sweep] = found.sweep.values()
    assert sweep[0].accepted_length == pytest.approx(domain.accepted_length)
    assert sweep[0].verification_budget == 8
    rates = [one.acceptance_rate for one in sweep]
    assert rates == sorted(rates)
    budgets = [one.verification_budget for one in sweep]
    assert budgets == sorted(budgets, reverse=True)


def test_only_dense_traces(tmp_path):
    path = write_trace(
        tmp_path / "t.jsonl", [{"accepted": [1], "verified": [2], "output_tokens": 3}],
        coverage="rounds",
    )  # fmt: skip
    with pytest.raises(InputError, match="coverage: is no dense trace"):
        evaluate(read_trace(path))
