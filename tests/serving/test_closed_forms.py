"""Analytic truths, asked through the command line."""

import json

import numpy as np
import pytest

from tests.support import simulate, write_profile, write_trace

STEP = 0.01


@pytest.fixture
def flat(tmp_path):
    return write_profile(tmp_path / "flat.json", seconds=[STEP])


@pytest.mark.parametrize("users", [1, 3, 16])
def test_plain_decoding_on_a_flat_step_gives_users_over_step_time(tmp_path, flat, users):
    rng = np.random.default_rng(users)
    requests = [{"accepted": [0] * int(n)} for n in rng.integers(1, 60, 40)]
    trace = write_trace(tmp_path / "t.jsonl", requests)
    (run,) = simulate(
        "--trace", trace, "--profile", flat, "--scheduler", "none", "--concurrency", users
    )
    assert run["window"]["kind"] == "steady"
    assert run["throughput_tok_s_gpu"] == pytest.approx(users / STEP, rel=1e-9)
    assert run["speed_tok_s_user"]["mean"] == pytest.approx(1 / STEP, rel=1e-9)
    assert run["accepted_length"] == 1 and run["verification_budget"] == 1


def test_a_request_of_n_tokens_takes_n_steps_without_speculation(tmp_path, flat):
    trace = write_trace(tmp_path / "t.jsonl", [{"accepted": [0] * 41}])
    (run,) = simulate(
        "--trace",
        trace,
        "--profile",
        flat,
        "--scheduler",
        "none",
        "--concurrency",
        1,
        "--requests",
        1,
    )
    assert run["steps"] == run["output_tokens"] == 42
    assert run["simulated_s"] == pytest.approx(42 * STEP)


@pytest.mark.parametrize("gamma", [1, 4, 7])
def test_all_accepted_gives_block_size_plus_one(tmp_path, flat, gamma):
    requests = [{"accepted": [gamma] * 100}] * 4
    trace = write_trace(tmp_path / "t.jsonl", [dict(r) for r in requests], block_size=gamma)
    (run,) = simulate(
        "--trace", trace, "--profile", flat, "--scheduler", f"static:{gamma}", "--concurrency", 2
    )
    assert run["accepted_length"] == gamma + 1
    assert run["acceptance_rate"] == 1


@pytest.mark.parametrize("k", [1, 3, 7])
def test_independent_acceptance_gives_the_geometric_sum(tmp_path, flat, k):
    p, gamma, rng = 0.7, 7, np.random.default_rng(7)
    hits = rng.random((8, 6000, gamma)) < p
    accepted = np.cumprod(hits, axis=2).sum(axis=2)
    trace = write_trace(
        tmp_path / "t.jsonl", [{"accepted": row.tolist()} for row in accepted], block_size=gamma
    )
    (run,) = simulate(
        "--trace", trace, "--profile", flat, "--scheduler", f"static:{k}", "--concurrency", 1
    )
    expected = (1 - p ** (k + 1)) / (1 - p)
    lengths = np.minimum(np.arange(gamma + 1), k) + 1
    chance = np.append(p ** np.arange(gamma) * (1 - p), p**gamma)
    deviation = np.sqrt(chance @ (lengths - expected) ** 2)
    standard_error = deviation / np.sqrt(run["window"]["rounds"])
    assert abs(run["accepted_length"] - expected) < 4 * standard_error
    # of k drafts, those after the first rejection are wasted
    assert run["acceptance_rate"] == pytest.approx((run["accepted_length"] - 1) / k)


def test_verified_tokens_are_priced_by_the_staircase(tmp_path):
    # 2 users × (1 + 3 drafts) = 8 batch tokens, padded to the captured size 12
    profile = write_profile(
        tmp_path / "p.json",
        [1, 8, 12, 16],
        [0.01, 0.02, 0.05, 0.06],
        graphs={"batch_tokens": [1, 4, 12]},
    )
    trace = write_trace(tmp_path / "t.jsonl", [{"accepted": [3] * 400}] * 2)
    (run,) = simulate(
        "--trace",
        trace,
        "--profile",
        profile,
        "--scheduler",
        "static:3",
        "--concurrency",
        2,
        "--requests",
        2,
    )
    rounds = run["rounds"] / 2
    # both prompts (1 token each, padded to 4 → interpolated) are the first step
    first = 0.01 + (0.02 - 0.01) * 3 / 7
    assert run["simulated_s"] == pytest.approx(rounds * 0.05 + first)
    assert run["padded_share"] == pytest.approx(((rounds * 4) + 2) / (rounds * 12 + 4))


@pytest.mark.parametrize("load", [0.3, 0.5])
def test_one_server_with_poisson_arrivals_waits_as_m_d_1(tmp_path, flat, load):
    trace = write_trace(tmp_path / "t.jsonl", [{"accepted": []}] * 10)
    (run,) = simulate(
        "--trace",
        trace,
        "--profile",
        flat,
        "--scheduler",
        "none",
        "--rate",
        load / STEP,
        "--max-running",
        1,
        "--requests",
        200_000,
    )
    waiting = run["ttft_s"]["mean"] - STEP
    assert waiting == pytest.approx(load * STEP / (2 * (1 - load)), rel=0.02)


def test_open_loop_throughput_is_the_offered_load(tmp_path, flat):
    trace = write_trace(tmp_path / "t.jsonl", [{"accepted": [0] * 9}] * 10)
    (run,) = simulate(
        "--trace", trace, "--profile", flat, "--scheduler", "none", "--rate", 40, "--requests", 4000
    )
    assert run["throughput_tok_s_gpu"] == pytest.approx(400, rel=0.05)


def test_gpus_share_the_throughput(tmp_path):
    profile = write_profile(tmp_path / "p.json", hardware={"gpu": "x", "gpus": 4})
    trace = write_trace(tmp_path / "t.jsonl", [{"accepted": [0] * 30}] * 8)
    (run,) = simulate(
        "--trace", trace, "--profile", profile, "--scheduler", "none", "--concurrency", 2
    )
    assert run["throughput_tok_s_gpu"] == pytest.approx(2 / STEP / 4)


def test_recorded_arrivals_are_replayed(tmp_path, flat):
    requests = [{"accepted": [0] * 4, "arrival_s": start} for start in (0.0, 10.0, 5.0)]
    trace = write_trace(tmp_path / "t.jsonl", requests)
    (run,) = simulate(
        "--trace", trace, "--profile", flat, "--scheduler", "none", "--arrivals", "trace"
    )
    assert run["simulated_s"] == pytest.approx(10 + 5 * STEP)
    assert run["steps"] == 15


def test_synchronous_schedulers_pay_the_host(tmp_path):
    profile = write_profile(
        tmp_path / "p.json", host={"sync_seconds": 0.004, "async_seconds": 0.001}
    )
    trace = write_trace(
        tmp_path / "t.jsonl", [{"accepted": [0] * 50, "confidence": [[0.0] * 3] * 50}] * 4
    )
    runs = simulate(
        "--trace",
        trace,
        "--profile",
        profile,
        "--concurrency",
        1,
        *[
            a
            for s in ("none", "static:1", "topk", "greedy", "threshold:0.5")
            for a in ("--scheduler", s)
        ],
    )
    tpot = {run["scheduler"]: run["tpot_s"]["mean"] for run in runs}
    assert tpot["none"] == tpot["static:1"] == tpot["topk"] == pytest.approx(0.011)
    assert tpot["greedy"] == tpot["threshold:0.5"] == pytest.approx(0.014)


def test_the_block_is_drafted_even_where_nothing_is_verified(tmp_path):
    draft = {"requests": [1, 4], "tokens": [1, 3], "seconds": [[0.001, 0.003], [0.002, 0.006]]}
    profile = write_profile(tmp_path / "p.json", draft=draft)
    trace = write_trace(tmp_path / "t.jsonl", [{"accepted": [0] * 50}] * 4)
    runs = simulate(
        "--trace",
        trace,
        "--profile",
        profile,
        "--concurrency",
        1,
        "--scheduler",
        "none",
        "--scheduler",
        "static:1",
        "--scheduler",
        "threshold:0.9",
    )
    assert [run["tpot_s"]["mean"] for run in runs] == pytest.approx([0.010, 0.011, 0.013])


def test_json_file_is_the_result_format(tmp_path, flat):
    from tests.support import workbench

    trace = write_trace(tmp_path / "t.jsonl", [{"accepted": [0] * 9}])
    out = tmp_path / "r.json"
    code, _, err = workbench(
        "simulate", "--trace", trace, "--profile", flat, "--concurrency", "1,2", "--json", out
    )
    assert code == 0, err
    result = json.loads(out.read_text())
    assert result["format"] == "workbench.result/1"
    assert [run["concurrency"] for run in result["runs"]] == [1] * 5 + [
        2
    ] * 5  # γ = 3: static:3 once
    fields = {
        "scheduler",
        "lossless",
        "replay",
        "throughput_tok_s_gpu",
        "speed_tok_s_user",
        "ttft_s",
        "tpot_s",
        "accepted_length",
        "acceptance_rate",
        "verification_budget",
        "rejected_share",
        "padded_share",
        "steps",
        "simulated_s",
        "wall_s",
        "requests_completed",
        "output_tokens",
    }
    assert fields <= set(result["runs"][0])
    assert set(result["runs"][0]["speed_tok_s_user"]) == {"mean", "p50", "p10"}
    assert set(result["runs"][0]["ttft_s"]) == {"mean", "p50", "p99"}
