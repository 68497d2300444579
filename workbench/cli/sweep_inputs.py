"""What ``sweep`` compares, made of its options: inputs by profile and trace, arms, loads, seeds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from workbench.cli.options import as_simulate
from workbench.cli.setup import Setup
from workbench.errors import InputError
from workbench.frontier import Group, Study
from workbench.profiles import default_profile_name
from workbench.schedulers import Scheduler, create
from workbench.serving import Arm

DEFAULT_CONCURRENCY = (1, 2, 4, 8, 16, 32, 64, 128, 256)


def sweep_setups(given: dict) -> dict[str, Setup]:
    """By group name: the inputs of each profile and, with --apart, of each trace."""
    if given["apart"] and len(given["traces"]) < 2:
        raise InputError("has nothing to part", place="--apart", mend="give several --trace")
    stagger = given["stagger"]
    if stagger is None:
        stagger = not (given["rate"] or given["arrivals"]) or bool(given["concurrency"])
    concurrency = given["concurrency"]
    if not (concurrency or given["rate"] or given["arrivals"]):
        concurrency = DEFAULT_CONCURRENCY
    profiles = list(dict.fromkeys(given["profiles"])) or [default_profile_name]
    demands = [(trace,) for trace in given["traces"]] if given["apart"] else [given["traces"]]
    setups: dict[str, Setup] = {}
    for traces in demands:
        for profile in profiles:
            setup = Setup(
                as_simulate(
                    given,
                    traces=traces,
                    profile=profile,
                    concurrency=concurrency,
                    stagger=stagger,
                )
            )
            if setup.loads[0].arrivals is not None:
                raise InputError(
                    "is one load, and a frontier needs several",
                    place="--arrivals",
                    mend="give --rate or --concurrency, or use simulate",
                )
            parts = [Path(name).name.partition(".")[0] for name in setup.names]
            name = " + ".join(parts) or "arrivals"
            name += f" on {setup.profile.name}"
            if name in setups:
                raise InputError(f"{name} comes twice", mend="name each trace and profile once")
            setups[name] = setup
    return setups


def study_of(given: dict, setups: dict[str, Setup]) -> Study:
    """Every scheduler, and the baseline, under every load and seed."""
    groups = []
    for name, setup in setups.items():
        arms = _named_arms(setup)
        spec = given["baseline"]
        if spec is None:
            spec = "static:1" if setup.population else "none"
        baseline = _baseline(spec, setup.gamma)
        if baseline.drafter and setup.population is None:
            raise InputError(
                f"{spec} drafts, and arrivals alone say nothing of acceptance",
                place="--baseline",
                mend="add a --trace",
            )
        if baseline.name not in arms:
            arms[baseline.name] = replace(setup.arms[0], scheduler=spec)
        groups.append(Group(name, setup.demand, arms, baseline.name))
    first = next(iter(setups.values()))
    seeds = range(given["seed"], given["seed"] + given["seeds"])
    return Study(groups, first.loads, seeds, given["slo"], given["gpu_hour_usd"])


def _baseline(spec: str, gamma: int) -> Scheduler:
    try:
        return create(spec, gamma)
    except InputError as error:
        raise error.at(f"--baseline {spec}") from error


def _named_arms(setup: Setup) -> dict[str, Arm]:
    """The arms by the schedulers' names, by specification where two have the same name."""
    arms: dict[str, Arm] = {}
    for arm in setup.arms:
        name = create(arm.scheduler, setup.gamma).name
        arms[arm.scheduler if name in arms else name] = arm
    return arms
