"""Speed of the simulator: the shipped chat trace, closed loop, the default six schedulers.

    python benchmarks/schedulers_on_chat.py [--requests 2000] [--concurrency 128]

Prints, per scheduler, wall seconds of the run, engine steps per second and request-rounds per
second on one core, and the time of one step.
"""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.table import Table

from workbench.profiles import StepCost, default_profile_name, read_profile
from workbench.schedulers import default_schedulers
from workbench.serving import Arm, Demand, Load, build_population, stream
from workbench.traces import read_trace


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trace", default="chat.jsonl")
    parser.add_argument("--profile", default=default_profile_name)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--concurrency", type=int, default=128)
    options = parser.parse_args()
    population = build_population([read_trace(options.trace)], stream(0, "densify"))
    cost = StepCost(read_profile(options.profile))
    table = Table("scheduler", "wall s", "steps", "steps/s", "request-rounds/s", "µs/step")
    for column in table.columns[1:]:
        column.justify = "right"
    whole = 0.0
    demand, load = Demand(population, requests=options.requests), Load(options.concurrency)
    for spec in default_schedulers(population.block_size):
        for _ in range(2):  # the first run warms up
            run = Arm(spec, cost).run(demand, load)
            run.run()
        result = run.result()
        wall, steps = result["wall_s"], result["steps"]
        whole += wall
        table.add_row(
            spec,
            f"{wall:.2f}",
            f"{steps:,}",
            f"{steps / wall:,.0f}",
            f"{result['rounds'] / wall:,.0f}",
            f"{wall / steps * 1e6:.1f}",
        )
    Console(width=100).print(table)
    print(
        f"{options.requests} requests at concurrency {options.concurrency}: {whole:.2f} s for all"
    )


if __name__ == "__main__":
    main()
