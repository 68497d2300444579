"""An arm: a named combination of traces, profile, scheduler and engine options (design §6)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from workbench.arrivals import Arrivals, process
from workbench.errors import InputError
from workbench.profiles import Belief, StepCost
from workbench.schedulers import Scheduler, create
from workbench.serving.load import Load, stream
from workbench.serving.options import Options
from workbench.serving.population import Population, request_order
from workbench.serving.simulate import Run
from workbench.serving.workload import Workload, from_arrivals, from_recordings


@dataclass(frozen=True)
class Demand:
    """What requests there are, apart from when they come: the same for all arms of a study."""

    population: Population | None  # None: plain decoding with the lengths of ``arrivals``
    weights: np.ndarray | None = None  # [traces]
    arrivals: Arrivals | None = None
    requests: int | None = None
    priorities: dict[str, float] = field(default_factory=dict)  # by domain, lowest first
    burstiness: float | None = None  # coefficient of variation of the gaps; None: Poisson
    on_off: tuple[float, float] | None = None  # seconds of bursts and of silence

    def workload(self, load: Load, seed: int) -> Workload:
        """The requests of a run in order of issue. Equal for equal load and seed."""
        count, arrivals = self.count(load), self.arrivals
        due = None
        if load.rate is not None:
            rng = stream(seed, "arrivals")
            due = process(load.rate, count, rng, cv=self.burstiness, on_off=self.on_off)
        if load.arrivals == "trace":
            return self._recorded(count)
        order = None
        if self.population is not None:
            weights = np.ones(len(self.population.traces)) if self.weights is None else self.weights
            order = request_order(self.population, weights, count, stream(seed, "order"))
        if arrivals is not None:
            if due is None and load.concurrency is None:
                due = arrivals.at[:count]
            if arrivals.output_tokens is not None and arrivals.prompt_tokens is not None:
                some = _first(arrivals, count)
                rng = stream(seed, "continue")
                return self._ranked(from_arrivals(some, self.population, order, rng, due))
        return self._ranked(from_recordings(self.population, order, due))

    def count(self, load: Load) -> int:
        """How many requests the run has. Raises InputError if more are asked for than come."""
        if self.arrivals is None and load.arrivals is None:
            return self.requests or load.default_requests(len(self.population.output))
        there = len(self.population.output) if self.arrivals is None else self.arrivals.requests
        if self.requests is not None and self.requests > there:
            raise InputError(
                f"{self.requests} requests are asked for and {there} arrive",
                file=load.arrivals,
                place="--requests",
                mend="ask for fewer",
            )
        return self.requests or there

    def _recorded(self, count: int) -> Workload:
        """The traces' own requests at their own times."""
        population = self.population
        missing = np.isnan(population.arrival_s)
        if missing.any():
            raise InputError(
                "has requests without arrival_s",
                file=population.traces[population.trace_of[missing.argmax()]].name,
                place="arrival_s",
                mend="give --rate or --concurrency instead",
            )
        order = np.argsort(population.arrival_s, kind="stable")[:count]
        due = population.arrival_s[order]
        if len(due) > 1 and due[0] == due[-1]:
            raise InputError(
                f"has all its requests arrive at {due[0]:g} s: no arrivals were recorded",
                file=population.traces[0].name,
                place="arrival_s",
                mend="give --rate or --concurrency instead",
            )
        return self._ranked(from_recordings(population, order, due - due[0]))

    def _ranked(self, workload: Workload) -> Workload:
        if not self.priorities:
            return workload
        ranks = [self.priorities.get(name, 0.0) for name in self.population.domain_names]
        rank = np.array(ranks)[self.population.domain[workload.source]]
        return dataclasses.replace(workload, priority=rank)


def _first(arrivals: Arrivals, count: int) -> Arrivals:
    if count == arrivals.requests:
        return arrivals

    def cut(column):
        return None if column is None else column[:count]

    return dataclasses.replace(
        arrivals,
        at=cut(arrivals.at),
        prompt_tokens=cut(arrivals.prompt_tokens),
        output_tokens=cut(arrivals.output_tokens),
        session=cut(arrivals.session),
        cached_prompt_tokens=cut(arrivals.cached_prompt_tokens),
    )


@dataclass(frozen=True)
class Arm:
    """What is deployed: scheduler, costs, beliefs and engine options."""

    scheduler: str  # specification, as ``schedulers.create`` reads it
    cost: StepCost
    belief: Belief | None = None  # None: the truth
    options: Options = field(default_factory=Options)
    lag: int | None = None  # overrides the lag of a scheduler that has one
    new_survival: float | None = None  # overrides what it assumes of requests without a past
    replicas: int = 1
    router: str = "round-robin"

    def new_scheduler(self, block_size: int) -> Scheduler:
        """A fresh scheduler for one replica."""
        scheduler = create(self.scheduler, block_size)
        if scheduler.lag:
            if self.lag is not None:
                scheduler.lag = self.lag
            if self.new_survival is not None:
                scheduler.new_survival = self.new_survival
        return scheduler

    def run(
        self,
        demand: Demand,
        load: Load,
        *,
        seed: int = 0,
        workload: Workload | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> Run:
        """A run that is ready to be simulated. ``workload``: ``demand.workload``, if at hand."""
        population = demand.population
        block_size = population.block_size if population else 1
        return Run(
            demand.workload(load, seed) if workload is None else workload,
            population,
            self.cost,
            lambda: self.new_scheduler(block_size),
            load,
            belief=self.belief,
            options=self.options,
            replicas=self.replicas,
            router=self.router,
            seed=seed,
            on_progress=on_progress,
        )
