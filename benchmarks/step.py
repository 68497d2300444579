"""A step of 256 requests that draft 7 tokens: the decision alone, and the simulator's whole step.

    taskset -c 1 python benchmarks/step.py [--repeats 2000] [--json OUT]

``greedy`` and ``topk`` are compared with the plain way to write them from their definitions: a
stable argsort of all draft tokens by (survival descending, position ascending, request ascending).
Both must choose the same lengths on 200 random batches full of ties, or the benchmark fails. Each
pair of calls is timed in turn, so that a busy machine slows both; the ratio is the median of the
pairs'. The whole step is a closed loop of 256 users on the shipped chat trace: arrivals, prefill,
KV, the decision, pricing, outcomes, records and the simulated clock; processor time over the number
of steps, since a run is long enough to be interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np

from workbench.profiles import StepCost, TruthBelief, default_profile_name, read_profile
from workbench.schedulers import Scheduler, View, create
from workbench.serving import Arm, Demand, Load, build_population, stream
from workbench.traces import read_trace

REQUESTS, GAMMA, CONTEXT = 256, 7, 800.0
BATCHES = 200
DECISION_US, STEP_US = 40.0, 100.0  # targets, at most


class Past:
    """Survivals of two steps ago, ready to hand."""

    def __init__(self, rows: np.ndarray):
        self.rows = rows

    def survival(self, lag: int, missing: float = 1.0) -> np.ndarray:
        return self.rows


# The definitions, plainly -----------------------------------------------------------------------


def order(survival: np.ndarray) -> np.ndarray:
    """Draft tokens as position × R + request, by (survival desc, position asc, request asc)."""
    return np.argsort(-survival.T.ravel(), kind="stable")


def theta(values: np.ndarray, requests: int, seconds: np.ndarray) -> np.ndarray:
    """Θ with the first 0..N tokens admitted; ``values`` [N] in order, ``seconds`` [N + 1]."""
    return np.cumsum(np.concatenate([[float(requests)], values])) / seconds


def lengths(admitted: np.ndarray, requests: int) -> np.ndarray:
    """ℓ [R] of the tokens that were admitted."""
    return np.bincount(admitted % requests, minlength=requests)


def plain_greedy(view: View, survival: np.ndarray) -> np.ndarray:
    """Algorithm 1: admit in order while Θ rises, stop at the first Θ ≤ best."""
    tokens = order(survival)
    values = survival.T.ravel()[tokens]
    values = values[values > 0]
    gains = theta(values, view.requests, view.step_seconds(len(values)))
    stops = np.flatnonzero(gains[1:] <= gains[:-1])
    return lengths(tokens[: stops[0] if len(stops) else len(values)], view.requests)


def plain_topk(view: View, survival: np.ndarray) -> np.ndarray:
    """Asynchronous top-k: K = argmax Θ of two steps ago, then the K highest of now."""
    older = view.past.survival(2)
    values = older.T.ravel()[order(older)]
    values = values[values > 0]
    budget = int(theta(values, view.requests, view.step_seconds(len(values))).argmax())
    return lengths(order(survival)[:budget], view.requests)


PLAIN = {"greedy": plain_greedy, "topk": plain_topk}


# Batches ----------------------------------------------------------------------------------------


def blocks(rng: np.random.Generator, requests: int, digits: int | None) -> np.ndarray:
    """Survivals [R, γ]; rounded to ``digits``, so that many are equal and some are 0."""
    survival = np.cumprod(rng.beta(4.0, 1.0, (requests, GAMMA)), axis=1)
    return survival if digits is None else np.round(survival, digits)


def batch(rng: np.random.Generator, requests: int, digits: int | None, seconds) -> tuple:
    """A view and the survivals of its step."""
    view = View(
        block_size=GAMMA,
        request=np.arange(requests),
        context=np.full(requests, int(CONTEXT)),
        prefill_tokens=0,
        step_seconds=seconds,
        past=Past(blocks(rng, requests, digits)),
        draft_length=GAMMA,
        age=np.zeros(requests),
    )
    survival = blocks(rng, requests, digits)
    view.confidence = survival
    return view, survival


def check(scheduler: Scheduler, rng: np.random.Generator) -> None:
    """Raises AssertionError unless scheduler and definition agree on all batches."""
    for _ in range(BATCHES):
        requests = int(rng.integers(1, REQUESTS + 1))
        most = requests * (1 + GAMMA)
        # a staircase that rises slowly enough for some of the drafts to pay
        rises = rng.random(most + 1) < 0.05
        table = np.cumsum(np.where(rises, rng.uniform(0, 0.2, most + 1), 0.0)) + 1.0 + most / 200
        view, survival = batch(
            rng, requests, int(rng.integers(1, 3)), lambda n, t=table: t[: n + 1]
        )
        mine = scheduler.verify_lengths(view, survival)
        plain = PLAIN[scheduler.name](view, survival)
        assert np.array_equal(mine, plain), f"{scheduler.name} differs from its definition"


# Timing -----------------------------------------------------------------------------------------


def decision(scheduler: Scheduler, cost: StepCost, repeats: int) -> dict:
    """Median microseconds of ``verify_lengths`` and of the plain version."""
    rng, belief = np.random.default_rng(1), TruthBelief(cost)

    def seconds(drafts: int) -> np.ndarray:
        return belief.step_seconds(
            REQUESTS, 0, drafts, mean_context=CONTEXT, draft_tokens=GAMMA,
            sync=scheduler.synchronous,
        )  # fmt: skip

    batches = [batch(rng, REQUESTS, None, seconds) for _ in range(64)]
    calls = (scheduler.verify_lengths, PLAIN[scheduler.name])
    clock, times = time.perf_counter, np.empty((repeats, 2))
    for i in range(-64, repeats):  # the first 64 warm up
        for which, call in enumerate(calls):
            began = clock()
            chosen = call(*batches[i % 64])
            times[i, which] = clock() - began
    mine, plain = np.median(times, axis=0) * 1e6
    return {
        "decision_us": mine,
        "plain_us": plain,
        "decision_to_plain": float(np.median(times[:, 0] / times[:, 1])),
        "mean_length": float(chosen.mean()),
    }


def whole_step(spec: str, cost: StepCost, repeats: int) -> dict:
    """Median processor microseconds of a simulated step at 256 users, everything included."""
    population = build_population([read_trace("chat.jsonl")], stream(0, "densify"))
    arm, load = Arm(spec, cost), Load(concurrency=REQUESTS, stagger=True)
    demand = Demand(population, requests=20 * REQUESTS)
    times = []
    for _ in range(repeats + 1):
        run = arm.run(demand, load)
        began = time.process_time()
        run.run()
        seconds = time.process_time() - began
        result = run.result()
        times.append(seconds / result["steps"] * 1e6)
    return {
        "step_us": float(np.median(times[1:])),  # the first warms up
        "step_best_us": min(times[1:]),
        "steps": result["steps"],
        "requests_per_step": result["rounds"] / result["steps"],
    }


def main() -> None:
    """Check, time, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=2000, help="calls timed")
    parser.add_argument("--runs", type=int, default=5, help="simulations timed")
    parser.add_argument("--json", type=Path, default=Path("step.json"))
    options = parser.parse_args()
    cost, rows = StepCost(read_profile(default_profile_name)), {}
    print(f"R = {REQUESTS}, γ = {GAMMA}, load average {os.getloadavg()[0]:.1f}\n")
    print("            decision µs   plain µs   ratio   whole step µs   ÷ plain   requests in step")
    for spec in PLAIN:
        scheduler = create(spec, GAMMA)
        check(scheduler, np.random.default_rng(0))
        row = decision(scheduler, cost, options.repeats) | whole_step(spec, cost, options.runs)
        row["step_to_plain"] = row["step_us"] / row["plain_us"]
        rows[spec] = row
        print(
            f"{spec:12}{row['decision_us']:11.1f}{row['plain_us']:11.1f}"
            f"{row['decision_to_plain']:8.2f}{row['step_us']:16.1f}{row['step_to_plain']:10.2f}"
            f"{row['requests_per_step']:19.0f}"
        )
    print(f"\nequal to the definition on {BATCHES} batches with ties: {', '.join(PLAIN)}")
    for field, target, name in (
        ("decision_us", DECISION_US, "decision"),
        ("step_us", STEP_US, "whole step"),
    ):
        worst = max(row[field] for row in rows.values())
        verdict = "met" if worst <= target else "MISSED"
        print(f"{name:12}{worst:7.1f} µs, at most {target:g}: {verdict}")
    options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
