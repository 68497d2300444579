"""One model replica: continuous batching over array state, one step at a time.

A step is ``plan`` (admit, draft, schedule, price) and, its seconds later, ``commit``. Where nothing
outside can intervene, ``serving.loop`` runs many of them at once. Nothing here knows of SimPy.
"""

from __future__ import annotations

import numpy as np

from workbench.profiles import Belief, StepCost, TruthBelief
from workbench.schedulers import Outcomes, Scheduler, View, checked, checked_draft_length
from workbench.serving import kernels
from workbench.serving.fast import FastPath, supported
from workbench.serving.loop import BY_HAND, FINISHED_SOME, IDLE, WAIT
from workbench.serving.metrics import Recorder
from workbench.serving.options import Options
from workbench.serving.population import Population
from workbench.serving.seating import Seating
from workbench.serving.state import (
    BEFORE,
    CHUNK,
    FINISHED,
    KEPT,
    OUTCOME,
)
from workbench.serving.workload import Workload

_NONE_DRAWN = np.zeros(0, bool)
_NO_ROWS = np.zeros(1, np.uint8)
_NO_ROWS.setflags(write=False)


class Replica(Seating):
    """One replica: what its next step is, what it costs and what comes of it."""

    def __init__(
        self,
        workload: Workload,
        population: Population | None,
        cost: StepCost,
        belief: Belief,
        scheduler: Scheduler,
        options: Options,
        recorder: Recorder,
        seed: int = 0,
        closed_loop: bool = True,
    ):
        self.gamma = population.block_size if population else 1
        super().__init__(workload, cost, scheduler, options, recorder, self.gamma)
        self.population, self.belief, self.scheduler = population, belief, scheduler
        self.seed = seed
        self.synchronous = (
            scheduler.synchronous if options.synchronous is None else options.synchronous
        )
        self._accepted = population.accepted if population else _NO_ROWS
        drawn = population.drawn if population else None
        self._drawn = _NONE_DRAWN if drawn is None else drawn
        self._metered = cost.watts(1) is not None
        self.steps: list[tuple] = []  # if options.record_steps
        self.finished: list[int] = []  # serial numbers, when ``advance`` says FINISHED_SOME
        self.completed = 0  # requests that the last ``advance`` finished
        # the planned step, from plan to commit
        self._chunk, self._before = self.lists[CHUNK], self.lists[BEFORE]
        self._outcome, self._kept = self.lists[OUTCOME], self.lists[KEPT]
        self._uniform = np.full(options.slots, scheduler.uniform or 0)
        self._requests = self._chunks = self._drafts = self._batch = 0
        self._seconds = 0.0
        self._planned = False
        self._lengths = self._uniform
        self._survival: np.ndarray | None = None
        self._fast = FastPath(self, closed_loop) if supported(self) else None

    def advance(self, now: float, until: float) -> tuple[int, float]:
        """Go on from ``now``: IDLE; WAIT until a time at which to come back; FINISHED_SOME at one.

        Runs as many steps as end before ``until``, before which nothing outside may happen. A step
        that was planned by the last call ends now; ``until`` < ``now`` ends it and plans none.
        ``completed`` counts the requests that finished.
        """
        self.completed = 0
        if until < now and not (self._planned or (self._fast and self._fast.pending)):
            return IDLE, now
        if self._planned:
            self._planned = False
            self.finished = self.commit(now)
            self.completed = len(self.finished)
            if self.finished:
                return FINISHED_SOME, now
            if until < now:
                return IDLE, now
        if self._fast is not None and (self._fast.pending or not self.waiting.front):
            status, time = self._fast.advance(now, until)
            if status != BY_HAND:
                return status, time
            now = time
        if not self.busy:
            return IDLE, now
        self._planned = True
        return WAIT, now + self.plan(now)

    # Planning ------------------------------------------------------------------------------------

    def plan(self, now: float) -> float:
        """Decide the next step; returns its seconds. ``commit`` must follow."""
        self.admitted = 0
        if self.reserve():
            self.admit()
        decode = not (self.options.prefill_first and self.prefilling_count)
        requests = self._requests = self.decoding_count if decode else 0
        self._survival, self._drafts, self._lengths = None, 0, self._uniform
        verified, context = 0, 0.0
        if requests:
            context = kernels.mean_context(self.slots, self.decoding, requests)
            # drafts per request that the token budget has room for
            fits = min(self.gamma, self.options.token_budget // requests - 1)
            uniform = self.scheduler.uniform
            if uniform is not None:
                self._drafts = min(uniform, fits)
                if self._drafts < uniform:
                    self._lengths = np.full(requests, self._drafts)
                verified = self._drafts * requests
                prefill = self._plan_chunks(requests * (1 + self._drafts))
            else:
                prefill = self._schedule(now, requests, fits, context)
                verified = int(self._lengths.sum()) if self._drafts else 0
        else:
            prefill = self._plan_chunks(0)
        if self._drafts:
            self._read_outcomes(requests)
        batch = requests + verified + prefill
        if self.options.uniform_width:
            batch += self._drafts * requests - verified
        self._batch, self._used = batch, requests + verified + prefill
        self._padded = self.cost.padded(batch)
        self._seconds = self.cost.step_seconds(
            requests=requests,
            batch_tokens=batch,
            mean_context=context,
            chunk_tokens=self._chunk[: self._chunks].tolist(),
            context_tokens=self._before[: self._chunks].tolist(),
            draft_tokens=self._drafts,
            sync=self.synchronous,
            new_requests=self.admitted,
            drafter=self.scheduler.drafter,
        )
        if self.options.record_steps:
            self.steps.append(
                (now, self._seconds, requests, prefill, verified, batch, self._padded,
                 len(self.waiting), self._drafts)
            )  # fmt: skip
        return self._seconds

    def _plan_chunks(self, taken: int) -> int:
        """Prefill what ``taken`` tokens leave of the budget; returns the prompt tokens."""
        if not self.prefilling_count:
            self._chunks = 0
            return 0
        self._chunks, tokens = kernels.plan_chunks(
            self.slots, self.prefilling, self.prefilling_count,
            self.options.token_budget - taken, self._chunk, self._before,
        )  # fmt: skip
        return tokens

    def _schedule(self, now: float, requests: int, fits: int, context: float) -> int:
        """Ask the scheduler; sets drafts, survivals and lengths, returns the prompt tokens."""
        scheduler, gamma = self.scheduler, self.gamma
        rows = self.decoding[:requests]
        serial, contexts, row = np.empty((3, requests), np.int64)
        age = np.empty(requests)
        kernels.look(
            self.slots, rows, requests, self.recorder.issued, now, serial, contexts, row, age
        )
        view = View(
            block_size=gamma,
            request=serial,
            context=contexts,
            prefill_tokens=0,
            step_seconds=None,
            past=self.history.of(rows),
            age=age,
        )
        prefill = self._plan_chunks(requests * (1 + fits))
        self._price(view, prefill, fits, context)
        drafts = min(checked_draft_length(scheduler, view), fits)
        if drafts != fits:
            prefill = self._plan_chunks(requests * (1 + drafts))
            self._price(view, prefill, drafts, context)
        self._drafts = view.draft_length = drafts
        if drafts <= 0:
            return prefill
        population = self.population
        if population.confidence is None:
            survival = np.ones((requests, gamma))
            survival[:, drafts:] = 0.0
        else:
            view.confidence, survival = np.empty((2, requests, gamma))
            kernels.survivals(
                population.confidence, row, requests, drafts, view.confidence, survival
            )
        if scheduler.reads == "outcomes":
            view.outcomes = self._hindsight(rows, row)
        self._survival = survival
        self._lengths = checked(scheduler, view, survival)
        if self.options.align:
            self._fill_tier(survival, drafts, requests + prefill)
        return prefill

    def _hindsight(self, rows: np.ndarray, row: np.ndarray) -> Outcomes:
        """What verification will accept, no further than the request's end."""
        count = len(rows)
        self._read_outcomes(count)
        limit = np.minimum(self._outcome[:count], self.slots["left"][rows] - 1)
        return Outcomes(limit, lambda: np.minimum(self.population.shortest_path[row], limit))

    def _read_outcomes(self, requests: int) -> None:
        with np.errstate(over="ignore"):  # uncompiled, the coins' arithmetic warns as it wraps
            kernels.outcomes(
                self.slots, self.decoding, requests, self._accepted,
                self.options.undrafted_loss, self.seed, self._outcome,
            )  # fmt: skip

    def _fill_tier(self, survival: np.ndarray, drafts: int, other: int) -> None:
        """Spend the padding of the captured graph on the next most likely drafts."""
        batch = other + int(self._lengths.sum())
        spare = self.cost.padded(batch) - batch
        if spare > 0:
            self._lengths = self._lengths.astype(np.int64)
            kernels.fill(survival, self._lengths, drafts, spare)

    def _price(self, view: View, prefill: int, drafts: int, context: float) -> None:
        """Give the view its prices: whole steps with 0..n drafts verified."""
        chunks = slice(0, self._chunks)
        attention = self.cost.prefill_seconds(
            self._chunk[chunks].tolist(), self._before[chunks].tolist()
        )
        view.prefill_tokens = prefill
        # trimming saves nothing where the verifier always runs full width, and the truth knows it
        full_width = self.options.uniform_width and isinstance(self.belief, TruthBelief)

        def step_seconds(most: int) -> np.ndarray:
            seconds = self.belief.step_seconds(
                view.requests,
                prefill,
                view.requests * drafts if full_width else most,
                mean_context=context,
                prefill_other=attention,
                draft_tokens=drafts,
                sync=self.synchronous,
            )
            return np.full(most + 1, seconds[-1]) if full_width else seconds

        view.step_seconds = step_seconds

    # Committing ----------------------------------------------------------------------------------

    def commit(self, now: float) -> list[int]:
        """Advance all requests to the end of the planned step, ``now``; serials that finished."""
        requests, workload = self._requests, self.workload
        alive, ended = (0, 0) if requests else (self.decoding_count, 0)
        decoding = self.decoding[:requests].copy() if self._survival is not None else None
        if requests:
            alive, ended = kernels.commit_rounds(
                self.slots, self.decoding, requests, self._drafts, self._lengths, self._outcome,
                self._drawn, workload.segments[0], workload.segments[1],
                workload.segment_start[1:], self._kept, self.counters, self.lists[FINISHED],
            )  # fmt: skip
        kernels.count_step(self.counters, self._used, self._padded)
        if self._metered:
            self.recorder.joules += self.cost.gpus * self._seconds * self.cost.watts(self._batch)
        self.history.record(decoding, self._survival, self._lengths, self._kept, self._seconds)
        if self._chunks:
            self.prefilling_count, alive, ended = kernels.commit_chunks(
                self.slots, self.prefilling, self.prefilling_count, self._chunks, self._chunk,
                self.decoding, alive, now, self.recorder.first, self.counters,
                workload.segments[0], workload.segments[1], workload.segment_start[1:],
                self.lists[FINISHED], ended,
            )  # fmt: skip
        self.decoding_count = alive
        return self.release(now, ended) if ended else []
