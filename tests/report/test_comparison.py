"""The comparison table and the sentence that names the winner, on made-up runs."""

import pytest

from workbench.report.comparison import COLUMNS, best_cells, columns_of, winner


def run(scheduler, throughput, speed, **fields):
    return {
        "scheduler": scheduler,
        "lossless": True,
        "hindsight": False,
        "throughput_tok_s_gpu": throughput,
        "speed_tok_s_user": {"mean": speed, "p50": speed, "p10": speed},
        "ttft_s": {"mean": 0.1, "p50": 0.1, "p99": 0.2},
        "tpot_s": {"mean": 0.01, "p50": 0.01, "p99": 0.02},
        "accepted_length": 2.0,
        "acceptance_rate": None,
        "verification_budget": 2.0,
        "rejected_share": 0.1,
        **fields,
    }


def closed(*args, **fields):
    return run(*args, concurrency=8, **fields)


def opened(*args, **fields):
    return run(*args, rate=3.0, overloaded=False, **fields)


def test_a_closed_loop_is_won_by_throughput():
    line = winner([closed("none", 100, 50), closed("topk", 130, 40), closed("static:3", 120, 60)])
    assert line == (
        "concurrency 8: topk wins with 130 tok/s/GPU at 40.0 tok/s/user "
        "(+8.3% over static:3, +30.0% over none)"
    )


def test_an_open_loop_is_won_by_speed_among_those_that_keep_up():
    slow, fast = opened("none", 100, 50), opened("topk", 100.1, 60)
    drowning = opened("static:7", 101, 90) | {"overloaded": True}
    line = winner([slow, fast, drowning])
    assert line.startswith("rate 3/s: topk wins with 60.0 tok/s/user at 100 tok/s/GPU")
    assert "+20.0% over none" in line


def test_with_an_slo_goodput_wins():
    runs = [
        opened("none", 100, 90, goodput={"attainment": 0.0, "requests_per_s": 0.0}),
        opened("topk", 100, 50, goodput={"attainment": 0.5, "requests_per_s": 4.0}),
    ]
    assert winner(runs) == (
        "rate 3/s: topk wins with 4.00 requests/s within the SLO (50.0% of them) "
        "(none does not keep up)"
    )


def test_hindsight_cannot_win_and_bias_is_said():
    line = winner(
        [closed("oracle", 200, 90, hindsight=True), closed("global", 100, 40, lossless=False)]
    )
    assert line == "concurrency 8: global has 100 tok/s/GPU at 40.0 tok/s/user"
    line = winner([closed("none", 90, 30), closed("global", 100, 40, lossless=False)])
    assert line.endswith("it biases the output")


def test_ties_as_printed_share_the_mark_and_a_lone_run_has_none():
    speed = COLUMNS[1]
    assert best_cells(
        [closed("a", 1, 50.01), closed("b", 1, 50.04), closed("c", 1, 49)], speed
    ) == {0, 1}
    assert best_cells([closed("a", 1, 50)], speed) == set()
    rate = COLUMNS[8]
    assert best_cells([closed("a", 1, 1), closed("b", 1, 1)], rate) == set()  # nothing verified


def test_small_numbers_keep_their_digits():
    throughput = COLUMNS[0]
    assert throughput.text(closed("a", 1.23, 1)) == "1.2"
    assert throughput.text(closed("a", 12345.6, 1)) == "12,346"


@pytest.mark.parametrize("width", [60, 80, 100])
def test_narrow_terminals_lose_columns_but_never_the_main_figures(width):
    runs = [closed("none", 10_000, 50), closed("threshold:0.7", 12_000, 60)]
    columns, left_out = columns_of(runs, width)
    assert left_out == len(COLUMNS) - len(columns) > 0
    assert columns[:2] == list(COLUMNS[:2])
    assert columns_of(runs) == (list(COLUMNS), 0)
