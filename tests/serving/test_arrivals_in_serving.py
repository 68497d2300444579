"""Requests of a file, a process or a closed loop, as a run meets them."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.arrivals.samples import VIDUR, full, write
from tests.serving.samples import arrivals, cost, recorded, serve
from tests.support import simulate, workbench, write_profile, write_trace
from workbench.serving import Arm, Demand, Load
from workbench.serving.workload import from_arrivals


@pytest.fixture
def second(tmp_path):
    """A profile in which every step takes one second."""
    return write_profile(tmp_path / "p.json", seconds=[1.0])


def write_arrivals(path, rows, head="arrival_s,prompt_tokens,output_tokens"):
    path.write_text("\n".join([head, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


def table(folder, *args) -> dict[str, list]:
    """Columns of the request table of one run; numbers as floats."""
    out = folder / "requests.csv"
    code, _, err = workbench("simulate", *args, "--requests-out", out)
    assert code == 0, err
    rows = list(csv.DictReader(out.open()))
    text = ("scheduler", "load", "id", "domain", "in_window")
    return {
        name: [row[name] if name in text else float(row[name] or "nan") for row in rows]
        for name in rows[0]
    }


# Plain decoding with the lengths of a file --------------------------------------------------------

ROWS = [(10.0, 3, 4), (10.5, 5, 1), (20.0, 2, 2)]


def test_a_file_without_a_trace_is_plain_decoding_with_its_lengths(tmp_path, second):
    come = write_arrivals(tmp_path / "a.csv", ROWS)
    (run,) = simulate("--arrivals", come, "--profile", second)
    assert run["scheduler"] == "none" and run["lossless"] and run["replay"] == "exact"
    assert run["arrivals"] == str(come)
    assert run["output_tokens"] == 7 and run["prefill_tokens"] == 10
    assert run["accepted_length"] == 1 and run["verification_budget"] == 1
    columns = table(tmp_path, "--arrivals", come, "--profile", second)
    # time 0 is the first arrival; the second joins the step at 1 s; the third finds it idle
    assert columns["issued_s"] == [0, 0.5, 10]
    assert columns["first_token_s"] == [1, 2, 11]
    assert columns["last_token_s"] == [4, 2, 12]
    assert columns["prompt_tokens"] == [3, 5, 2] and columns["output_tokens"] == [4, 1, 2]
    assert columns["id"] == columns["domain"] == ["", "", ""]


def test_other_schedulers_need_a_trace(tmp_path, second):
    come = write_arrivals(tmp_path / "a.csv", ROWS)
    code, _, err = workbench("simulate", "--arrivals", come, "--scheduler", "static:1")
    assert code == 2 and "--trace" in err and "static:1" in err


def test_times_are_sped_up_and_lengths_are_not(tmp_path, second):
    come = write_arrivals(tmp_path / "a.csv", ROWS)
    columns = table(tmp_path, "--arrivals", come, "--profile", second, "--speedup", 4)
    assert columns["issued_s"] == [0, 0.125, 2.5]
    assert columns["output_tokens"] == [4, 1, 2]
    slower = table(tmp_path, "--arrivals", come, "--profile", second, "--speedup", 0.5)
    assert slower["issued_s"] == [0, 1, 20]


def test_a_slice_is_in_seconds_of_the_files_clock(tmp_path, second):
    come = write_arrivals(tmp_path / "a.csv", [*ROWS, (30.0, 1, 1)])
    common = ["--arrivals", come, "--profile", second]
    assert table(tmp_path, *common, "--from", 10.5, "--to", 30)["issued_s"] == [0, 9.5]
    assert table(tmp_path, *common, "--from", 18)["issued_s"] == [2, 12]
    assert table(tmp_path, *common, "--to", 11, "--speedup", 2)["issued_s"] == [0, 0.25]
    code, _, err = workbench("simulate", *common, "--from", 31)
    assert code == 2 and "a.csv" in err and "10 to 30 s" in err


def test_requests_takes_the_first_of_a_file(tmp_path, second):
    come = write_arrivals(tmp_path / "a.csv", ROWS)
    assert table(tmp_path, "--arrivals", come, "--profile", second, "--requests", 2)[
        "prompt_tokens"
    ] == [3, 5]


def test_lengths_without_times_need_a_load(tmp_path, second):
    come = write(tmp_path / "v.csv", VIDUR)
    common = ["--arrivals", come, "--profile", second]
    code, _, err = workbench("simulate", *common)
    assert code == 2 and "--rate" in err and "--concurrency" in err
    (run,) = simulate(*common, "--concurrency", 1)
    assert run["concurrency"] == 1
    assert run["output_tokens"] == run["simulated_s"] == 54 + 156 + 133
    (run,) = simulate(*common, "--rate", 0.5)
    assert run["rate"] == 0.5 and run["output_tokens"] == 54 + 156 + 133


def test_times_without_lengths_need_a_trace(tmp_path, second):
    come = write_arrivals(tmp_path / "a.csv", [(0,), (7,)], head="arrival_s")
    code, _, err = workbench("simulate", "--arrivals", come, "--profile", second)
    assert code == 2 and "--trace" in err and "a.csv" in err
    trace = write_trace(tmp_path / "t.jsonl", [{"accepted": [0] * 3}] * 2)
    columns = table(
        tmp_path, "--arrivals", come, "--trace", trace, "--profile", second, "--scheduler", "none"
    )
    assert columns["issued_s"] == [0, 7] and columns["last_token_s"] == [4, 11]


def test_an_hour_of_azure_is_replayed_whole(second):
    name = full("azure2023_code.csv.gz")
    (run,) = simulate("--arrivals", name, "--profile", second, "--speedup", 0.001, "--to", 300)
    assert run["requests"] == run["requests_completed"] > 100
    assert run["output_tokens"] == run["rounds"] + run["requests"]


# Recordings cut or continued ----------------------------------------------------------------------


def test_a_longer_recording_is_cut():
    population = recorded([{"accepted": [3] * 100}])
    _, result = serve(arrivals([(1, 9)] * 2), "static:3", population=population)
    assert result["output_tokens"] == 18 and result["steps"] == 1 + 8 / 4
    assert result["replay"] == "approximate"


def test_a_shorter_recording_goes_on_with_another_of_its_domain(tmp_path, second):
    # code always accepts its 3 drafts and chat never does, whatever recording a request goes on in
    trace = write_trace(
        tmp_path / "t.jsonl",
        [{"accepted": [3] * rows, "domain": "code"} for rows in (8, 12, 4)]
        + [{"accepted": [0] * rows, "domain": "chat"} for rows in (5, 9, 2)],
    )
    come = write_arrivals(tmp_path / "a.csv", [(100 * i, 1, 101) for i in range(6)])
    out = tmp_path / "out.csv"
    code, text, err = workbench(
        "simulate", "--trace", trace, "--arrivals", come, "--profile", second,
        "--scheduler", "static:3", "--max-running", 1, "--requests-out", out,
    )  # fmt: skip
    assert code == 0, err
    rows = list(csv.DictReader(out.open()))
    assert sorted(row["domain"] for row in rows) == ["chat"] * 3 + ["code"] * 3
    for row in rows:
        rounds = {"code": 25, "chat": 100}[row["domain"]]  # 100 tokens after the first
        assert float(row["last_token_s"]) - float(row["first_token_s"]) == rounds
    assert "6 continued from other recorded requests of their domain" in text


def test_the_rule_is_stated_in_the_result(tmp_path, second):
    trace = write_trace(tmp_path / "t.jsonl", [{"accepted": [0] * 9}] * 4)
    come = write_arrivals(tmp_path / "a.csv", [(0, 1, 5), (1, 1, 50), (2, 1, 10)])
    _, out, _ = workbench("simulate", "--trace", trace, "--arrivals", come, "--profile", second)
    # 5 tokens are cut, 50 are continued (and cut at the end of the last), 10 are as recorded
    assert "cut to the replayed output length, 1 continued" in " ".join(out.split())


@settings(max_examples=50, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=8),
    rows=st.lists(st.integers(1, 15), min_size=1, max_size=5),
    seed=st.integers(0, 99),
)
def test_tokens_served_are_those_that_the_file_asks_for(lengths, rows, seed):
    rng = np.random.default_rng(seed)
    population = recorded([{"accepted": rng.integers(0, 4, n).tolist()} for n in rows])
    come = arrivals([(1, n) for n in lengths], at=np.arange(len(lengths)) * 3.3)
    run, result = serve(come, "static:3", population=population, seed=seed)
    assert result["output_tokens"] == sum(lengths)
    assert run.workload.output.tolist() == lengths
    # the recorded rows of a request, walked by hand: the same number of rounds
    work = run.workload
    rounds = 0
    for serial, length in enumerate(lengths):
        walk = [
            int(population.accepted[work.segments[0, s] + row])
            for s in range(work.segment_start[serial], work.segment_start[serial + 1])
            for row in range(work.segments[1, s])
        ]
        assert len(walk) == length - 1
        anchor = 0
        while anchor < len(walk):
            anchor += walk[anchor] + 1
            rounds += 1
    assert result["rounds"] == rounds


def test_a_request_without_population_needs_no_rows():
    work = from_arrivals(arrivals([(3, 4)]), None, None, np.random.default_rng(0), None)
    assert work.whole and not work.notes and work.source is None


# Processes ----------------------------------------------------------------------------------------


def issued(tmp_path, second, count, *args) -> np.ndarray:
    trace = write_trace(tmp_path / "t.jsonl", [{"accepted": []}] * 4)
    columns = table(
        tmp_path, "--trace", trace, "--profile", second, "--scheduler", "none", "--requests", count,
        *args,
    )  # fmt: skip
    return np.array(columns["issued_s"])


@pytest.mark.parametrize("cv", [None, 0.5, 1.0, 3.0])
def test_gaps_have_the_rate_and_the_variation_asked_for(tmp_path, second, cv):
    count, rate = 20_000, 4.0
    shape = [] if cv is None else ["--burstiness", cv]
    gaps = np.diff(issued(tmp_path, second, count, "--rate", rate, *shape))
    cv = cv or 1.0
    assert abs(gaps.mean() * rate - 1) < 4 * cv / count**0.5
    # kurtosis 3 + 6·cv²: at cv 3 the deviation of the sample has a standard error of 2.6 %
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.12)


def test_on_off_arrivals_come_in_bursts_of_the_same_rate(tmp_path, second):
    count, rate, on, off = 20_000, 4.0, 5.0, 15.0
    at = issued(tmp_path, second, count, "--rate", rate, "--on-off", f"{on:g},{off:g}")
    # variance ÷ mean of the counts of long intervals: 1 + 2·rate·off²/(on + off)
    dispersion = 1 + 2 * rate * off**2 / (on + off)
    assert abs(count / at[-1] / rate - 1) < 4 * (dispersion / count) ** 0.5
    counts = np.bincount((at // 200).astype(int))[:-1]
    assert counts.var() / counts.mean() > dispersion / 3  # Poisson: 1
    assert np.diff(at).max() > off


def test_bursts_make_the_tail_of_waiting_longer(tmp_path, second):
    trace = write_trace(tmp_path / "t.jsonl", [{"accepted": []}] * 4)
    tails = [
        simulate(
            "--trace", trace, "--profile", second, "--scheduler", "none", "--requests", 5000,
            "--max-running", 1, "--rate", 0.7, *shape,
        )[0]["ttft_s"]["p99"]
        for shape in ([], ["--burstiness", 3], ["--on-off", "20,60"])
    ]  # fmt: skip
    assert tails[0] < tails[1] and tails[0] < tails[2]


def test_every_arm_meets_the_same_arrivals_and_a_seed_changes_them(tmp_path, second):
    trace = write_trace(tmp_path / "t.jsonl", [{"accepted": [1] * 5}, {"accepted": [0] * 9}])
    common = ["--trace", trace, "--profile", second, "--rate", 0.3, "--requests", 30]
    both = table(tmp_path, *common, "--scheduler", "none", "--scheduler", "static:2")
    for name in ("issued_s", "id", "output_tokens"):
        assert both[name][:30] == both[name][30:]
    other = table(tmp_path, *common, "--scheduler", "none", "--seed", 1)
    assert other["issued_s"] != both["issued_s"][:30]


def test_closed_loop_with_the_lengths_of_a_file():
    run, _ = serve(arrivals([(1, 3), (1, 5), (1, 2), (1, 4)]), load=Load(concurrency=2))
    assert run.recorder.issued.tolist() == [0, 0, 3, 5]
    assert run.recorder.last.tolist() == [3, 5, 5, 9]


def test_stagger_spreads_the_users_over_a_first_request(tmp_path, second):
    # 4 users, 8 steps of a second each: one every two seconds
    trace = write_trace(tmp_path / "t.jsonl", [{"accepted": [0] * 7}] * 8)
    columns = table(
        tmp_path, "--trace", trace, "--profile", second, "--scheduler", "none", "--concurrency", 4,
        "--stagger", "--requests", 8,
    )  # fmt: skip
    assert columns["issued_s"] == [0, 2, 4, 6, 8, 10, 12, 14]  # each user on the step's end


def test_progress_is_reported_once_per_request(tmp_path):
    seen = []
    come = arrivals([(1, 2)] * 5, at=range(5))
    run = Arm("none", cost()).run(
        Demand(None, arrivals=come), Load(arrivals="x"), on_progress=seen.append
    )
    run.run()
    assert sum(seen) == 5 and min(seen) >= 1
