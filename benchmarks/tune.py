"""Does ``tune`` find in 100 trials what a grid of 500 points finds, on the same simulator?

Question: most tok/s/GPU on the shipped chat trace and H200 profile, under limits. The grid:
20 schedulers (none, static:1–7, threshold:0.1–0.9, greedy, topk:1–2) × 5 limits of running
requests × 5 token budgets. The search chooses finer (h by 0.02, lags 1–4) and drafts per block too.
Several seeds of the search; the simulations' own seed stays.
"""

from __future__ import annotations

import argparse
import itertools
import os
import tempfile
import time
from pathlib import Path

from workbench.cli.setup import Setup
from workbench.cli.simulate import command as simulate
from workbench.frontier import Cache, Pool, Task
from workbench.frontier.digest import arm_digest, demand_digest, point_key
from workbench.frontier.objectives import violations
from workbench.frontier.problem import Problem
from workbench.frontier.space import MEASURED, Configuration, Deployments, Space, default_families
from workbench.frontier.tuner import Tuner

GAMMA = 7
RUNNING, BUDGETS = (16, 32, 64, 128, 256), (512, 1024, 2048, 4096, 8192)
GRID = (
    "none",
    *(f"static:{k}" for k in range(1, GAMMA + 1)),
    *(f"threshold:{h / 10:g}" for h in range(1, 10)),
    "greedy",
    "topk:1",
    "topk:2",
)
QUESTIONS = {
    "64 users, speed ≥ 200": (64, {"speed": 200.0}),
    "256 users, speed ≥ 120": (256, {"speed": 120.0}),
    "64 users, p99 of TPOT ≤ 6.2 ms, of TTFT ≤ 3 s": (64, {"tpot": 0.0062, "ttft": 3.0}),
}


def setup(concurrency: int, requests: int) -> Setup:
    """Inputs as the command line makes them."""
    words = ["--trace", "chat", "--scheduler", "none", "--stagger", "--requests", str(requests)]
    words += ["--concurrency", str(concurrency)]
    return Setup(simulate.make_context("simulate", words).params)


def grid(made: Setup, slo: dict, pool: Pool) -> tuple[float, Configuration]:
    """The best throughput of the grid that keeps all limits, and where."""
    deployments = Deployments(made.arms[0], made.profile, GAMMA)
    demand, load = demand_digest(made.demand), made.loads[0]
    points = [
        Configuration(*parts, MEASURED) for parts in itertools.product(GRID, RUNNING, BUDGETS)
    ]
    assert len(points) == 500
    tasks = []
    for point in points:
        arm = deployments.arm(point)
        key = point_key(arm_digest(arm), demand, load, 0, made.demand.count(load))
        tasks.append(Task(key, arm, 0, load, 0))
    able = [
        (run["throughput_tok_s_gpu"], index)
        for index, run in pool.results(tasks)
        if max(violations(run, slo), default=0.0) <= 0
    ]
    if not able:
        raise SystemExit(f"no point of the grid keeps {slo}")
    value, index = max(able)
    return value, points[index]


def question(made: Setup, slo: dict) -> Problem:
    """Most throughput under ``slo``."""
    blocks = tuple(range(1, GAMMA + 1))
    space = Space(default_families(True), GAMMA, RUNNING, BUDGETS, (MEASURED,), blocks)
    deployments = Deployments(made.arms[0], made.profile, GAMMA)
    requests = made.demand.count(made.loads[0])
    return Problem(space, deployments, made.loads[0], 0, requests, ("throughput",), slo)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", type=int, help="one of the questions, from 0")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    given = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f}")
    chosen = list(QUESTIONS.items())
    for words, (concurrency, slo) in chosen if given.only is None else [chosen[given.only]]:
        made = setup(concurrency, given.requests)
        problem = question(made, slo)
        with (
            tempfile.TemporaryDirectory() as folder,
            Pool(problem.demands(made.demand), jobs=given.jobs, cache=Cache(Path(folder))) as pool,
        ):
            began = time.perf_counter()
            best, where = grid(made, slo, pool)
            seconds = time.perf_counter() - began
            print(f"{words}: grid of 500 {best:,.0f} tok/s/GPU, {seconds:.0f} s, {where}")
            pool.cache = None
            for seed in range(given.seeds):
                began = time.perf_counter()
                tuner = Tuner(problem, pool, search_seed=seed)  # a study in memory
                tuner.run(given.trials)
                seconds = time.perf_counter() - began
                found = tuner.pareto()
                value = found[0].values[0] if found else float("nan")
                print(
                    f"  seed {seed}: {value:,.0f} ({value / best - 1:+.2%}) in {seconds:.0f} s, "
                    f"trial {found[0].number if found else '-'}, {tuner.counts()}, "
                    f"{found[0].chosen if found else 'none feasible'}"
                )
    print(f"load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
