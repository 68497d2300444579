"""A sweep: groups of arms under the same loads and seeds, and its results so far."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from workbench.frontier.bands import GroupFrontier, group_frontier
from workbench.frontier.digest import arm_digest, demand_digest, point_key
from workbench.frontier.pool import Pool, Task
from workbench.serving import Arm, Demand, Load


@dataclass(frozen=True)
class Group:
    """Arms that are compared with each other: one demand, one profile."""

    name: str
    demand: Demand
    arms: Mapping[str, Arm]  # by the name that tables and plots call it
    baseline: str  # one of the names


@dataclass
class Study:
    """Every arm of every group under every load and seed.

    slo, gpu_hour_usd: as ``serving.Run.result`` takes them.
    """

    groups: Sequence[Group]
    loads: Sequence[Load]
    seeds: Sequence[int] = (0,)
    slo: dict | None = None
    gpu_hour_usd: float | None = None
    runs: dict[int, dict] = field(default_factory=dict)  # by index into ``tasks()``, as they come

    def tasks(self) -> list[Task]:
        """All simulations, the longest (fewest users) first."""
        metrics = {"slo": self.slo, "gpu_hour_usd": self.gpu_hour_usd}
        demands = [demand_digest(group.demand) for group in self.groups]
        arms = [
            {name: arm_digest(arm) for name, arm in group.arms.items()} for group in self.groups
        ]
        return [
            Task(
                point_key(arms[g][name], demands[g], load, seed, group.demand.count(load), metrics),
                arm,
                g,
                load,
                seed,
                name=name,
                slo=self.slo,
                gpu_hour_usd=self.gpu_hour_usd,
            )
            for load in self.loads
            for g, group in enumerate(self.groups)
            for name, arm in group.arms.items()
            for seed in self.seeds
        ]

    def simulate(self, pool: Pool, tasks: Sequence[Task] | None = None) -> Iterator[dict]:
        """Fill ``runs``, yielding each as it comes. ``pool``: over the groups' demands, in order.

        What came before an error or Ctrl-C stays in ``runs``.
        """
        tasks = self.tasks() if tasks is None else tasks
        for index, run in pool.results(tasks):
            task = tasks[index]
            self.runs[index] = {
                **run,
                "scheduler": task.name,
                "group": task.demand,
                "seed": task.seed,
            }
            yield self.runs[index]

    def ordered(self, group: int) -> list[dict]:
        """A group's runs so far by scheduler, load and seed, in whatever order they came."""
        mine = [run for _, run in sorted(self.runs.items()) if run["group"] == group]
        place = {name: index for index, name in enumerate(self.groups[group].arms)}
        return sorted(mine, key=lambda run: place[run["scheduler"]])

    def frontiers(self, anchors: Sequence[float] | None = None) -> list[GroupFrontier]:
        """The frontier of every group of what was simulated so far.

        anchors: tok/s/user of the SLA tables; None: chosen from the baseline's speeds.
        """
        return [
            group_frontier(group.name, runs, group.baseline, anchors)
            for index, group in enumerate(self.groups)
            if (runs := self.ordered(index))
        ]
