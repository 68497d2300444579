"""Which requests are used, in which order, and how traces are joined."""

import numpy as np
import pytest

from tests.support import random_requests, write_trace
from workbench.cli.values import trace_weights
from workbench.errors import InputError
from workbench.serving import build_population, request_order, shortened
from workbench.traces import read_trace


def population_of(*paths):
    return build_population([read_trace(str(path)) for path in paths], np.random.default_rng(0))


def test_each_request_is_used_once_before_any_is_used_again(tmp_path):
    population = population_of(write_trace(tmp_path / "a.jsonl", [{"accepted": [0]}] * 7))
    order = request_order(population, np.ones(1), 20, np.random.default_rng(1))
    for start in (0, 7):
        assert sorted(order[start : start + 7]) == list(range(7))
    assert (order[:7] != order[7:14]).any()


def test_mixing_keeps_each_request_with_its_own_rows(tmp_path):
    rng = np.random.default_rng(5)
    first, second = random_requests(rng, 6, 3), random_requests(rng, 4, 3)
    population = population_of(
        write_trace(tmp_path / "a.jsonl", first), write_trace(tmp_path / "b.jsonl", second)
    )
    assert population.trace_of.tolist() == [0] * 6 + [1] * 4
    for index, request in enumerate(first + second):
        rows = slice(population.row_start[index], population.row_start[index + 1])
        assert population.accepted[rows].tolist() == request["accepted"]
        assert population.confidence[rows].tolist() == np.float32(request["confidence"]).tolist()
        assert population.output[index] == len(request["accepted"]) + 1


def test_block_sizes_do_not_mix(tmp_path):
    with pytest.raises(InputError, match="block_size 2 differs from 3"):
        population_of(
            write_trace(tmp_path / "a.jsonl", [{"accepted": [0]}]),
            write_trace(tmp_path / "b.jsonl", [{"accepted": [0]}], block_size=2),
        )


def test_confidences_do_not_mix_with_none(tmp_path):
    with pytest.raises(InputError, match="no confidences"):
        population_of(
            write_trace(tmp_path / "a.jsonl", [{"accepted": [0]}]),
            write_trace(tmp_path / "b.jsonl", [{"accepted": [0], "confidence": None}]),
        )


@pytest.mark.parametrize(
    ("given", "shares"),
    [
        ([None], [1]),
        ([None, None], [0.5, 0.5]),
        ([None, 0.3], [0.7, 0.3]),
        ([3.0, 1.0], [0.75, 0.25]),
        ([0.5, None, None], [0.5, 0.25, 0.25]),
    ],
)
def test_weights(given, shares):
    assert trace_weights(given).tolist() == pytest.approx(shares)


def test_rounds_logs_are_replayed_and_counted(tmp_path):
    from tests.support import simulate, write_profile

    log = [{"accepted": [2, 0, 3, 1], "verified": [3, 1, 3, 1], "output_tokens": 11}] * 4
    trace = write_trace(tmp_path / "log.jsonl", log, coverage="rounds")
    profile = write_profile(tmp_path / "p.json")
    (run,) = simulate(
        "--trace", trace, "--profile", profile, "--scheduler", "static:3", "--concurrency", 2
    )
    assert run["replay"] == "approximate"
    assert 0 < run["drawn_rounds"] <= run["rounds"]
    assert run["output_tokens"] == 11 * 16


def test_a_shorter_block_is_the_head_of_every_block(tmp_path):
    whole = population_of(
        write_trace(tmp_path / "a.jsonl", random_requests(np.random.default_rng(5), 8, 3))
    )
    short = shortened(whole, 2)
    assert short.block_size == 2 and whole.block_size == 3
    assert short.confidence.tolist() == whole.confidence[:, :2].tolist()
    assert short.accepted.tolist() == [min(n, 2) for n in whole.accepted.tolist()]
    assert (short.row_start == whole.row_start).all() and (short.output == whole.output).all()
    assert shortened(whole, 3) is whole
    for length in (0, 4):
        with pytest.raises(InputError, match="give 1 to 3"):
            shortened(whole, length)


def test_replay_of_a_shorter_block_is_that_of_a_trace_recorded_with_it(tmp_path):
    from tests.support import simulate

    requests = random_requests(np.random.default_rng(6), 12, 4)
    cut = [
        request
        | {
            "accepted": [min(n, 2) for n in request["accepted"]],
            "confidence": [row[:2] for row in request["confidence"]],
        }
        for request in requests
    ]
    long = write_trace(tmp_path / "long.jsonl", requests, block_size=4)
    short = write_trace(tmp_path / "short.jsonl", cut, block_size=2)
    words = ["--scheduler", "topk", "--scheduler", "greedy", "--concurrency", 3]
    one = simulate("--trace", long, "--block-size", 2, *words)
    two = simulate("--trace", short, *words)
    for run in [*one, *two]:
        del run["wall_s"]
    assert one == two
