"""What is tuned, under which load and limits, and what a finished trial says."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from workbench.frontier.digest import arm_digest, digest, sources
from workbench.frontier.space import MEASURED, Configuration, Deployments, Space
from workbench.serving import Demand, Load, shortened

SHORT_SHARE = 8  # a short run has this part of the requests


@dataclass(frozen=True)
class Problem:
    """What is tuned, under which load, for what."""

    space: Space
    deployments: Deployments
    load: Load
    seed: int
    requests: int
    objectives: tuple[str, ...]
    slo: dict[str, float] = field(default_factory=dict)
    gpu_hour_usd: float | None = None
    prune: bool = True

    @property
    def short_requests(self) -> int | None:
        """Requests of a short simulation; None where it would not be much shorter."""
        least = 2 * (self.load.concurrency or 16)
        short = max(self.requests // SHORT_SHARE, least)
        return short if self.prune and 2 * short <= self.requests else None

    def demands(self, demand: Demand) -> list[Demand]:
        """What a pool needs: ``demand``, then the same with each shorter block of the space."""
        population = demand.population
        return [
            demand,
            *(
                replace(demand, population=shortened(population, length))
                for length in self.space.shorter
            ),
        ]

    def demand_of(self, chosen: Configuration) -> int:
        """Index into ``demands``."""
        if chosen.block_size is None:
            return 0
        return 1 + self.space.shorter.index(chosen.block_size)

    def fingerprint(self, demand: str) -> str:
        """What two trials of one study have to share; ``demand``: its digest."""
        examples = [Configuration(one, 1, 1, MEASURED) for one in self.space.examples()]
        return digest(
            sources(),
            demand,
            [arm_digest(self.deployments.arm(one)) for one in examples],
            self.space,
            self.load,
            [self.seed, self.requests, self.objectives, self.slo, self.gpu_hour_usd],
        )


@dataclass(frozen=True)
class Found:
    """A finished trial."""

    number: int
    chosen: Configuration
    values: tuple[float, ...]  # as the objectives are, in their units
    violations: tuple[float, ...]
    figures: dict
    parameters: dict  # as Optuna has them

    @property
    def feasible(self) -> bool:
        """Whether all limits hold."""
        return self.missed <= 0

    @property
    def missed(self) -> float:
        """By how much limits are missed, all together; 0 if they hold."""
        return sum(max(0.0, missed) for missed in self.violations)
