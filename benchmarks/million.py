"""Does the cost per request stay flat? 10^3 to 10^6 requests of an Azure-like day.

    taskset -c 1 python benchmarks/million.py --azure azure2023_conv.csv.gz
        [--most 1000000] [--speedup 9] [--replicas 8] [--json OUT] [--plot OUT]

A day of 10^6 requests is made of the Azure 2023 conversation trace (``arrivals.stretch``: blocks of
64 requests, the rate a cosine with 3 times as much at 14:00 as at 2:00) and played ``--speedup``
times faster to ``--replicas`` replicas behind the least-loaded router, which it loads and which
settle. Smaller sizes are slices of that day around 8:00, where the rate is the day's mean. Every
size runs in a process of its own; ``topk`` replays the shipped chat trace, up to 10^5 requests.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from workbench.errors import InputError

DAY, MEAN_RATE_AT_S = 1_000_000, 8 * 3600.0  # requests; the cosine crosses its mean at 8:00
SPECULATING_MOST = 100_000


def peak_mb() -> float:
    """Highest resident memory of this process."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1e3 for line in file if line.startswith("VmHWM"))


def day_slice(path: str, count: int, speedup: float):
    """``count`` requests around the moment of mean rate, from 0 s on; all of them: the day."""
    import numpy as np

    from workbench.arrivals import read_arrivals, stretch

    day = stretch(read_arrivals(path), DAY, np.random.default_rng(0))
    middle = int(np.searchsorted(day.at, MEAN_RATE_AT_S))
    first = min(max(middle - count // 2, 0), DAY - count)
    rows = slice(first, first + count)
    return dataclasses.replace(
        day,
        at=(day.at[rows] - day.at[first]) / speedup,
        prompt_tokens=day.prompt_tokens[rows].copy(),  # views would keep the day in memory
        output_tokens=day.output_tokens[rows].copy(),
    )


def one(options: argparse.Namespace) -> dict:
    """One run in this process."""
    from workbench.profiles import StepCost, default_profile_name, read_profile
    from workbench.serving import Arm, Demand, Load, build_population, stream
    from workbench.traces import read_trace

    warm_up = day_slice(options.azure, 200, options.speedup)
    arrivals = day_slice(options.azure, options.one, options.speedup)
    population = None
    if options.scheduler != "none":
        population = build_population([read_trace("chat.jsonl")], stream(0, "densify"))
    cost = StepCost(read_profile(default_profile_name))
    arm = Arm(options.scheduler, cost, replicas=options.replicas, router="least-loaded")
    load = Load(arrivals=options.azure)
    arm.run(Demand(population, arrivals=warm_up), load).run()
    run = arm.run(Demand(population, arrivals=arrivals), load)
    began, cpu = time.perf_counter(), time.process_time()
    run.run()
    result = run.result()
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    steps = result["steps"]
    return {
        "scheduler": options.scheduler,
        "requests": options.one,
        "wall_s": seconds,
        "cpu_s": cpu,
        "us_per_request": cpu / options.one * 1e6,
        "steps": steps,
        "steps_per_s": steps / cpu,
        "us_per_step": cpu / steps * 1e6,
        "peak_mb": peak_mb(),
        "requests_per_simulated_s": options.one / result["simulated_s"],
        "requests_per_step": result["rounds"] / steps,
        "simulated_h": result["simulated_s"] / 3600,
        "overloaded": result["overloaded"],
        "load_average": os.getloadavg()[0],
    }


def apart(options: argparse.Namespace, scheduler: str, count: int) -> dict:
    """One run in a process of its own."""
    command = [sys.executable, __file__, "--azure", options.azure]
    command += ["--speedup", str(options.speedup), "--replicas", str(options.replicas)]
    command += ["--scheduler", scheduler, "--one", str(count)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise InputError((done.stderr.strip().splitlines() or ["no message"])[-1])
    return json.loads(done.stdout)


def plot(runs: list[dict], path: Path) -> None:
    """Processor time per request and peak memory against requests."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from workbench.files import atomic_write

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for scheduler, marker in (("none", "o"), ("topk", "s")):
        mine = [run for run in runs if run["scheduler"] == scheduler]
        if not mine:
            continue
        requests = [run["requests"] for run in mine]
        label = "no speculation" if scheduler == "none" else "topk, γ = 7"
        left.plot(requests, [r["us_per_request"] for r in mine], marker + "-", label=label)
        right.plot(requests, [r["peak_mb"] for r in mine], marker + "-", label=label)
    left.set(ylabel="processor time per request, µs", ylim=(10, 10_000))
    right.set(ylabel="peak resident memory, MB", ylim=(100, 1_000))
    for axes in (left, right):
        axes.set(xlabel="requests", xscale="log", yscale="log")
        axes.grid(alpha=0.3)
    left.legend(frameon=False)
    with atomic_write(path) as file:
        figure.savefig(file, format="png", dpi=150)


def main() -> int:
    """Run every size, print the table, plot it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--azure", required=True, help="azure2023_conv.csv[.gz]")
    parser.add_argument("--most", type=int, default=DAY)
    parser.add_argument("--speedup", type=float, default=9.0)
    parser.add_argument("--replicas", type=int, default=8)
    parser.add_argument("--json", type=Path, default=Path("million.json"))
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--scheduler", default="none", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not Path(options.azure).is_file():
        mend = "take AzureLLMInferenceTrace_conv.csv of github.com/Azure/AzurePublicDataset"
        raise InputError("no such file", file=options.azure, place="--azure", mend=mend)
    if options.one:
        print(json.dumps(one(options)))
        return 0
    runs = []
    print("µs of processor time; in step: requests that decode in one step, on average\n")
    print("scheduler  requests    wall s     CPU s  µs/request  µs/step  in step  steps/s  peak MB")
    for scheduler, most in (("none", DAY), ("topk", SPECULATING_MOST)):
        for count in (1_000, 10_000, 100_000, 1_000_000):
            if count > min(most, options.most):
                continue
            run = apart(options, scheduler, count)
            runs.append(run)
            options.json.write_text(json.dumps(runs, indent=1))
            settled = "" if not run["overloaded"] else "  never settles"
            print(
                f"{scheduler:9}{count:10,}{run['wall_s']:10.2f}{run['cpu_s']:10.2f}"
                f"{run['us_per_request']:12.0f}{run['us_per_step']:9.1f}"
                f"{run['requests_per_step']:9.1f}{run['steps_per_s']:9,.0f}{run['peak_mb']:9.0f}"
                f"{settled}",
                flush=True,
            )
    if options.plot:
        plot(runs, options.plot)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except InputError as error:
        print(f"million.py: {error}", file=sys.stderr)
        sys.exit(2)
