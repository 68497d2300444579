"""The simulated clock: users send requests, replicas step, the run ends when all are done.

SimPy holds one process for the arrivals and one per replica; a step is one event.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator

import numpy as np
import simpy
from simpy.events import NORMAL, URGENT

from workbench.profiles import Belief, StepCost, TruthBelief
from workbench.schedulers import Scheduler, lossless
from workbench.serving.load import Load
from workbench.serving.loop import FINISHED_SOME
from workbench.serving.metrics import Recorder, named, summarise
from workbench.serving.options import Options
from workbench.serving.population import Population, require_confidence
from workbench.serving.replica import Replica
from workbench.serving.router import make_router
from workbench.serving.workload import Workload

LAST = NORMAL + 1  # priority of events that close an instant


class Run:
    """One run: a workload, a cost, a scheduler and replicas on one simulated clock.

    ``new_scheduler`` makes a scheduler per replica: schedulers may keep state between steps.
    """

    def __init__(
        self,
        workload: Workload,
        population: Population | None,
        cost: StepCost,
        new_scheduler: Callable[[], Scheduler],
        load: Load,
        *,
        belief: Belief | None = None,
        options: Options | None = None,
        replicas: int = 1,
        router: str = "round-robin",
        seed: int = 0,
        on_progress: Callable[[int], None] | None = None,
    ):
        self.workload, self.population = workload, population
        self.cost, self.load, self.on_progress = cost, load, on_progress
        self.recorder = Recorder(workload.output)
        self.env = simpy.Environment()
        self.user_of = np.zeros(len(workload), np.int64)
        self.served_users: set[int] = set()
        schedulers = [new_scheduler() for _ in range(replicas)]
        self.scheduler = schedulers[0]
        require_confidence(population, self.scheduler)
        self.replicas = [
            Replica(
                workload,
                population,
                cost,
                belief or TruthBelief(cost),
                scheduler,
                options or Options(),
                self.recorder,
                seed,
                closed_loop=load.concurrency is not None,
            )
            for scheduler in schedulers
        ]
        self.wakes = [self.env.event() for _ in self.replicas]
        self.next_due = 0.0  # when the next request arrives, open loop
        self.end = 0.0  # the last moment that was simulated
        self.route = make_router(router, self.replicas)
        # arrivals first: what arrives at the instant a replica starts joins its first step
        self.env.process(self._closed() if load.concurrency else self._open())
        for index in range(replicas):
            self.env.process(self._serve(index))

    # Arrivals ------------------------------------------------------------------------------------

    def _issue(self, now: float, user: int = 0, successor: bool = False) -> None:
        recorder = self.recorder
        serial = recorder.issued_count
        recorder.issued_count += 1
        self.user_of[serial] = user
        recorder.issued[serial] = now
        index = 0
        if len(self.replicas) > 1:
            index = self.route(serial, self.workload.session_of(serial))
            recorder.replica[serial] = index
        self.replicas[index].enqueue(serial, successor)
        if not self.wakes[index].triggered:
            self.wakes[index].succeed(now)

    def _issue_next(self, now: float, user: int, successor: bool = False) -> None:
        if self.recorder.issued_count < len(self.workload):
            self._issue(now, user, successor)
            if self.recorder.issued_count == len(self.workload):
                self.recorder.close(now)

    def _closed(self) -> Iterator[simpy.Event]:
        users = min(self.load.concurrency, len(self.workload))
        gap = self._stagger_seconds(users) if self.load.stagger else 0.0
        for user in range(users):
            if user and gap:
                yield self._at_once(gap)
            self._issue_next(self.env.now, user)
        yield self.env.timeout(0)

    def _stagger_seconds(self, users: int) -> float:
        """A first request's length under plain decoding at this concurrency, over the users."""
        output = self.workload.output[:users]
        context = float((self.workload.prompt[:users] + output / 2).mean())
        batch = min(-(-users // len(self.replicas)), self.replicas[0].options.slots)
        step = (
            self.cost.verify_seconds(batch)
            + self.cost.attention_seconds(batch, context)
            + self.cost.host_seconds(False)
        )
        return float(output.mean()) * step / users

    def _open(self) -> Iterator[simpy.Event]:
        count = len(self.workload)
        first, last = count // 10, count - 1 - count // 10
        for serial, due in enumerate(self.workload.due):
            self.next_due = float(due)
            if self.next_due > self.env.now:
                yield self._at_once(self.next_due - self.env.now)
            self._issue(self.next_due)
            if serial == first:
                self.recorder.open(self.next_due)
            if serial == last:
                self.recorder.close(self.next_due)
        self.next_due = math.inf
        yield self.env.timeout(0)

    def _at_once(self, delay: float) -> simpy.Event:
        """An event after ``delay`` that comes before all others of its instant.

        So what arrives at the instant at which a step starts joins that step.
        """
        event = simpy.Event(self.env)
        event._ok, event._value = True, None
        self.env.schedule(event, URGENT, delay)
        return event

    def _last_of_all(self) -> simpy.Event:
        """An event of this instant that comes after all others: completions elsewhere are in."""
        event = simpy.Event(self.env)
        event._ok, event._value = True, None
        self.env.schedule(event, LAST)
        return event

    # Service -------------------------------------------------------------------------------------

    def _serve(self, index: int) -> Iterator[simpy.Event]:
        replica, env, closed = self.replicas[index], self.env, bool(self.load.concurrency)
        shared = closed and len(self.replicas) > 1
        now = env.now
        while True:
            if not replica.busy:
                self.wakes[index] = env.event()
                now = yield self.wakes[index]
            if shared:
                # what ends here and elsewhere at this instant sends requests that join the step
                self._succeed(replica, *self._advance(replica, now, -math.inf))
                yield self._last_of_all()
                if not replica.busy:
                    continue
            # until then nothing reaches this replica: arrivals, or whatever comes next
            until = env.peek() if closed else self.next_due
            status, now = self._advance(replica, now, until)
            if now > env.now:
                yield env.timeout(now - env.now)
            self._succeed(replica, status, now)

    def _advance(self, replica: Replica, now: float, until: float) -> tuple[int, float]:
        """``replica.advance``, and note of what it completed."""
        status, now = replica.advance(now, until)
        self.recorder.completed_count += replica.completed
        self.end = max(self.end, now)
        if self.on_progress and replica.completed:
            self.on_progress(replica.completed)
        return status, now

    def _succeed(self, replica: Replica, status: int, now: float) -> None:
        """In a closed loop, the users of the requests that finished go on."""
        if status == FINISHED_SOME and self.load.concurrency:
            for serial in replica.finished:
                self._finished(serial, now)

    def _finished(self, serial: int, now: float) -> None:
        """The user whose request ended sends the next one."""
        user = int(self.user_of[serial])
        if len(self.served_users) < self.load.concurrency:
            self.served_users.add(user)
            if len(self.served_users) == self.load.concurrency:
                self.recorder.open(now)
        self._issue_next(now, user, successor=True)

    # Result --------------------------------------------------------------------------------------

    def run(self) -> None:
        """Simulate to the end: until only idle replicas are left waiting."""
        began = time.perf_counter()
        try:
            self.env.run()
        finally:
            self.wall_s = time.perf_counter() - began

    def result(self, *, slo: dict | None = None, gpu_hour_usd: float | None = None) -> dict:
        """The run's entry in ``workbench.result/1`` (design §7), of what was simulated so far."""
        scheduler, population, recorder = self.scheduler, self.population, self.recorder
        gpus = self.cost.gpus * len(self.replicas)
        figures = summarise(recorder, gpus, self.end, slo=slo, gpu_hour_usd=gpu_hour_usd)
        unbiased = population is None or lossless(
            scheduler, population.confidence_sees, population.temperature
        )
        # plain decoding reads no recorded row; what biases the output would have written another
        exact = scheduler.uniform == 0 or (
            unbiased and scheduler.exact_replay and self.workload.whole and population.dense
        )
        entry = {
            "scheduler": scheduler.name,
            "lossless": unbiased,
            "replay": "exact" if exact else "approximate",
            "hindsight": scheduler.reads == "outcomes",
            **self.load.label(),
            "requests": len(self.workload),
            **figures,
        }
        if len(self.replicas) > 1:
            entry["replicas"] = self._per_replica()
        if not self.load.concurrency:
            entry["overloaded"] = self._overloaded()
        if recorder.completed_count < len(self.workload):
            entry["partial"] = True
        return entry | {"wall_s": self.wall_s}

    def _overloaded(self) -> bool | None:
        """Whether requests piled up in the second half of the window by more than chance.

        By over a twentieth of the arrivals in that half plus three deviations of a Poisson count.
        None if the half is shorter than three times a request is served: it is still filling up.
        """
        recorder = self.recorder
        start, stop, steady = recorder.window(self.end)
        middle = (start.time + stop.time) / 2
        served = recorder.last - recorder.first
        if not steady or stop.time - middle < 3 * np.nanmean(served):
            return None

        def in_system(now: float) -> int:
            return int((recorder.issued <= now).sum() - (recorder.last <= now).sum())

        arrived = int(((recorder.issued > middle) & (recorder.issued <= stop.time)).sum())
        grown = in_system(stop.time) - in_system(middle)
        return grown > arrived / 20 + 3 * arrived**0.5

    def _per_replica(self) -> list[dict]:
        recorder, seconds = self.recorder, self.end
        entries = []
        for index, replica in enumerate(self.replicas):
            counted = named(replica.counters)
            served = (recorder.replica == index) & ~np.isnan(recorder.last)
            entries.append(
                {
                    "requests_completed": int(served.sum()),
                    "output_tokens": counted["tokens"],
                    "throughput_tok_s_gpu": counted["tokens"] / seconds / self.cost.gpus
                    if seconds
                    else None,
                    "steps": counted["steps"],
                    "preemptions": counted["preemptions"],
                }
            )
        return entries
