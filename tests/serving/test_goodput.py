"""Goodput under an SLO, energy and dollars: hand counts and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.serving.samples import arrivals, cost, recorded, serve
from tests.support import simulate, workbench, write_profile, write_trace
from workbench.serving import Load

# One request at a time, steps of one second: 4 requests at once, so the whole run is measured.
# TTFT 1, 4, 8, 9; TPOT 1 for all but the one-token request, which has none.
COME = arrivals([(1, 3), (1, 4), (1, 1), (1, 2)])


@pytest.mark.parametrize(
    ("slo", "met"),
    [
        ({"ttft": 0.5}, []),
        ({"ttft": 1.0}, [0]),
        ({"ttft": 4.0}, [0, 1]),
        ({"ttft": 8.5}, [0, 1, 2]),
        ({"ttft": 9.0}, [0, 1, 2, 3]),
        ({"tpot": 0.9}, [2]),
        ({"tpot": 1.0}, [0, 1, 2, 3]),
        ({"ttft": 8.0, "tpot": 0.9}, [2]),
        ({"ttft": 4.0, "tpot": 1.0}, [0, 1]),
    ],
)
def test_a_request_counts_if_it_meets_both_targets(slo, met):
    run, _ = serve(COME, max_running=1)
    assert (run.recorder.first - run.recorder.issued).tolist() == [1, 4, 8, 9]
    goodput = run.result(slo=slo)["goodput"]
    tokens = np.array([3, 4, 1, 2])[met].sum()
    assert goodput["slo"] == slo
    assert goodput["attainment"] == len(met) / 4
    assert goodput["requests_per_s"] == pytest.approx(len(met) / 10)
    assert goodput["tok_s_gpu"] == pytest.approx(tokens / 10)


def test_a_pace_that_drafts_improve_meets_a_tighter_target():
    population = recorded([{"accepted": [3] * 40}])
    come = arrivals([(1, 41)] * 2)
    for scheduler, pace in (("none", 1.0), ("static:1", 0.5), ("static:3", 0.25)):
        run, _ = serve(come, scheduler, population=population)
        for target, met in ((pace * 1.01, 1.0), (pace * 0.99, 0.0)):
            assert run.result(slo={"tpot": target})["goodput"]["attainment"] == met


@settings(max_examples=40, deadline=None)
@given(
    requests=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=2, max_size=15),
    gap=st.floats(0.1, 6),
    ttft=st.floats(0.5, 30),
    tpot=st.floats(0.5, 3),
    gpus=st.integers(1, 3),
)
def test_goodput_is_part_of_the_throughput_and_grows_with_the_target(
    requests, gap, ttft, tpot, gpus
):
    price = cost([1, 8], [0.5, 2.0], hardware={"gpus": gpus})
    come = arrivals(requests, at=np.arange(len(requests)) * gap)
    run, result = serve(come, price=price, max_running=3)
    tight = run.result(slo={"ttft": ttft, "tpot": tpot})["goodput"]
    wide = run.result(slo={"ttft": ttft * 2, "tpot": tpot * 2})["goodput"]
    all_in = run.result(slo={"ttft": 1e9})["goodput"]
    assert 0 <= tight["attainment"] <= wide["attainment"] <= all_in["attainment"] == 1
    assert tight["tok_s_gpu"] <= wide["tok_s_gpu"] <= all_in["tok_s_gpu"]
    assert "goodput" not in result
    # from the request table's own columns
    recorder, window = run.recorder, result["window"]
    mine = (recorder.issued >= window["from_s"]) & (recorder.issued <= window["to_s"])
    output = np.array([n for _, n in requests])
    pace = (recorder.last - recorder.first) / np.maximum(output - 1, 1)
    good = mine & (recorder.first - recorder.issued <= ttft) & ((output == 1) | (pace <= tpot))
    seconds = window["to_s"] - window["from_s"]
    assert tight["attainment"] == pytest.approx(good.sum() / mine.sum())
    assert tight["requests_per_s"] == pytest.approx(good.sum() / seconds)
    assert tight["tok_s_gpu"] == pytest.approx(output[good].sum() / seconds / gpus)


# Energy -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("users", "gpus", "replicas"), [(1, 1, 1), (4, 1, 1), (4, 2, 1), (4, 2, 2)]
)
def test_energy_per_token_is_power_times_step_over_tokens(users, gpus, replicas):
    price = cost(
        seconds=[0.5],
        power={"batch_tokens": [1, 100], "watts": [300.0, 498.0]},  # 298 + 2·B
        hardware={"gpus": gpus},
    )
    _, result = serve(arrivals([(1, 9)] * users), price=price, replicas=replicas)
    batch = users / replicas  # tokens of a step, prompts included
    assert result["energy_j_token"] == pytest.approx(gpus * 0.5 * (298 + 2 * batch) / batch)


def test_verified_drafts_draw_power_up_to_the_limit():
    come, population = arrivals([(1, 9)]), recorded([{"accepted": [3] * 9}])
    power = {"batch_tokens": [1, 4], "watts": [300.0, 600.0]}
    free = serve(come, "static:3", population=population, price=cost(power=power))[1]
    # the prompt's step at 300 W, two rounds of 4 tokens at 600 W, 9 tokens
    assert free["energy_j_token"] == pytest.approx((300 + 2 * 600) / 9)
    capped = cost(power=power, hardware={"power_limit_w": 450})
    capped = serve(come, "static:3", population=population, price=capped)[1]
    assert capped["energy_j_token"] == pytest.approx((300 + 2 * 450) / 9)


def test_without_measured_power_there_is_no_energy():
    assert "energy_j_token" not in serve(arrivals([(1, 3)]))[1]


# Dollars ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("users", "gpus", "replicas"), [(1, 1, 1), (8, 4, 1), (8, 4, 2)])
def test_dollars_per_million_tokens(users, gpus, replicas):
    price = cost(seconds=[0.25], hardware={"gpus": gpus})
    run, _ = serve(arrivals([(1, 20)] * users), price=price, replicas=replicas)
    # all GPUs cost 3.6 $/h, a thousandth of a dollar a second; 4 steps a second
    result = run.result(gpu_hour_usd=3.6)
    expected = gpus * replicas * 1e-3 / (4 * users) * 1e6
    assert result["usd_per_million_tokens"] == pytest.approx(expected)
    by_throughput = 3.6 / 3600 / result["throughput_tok_s_gpu"] * 1e6
    assert result["usd_per_million_tokens"] == pytest.approx(by_throughput)
    assert run.result(gpu_hour_usd=0)["usd_per_million_tokens"] == 0
    assert "usd_per_million_tokens" not in run.result()


def test_of_the_steady_window_only():
    # 2 users in a closed loop on a flat step: the window's figures are those of the steady state
    price = cost(power={"batch_tokens": [1], "watts": [700.0]})
    run, result = serve(arrivals([(1, 10)] * 16), price=price, load=Load(concurrency=2))
    assert result["window"]["kind"] == "steady"
    assert result["energy_j_token"] == pytest.approx(700 / 2, rel=0.02)
    goodput = run.result(slo={"tpot": 1.0})["goodput"]
    assert goodput["attainment"] == 1


# Command line -------------------------------------------------------------------------------------


def test_goodput_and_dollars_through_the_command_line(tmp_path):
    trace = write_trace(tmp_path / "t.jsonl", [{"accepted": [0] * 9}] * 8)
    profile = write_profile(tmp_path / "p.json", seconds=[0.1])
    (run,) = simulate(
        "--trace", trace, "--profile", profile, "--scheduler", "none", "--concurrency", 2,
        "--slo", "ttft=0.15,tpot=0.1001", "--gpu-hour-usd", 2,
    )  # fmt: skip
    assert run["goodput"]["slo"] == {"ttft": 0.15, "tpot": 0.1001}
    assert run["goodput"]["attainment"] == 1
    assert run["usd_per_million_tokens"] == pytest.approx(2 / 3600 / 20 * 1e6)


@pytest.mark.parametrize("text", ["itl=1", "ttft", "ttft=", "ttft=0", "ttft=-1", "tpot=nan", ""])
def test_a_bad_slo_is_refused(text):
    code, out, err = workbench("simulate", "--trace", "chat.jsonl", "--slo", text)
    assert code == 2 and out == "" and "--slo" in err and err.count("\n") == 1
