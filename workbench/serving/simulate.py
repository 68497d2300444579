"""The simulated clock: users send requests, replicas step, the run ends when all are done.

SimPy holds one process for the arrivals and one per replica; a step is one event.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import simpy

from workbench.errors import InputError
from workbench.profiles import Belief, StepCost, TruthBelief
from workbench.schedulers import Scheduler, lossless
from workbench.serving.metrics import Recorder, summarise
from workbench.serving.population import Population, request_order
from workbench.serving.replica import Options, Replica
from workbench.serving.workload import Workload, replay


@dataclass(frozen=True)
class Load:
    """How requests come. Exactly one of the three kinds is set.

    ``concurrency``: closed loop of that many users, each sends its next request when the last
    ends. ``rate``: Poisson arrivals, requests per second. ``recorded``: the traces' arrival_s.
    """

    concurrency: int | None = None
    rate: float | None = None
    recorded: bool = False
    stagger: bool = False  # closed loop: spread the users' starts over a first request's length

    def label(self) -> dict:
        """The field that names this load in a result."""
        if self.concurrency is not None:
            return {"concurrency": self.concurrency}
        return {"arrivals": "trace"} if self.recorded else {"rate": self.rate}

    def default_requests(self, recorded: int) -> int:
        """Design §6: all of the trace, and in a closed loop at least 8 per user."""
        return max(recorded, 8 * self.concurrency) if self.concurrency else recorded


def stream(seed: int, name: str) -> np.random.Generator:
    """The random stream ``name`` of a run: streams do not disturb each other."""
    return np.random.default_rng([seed, *name.encode()])


class Run:
    """One run: a population, a cost, a scheduler and a load on one simulated clock."""

    def __init__(
        self,
        population: Population,
        cost: StepCost,
        scheduler: Scheduler,
        load: Load,
        *,
        weights: np.ndarray | None = None,
        belief: Belief | None = None,
        options: Options | None = None,
        requests: int | None = None,
        seed: int = 0,
        on_progress: Callable[[int], None] | None = None,
    ):
        if scheduler.needs_confidence and population.confidence is None:
            names = ", ".join(trace.name for trace in population.traces)
            raise InputError(
                f"scheduler {scheduler.name} needs confidences, which this trace does not carry",
                file=names,
                place="confidence",
                mend="record them, or compare none, static:k and oracle",
            )
        self.population, self.cost, self.scheduler, self.load = population, cost, scheduler, load
        self.on_progress = on_progress
        count = requests or load.default_requests(len(population.output))
        self.workload = self._requests(count, weights, seed)
        self.recorder = Recorder(self.workload.output)
        self.env = simpy.Environment()
        self.issued = self.completed = 0
        self.user_of = np.zeros(len(self.workload), np.int64)
        self.served_users: set[int] = set()
        self.replica = Replica(
            self.workload,
            population,
            cost,
            belief or TruthBelief(cost),
            scheduler,
            options or Options(),
            self.recorder,
        )
        self.wake = self.env.event()
        # arrivals first: what arrives at the instant a replica starts joins its first step
        self.env.process(self._closed() if load.concurrency else self._open())
        self.env.process(self._serve())

    def _requests(self, count: int, weights, seed: int) -> Workload:
        """The requests in order of issue, and when each is due."""
        population, load = self.population, self.load
        if load.recorded:
            known = np.flatnonzero(~np.isnan(population.arrival_s))
            if len(known) < len(population.output):
                raise InputError(
                    "has requests without arrival_s",
                    file=population.traces[0].name,
                    place="arrival_s",
                    mend="give --rate or --concurrency instead",
                )
            order = known[np.argsort(population.arrival_s, kind="stable")][:count]
            due = population.arrival_s[order]
            return replay(population, order, due - due[0])
        if weights is None:
            weights = np.ones(len(population.traces))
        order = request_order(population, weights, count, stream(seed, "order"))
        if load.concurrency:
            return replay(population, order)
        gaps = stream(seed, "arrivals").exponential(1.0 / load.rate, count)
        return replay(population, order, np.cumsum(gaps))

    def _issue(self, user: int = 0) -> None:
        serial, now = self.issued, self.env.now
        self.issued += 1
        self.user_of[serial] = user
        self.recorder.issued[serial] = now
        self.replica.waiting.append(serial)
        if not self.wake.triggered:
            self.wake.succeed()

    def _closed(self) -> Iterator[simpy.Event]:
        users = min(self.load.concurrency, len(self.workload))
        gap = self._stagger_seconds(users) if self.load.stagger else 0.0
        for user in range(users):
            if user and gap:
                yield self.env.timeout(gap)
            self._issue_next(user)
        yield self.env.timeout(0)

    def _stagger_seconds(self, users: int) -> float:
        """A first request's length under plain decoding at this concurrency, over the users."""
        output = self.workload.output[:users]
        context = float((self.workload.prompt[:users] + output / 2).mean())
        batch = min(users, self.replica.options.max_running)
        step = (
            self.cost.verify_seconds(batch)
            + self.cost.attention_seconds(batch, context)
            + self.cost.host_seconds(False)
        )
        return float(output.mean()) * step / users

    def _issue_next(self, user: int) -> None:
        if self.issued < len(self.workload):
            self._issue(user)
            if self.issued == len(self.workload):
                self.recorder.close(self.env.now)

    def _open(self) -> Iterator[simpy.Event]:
        count = len(self.workload)
        first, last = count // 10, count - 1 - count // 10
        for serial, due in enumerate(self.workload.due.tolist()):
            if due > self.env.now:
                yield self.env.timeout(due - self.env.now)
            self._issue()
            if serial == first:
                self.recorder.open(self.env.now)
            if serial == last:
                self.recorder.close(self.env.now)
        yield self.env.timeout(0)

    def _serve(self) -> Iterator[simpy.Event]:
        replica, env = self.replica, self.env
        while True:
            if not replica.busy:
                self.wake = env.event()
                yield self.wake
            yield env.timeout(replica.plan(env.now))
            for serial in replica.commit(env.now):
                self._finished(serial, env.now)

    def _finished(self, serial: int, now: float) -> None:
        self.completed += 1
        if self.on_progress:
            self.on_progress(1)
        if self.load.concurrency:
            user = int(self.user_of[serial])
            if len(self.served_users) < self.load.concurrency:
                self.served_users.add(user)
                if len(self.served_users) == self.load.concurrency:
                    self.recorder.open(now)
            self._issue_next(user)

    def result(self) -> dict:
        """Run to the end; the run's entry in ``workbench.result/1`` (design §7)."""
        began = time.perf_counter()
        self.env.run()  # ends when only the idle replica is left waiting
        scheduler, population = self.scheduler, self.population
        figures = summarise(self.recorder, self.cost.gpus, self.env.now)
        exact = population.dense and scheduler.exact_replay
        verdict = lossless(scheduler, population.confidence_sees, population.temperature)
        return {
            "scheduler": scheduler.name,
            "lossless": verdict,
            "replay": "exact" if exact else "approximate",
            "hindsight": scheduler.reads == "outcomes",
            **self.load.label(),
            "requests": len(self.workload),
            **figures,
            "wall_s": time.perf_counter() - began,
        }
