"""Synchronous and overlapped steps: host costs, the lag, and what is assumed of new requests."""

from __future__ import annotations

import pytest

from tests.serving.samples import arrivals, cost, recorded, serve, steps
from tests.support import simulate, write_profile, write_trace
from workbench.serving import Arm, Demand, Load, Options

HOST = {"sync_seconds": 0.25, "async_seconds": 0.125}
GAMMA = 3


def constant(accepted: int = 0, confidence: float = 0.5, rows: int = 60) -> dict:
    return {"accepted": [accepted] * rows, "confidence": [[confidence] * GAMMA] * rows}


def flags(names) -> list[str]:
    return [word for name in names for word in ("--scheduler", name)]


# Host costs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scheduler", "auto"),
    [
        ("none", "async"),
        ("static:2", "async"),
        ("topk", "async"),
        ("threshold:0.4", "sync"),
        ("greedy", "sync"),
        ("global", "sync"),
    ],
)
def test_which_pipeline_a_step_pays_for(scheduler, auto):
    paid = {"sync": 1.25, "async": 1.125}
    for asked, synchronous in ((auto, None), ("sync", True), ("async", False)):
        run, _ = serve(
            arrivals([(1, 8)] * 2), scheduler, population=recorded([constant()]),
            price=cost(host=HOST), synchronous=synchronous, record_steps=True,
        )  # fmt: skip
        assert {step["seconds"] for step in steps(run)} == {paid[asked]}


def test_the_pipeline_changes_time_and_nothing_else(tmp_path):
    trace = write_trace(tmp_path / "t.jsonl", [constant(2) for _ in range(6)])
    profile = write_profile(tmp_path / "p.json", seconds=[1.0], host=HOST)
    common = ["--trace", trace, "--profile", profile, "--concurrency", 2, "--scheduler", "static:2"]
    sync, overlapped = (simulate(*common, "--pipeline", name)[0] for name in ("sync", "async"))
    assert sync["simulated_s"] / overlapped["simulated_s"] == pytest.approx(1.25 / 1.125)
    for field in ("steps", "rounds", "accepted_length", "verification_budget", "output_tokens"):
        assert sync[field] == overlapped[field]


@pytest.mark.parametrize(
    ("option", "scheduler", "step"),
    [
        ("--host-sync", "greedy", 3.0),
        ("--host-sync", "topk", 1.125),
        ("--host-async", "topk", 3.0),
        ("--host-async", "greedy", 1.25),
    ],
)
def test_host_costs_of_the_command_line_replace_the_profile(tmp_path, option, scheduler, step):
    trace = write_trace(tmp_path / "t.jsonl", [constant() for _ in range(2)])
    profile = write_profile(tmp_path / "p.json", seconds=[1.0], host=HOST)
    # the other scheduler feels the option, so that it is not refused as without effect
    runs = simulate(
        "--trace", trace, "--profile", profile, "--concurrency", 1, option, 2.0,
        *flags(["greedy", "topk"]),
    )  # fmt: skip
    (run,) = (run for run in runs if run["scheduler"] == scheduler)
    assert run["simulated_s"] / run["steps"] == pytest.approx(step)


def test_host_costs_of_a_profile_without_any(tmp_path):
    trace = write_trace(tmp_path / "t.jsonl", [constant()])
    profile = write_profile(tmp_path / "p.json", seconds=[1.0])
    (run,) = simulate(
        "--trace", trace, "--profile", profile, "--concurrency", 1, "--scheduler", "greedy",
        "--host-sync", 0.5,
    )  # fmt: skip
    assert run["simulated_s"] / run["steps"] == pytest.approx(1.5)


def test_host_seconds_per_request_and_per_admission():
    host = {"per_request_seconds": 0.125, "per_new_request_seconds": 0.5}
    run, _ = serve(
        arrivals([(1, 3), (1, 3), (1, 2)], at=[0, 0, 2.5]), price=cost(host=host), record_steps=True
    )
    # two admitted; two decode; two decode and one is admitted; the last decodes alone
    assert [step["seconds"] for step in steps(run)] == [2.0, 1.25, 1.75, 1.125]


def test_overlapping_pays_where_the_host_costs_more_than_stale_planning_loses():
    """No draft passes here, so the host decides alone."""
    seconds = {}
    for host in (0.0, 0.5):
        for scheduler in ("global", "topk"):
            _, result = serve(
                arrivals([(1, 40)] * 2), scheduler, population=recorded([constant(0, 0.9)]),
                price=cost(host={"sync_seconds": host}),
            )  # fmt: skip
            seconds[host, scheduler] = result["simulated_s"]
    assert seconds[0.0, "global"] == seconds[0.0, "topk"]
    assert seconds[0.5, "global"] == pytest.approx(1.5 * seconds[0.5, "topk"])


# The lag ------------------------------------------------------------------------------------------


def budgets(lag: int | None, new_survival: float | None, *, scheduler="topk", tokens=13, users=1):
    """Verified drafts of each decode step on a flat cost, where any likely draft is worth it.

    The requests come to a replica that has served another one before.
    """
    arm = Arm(
        scheduler, cost(), options=Options(record_steps=True), lag=lag, new_survival=new_survival
    )
    come = arrivals([(1, 9)] + [(1, tokens)] * users, at=[0] + [100] * users)
    run = arm.run(Demand(recorded([constant()]), arrivals=come), Load(arrivals="made"))
    run.run()
    return [
        step["verified_drafts"] for step in steps(run) if step["decoding"] and step["start"] >= 100
    ]


@pytest.mark.parametrize("lag", [1, 2, 3, 5])
def test_a_new_request_is_assumed_for_as_many_rounds_as_the_lag(lag):
    """Assumed hopeless, it verifies nothing until its first confidences are ``lag`` steps old."""
    assert budgets(lag, 0.0) == [0] * lag + [GAMMA] * (12 - lag)


def test_the_default_lag_is_two_steps_and_a_schedulers_own_is_kept():
    assert budgets(None, 0.0) == [0, 0] + [GAMMA] * 10
    assert budgets(None, 0.0, scheduler="topk:4") == [0] * 4 + [GAMMA] * 8
    assert budgets(3, 0.0, scheduler="topk:4") == [0] * 3 + [GAMMA] * 9


def test_a_new_request_is_assumed_certain_unless_told_otherwise():
    assert budgets(None, None) == [GAMMA] * 12
    assert budgets(None, 1.0) == [GAMMA] * 12


def test_optimism_overspends_on_short_outputs():
    # requests of 3 tokens end before anything is known of them: all they verify is assumed
    hopeful = budgets(2, 1.0, tokens=3, users=4)
    hopeless = budgets(2, 0.0, tokens=3, users=4)
    assert hopeful == [4 * GAMMA] * 2
    assert hopeless == [0] * 2


def test_the_budget_follows_the_confidences_of_lag_steps_ago():
    """Confidence falls to nothing at anchor 10; the budget falls ``lag`` rounds later."""
    rows = [[0.9] * GAMMA] * 10 + [[0.0] * GAMMA] * 20
    population = recorded([{"accepted": [0] * 30, "confidence": rows}])
    for lag in (1, 2, 4):
        arm = Arm("topk", cost(), options=Options(record_steps=True), lag=lag)
        come = arrivals([(1, 9), (1, 31)], at=[0, 100])
        run = arm.run(Demand(population, arrivals=come), Load(arrivals="made"))
        run.run()
        late = [step for step in steps(run) if step["start"] >= 100]
        drafts = [step["verified_drafts"] for step in late if step["decoding"]]
        assert drafts == [GAMMA] * (10 + lag) + [0] * (20 - lag)


def test_lag_and_assumption_through_the_command_line(tmp_path):
    trace = write_trace(tmp_path / "t.jsonl", [constant(rows=12)])
    profile = write_profile(tmp_path / "p.json")
    for lag in (1, 4):
        (run,) = simulate(
            "--trace", trace, "--profile", profile, "--concurrency", 1, "--requests", 1,
            "--scheduler", "topk", "--lag", lag, "--new-survival", 0,
        )  # fmt: skip
        assert run["verification_budget"] == pytest.approx(1 + GAMMA * (12 - lag) / 12)


def test_successors_are_admitted_later_where_the_engine_plans_ahead():
    # two users; the first one's requests end while the other's goes on
    come = arrivals([(1, 3), (1, 9), (1, 3), (1, 3)])
    issued_to_first = []
    for lag in (0, 1):
        price = cost(host={"admission_lag_steps": lag})
        run, _ = serve(come, load=Load(concurrency=2), price=price)
        issued_to_first.append((run.recorder.first - run.recorder.issued)[2])
    assert issued_to_first == [1, 2]  # steps of one second


def test_a_successor_waits_for_no_step_where_none_is_under_way():
    come = arrivals([(1, 3)] * 3)
    for lag in (0, 1):
        price = cost(host={"admission_lag_steps": lag})
        assert serve(come, load=Load(concurrency=1), price=price)[1]["simulated_s"] == 9
