"""One model replica: continuous batching over array state, one step at a time.

A step is ``plan`` (admit, draft, schedule, price) and, its seconds later, ``commit`` (advance).
The compiled inside is in ``serving.kernels``; nothing here knows of the simulated clock.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from workbench.errors import InputError
from workbench.profiles import Belief, StepCost
from workbench.schedulers import Outcomes, Scheduler, View, checked, checked_draft_length
from workbench.serving import kernels
from workbench.serving.history import History
from workbench.serving.metrics import Recorder
from workbench.serving.population import Population
from workbench.serving.state import PADDED_TOKENS, new_slots
from workbench.serving.workload import Workload

_NONE_DRAWN = np.zeros(0, bool)
_NO_ROWS = np.zeros(1, np.uint8)


@dataclass(slots=True)
class Options:
    """Engine settings (names as in vLLM, in plain words)."""

    max_running: int = 256  # requests that hold a slot, prefilling or decoding
    token_budget: int = 8192  # batch tokens of a step
    synchronous: bool | None = None  # None: what the scheduler needs


class Replica:
    """State of one replica. Decoding requests keep the order of their admission."""

    def __init__(
        self,
        workload: Workload,
        population: Population | None,
        cost: StepCost,
        belief: Belief,
        scheduler: Scheduler,
        options: Options,
        recorder: Recorder,
    ):
        if options.token_budget < options.max_running:
            raise InputError(
                f"{options.token_budget} is smaller than the {options.max_running} requests that "
                "may run, and each needs a token a step",
                place="--token-budget",
                mend="raise it or lower --max-running",
            )
        self.workload, self.population = workload, population
        self.cost, self.belief, self.scheduler = cost, belief, scheduler
        self.options, self.recorder = options, recorder
        self.counters = recorder.counters()
        self.synchronous = (
            scheduler.synchronous if options.synchronous is None else options.synchronous
        )
        self.gamma = population.block_size if population else 1
        self._accepted = population.accepted if population else _NO_ROWS
        drawn = population.drawn if population else None
        self._drawn = _NONE_DRAWN if drawn is None else drawn

        slots = options.max_running
        self.waiting: deque[int] = deque()  # serial numbers of requests
        self.slots = new_slots(slots)
        self.free = list(range(slots))[::-1]
        self.decoding = np.zeros(slots, np.int64)  # slots, in order of admission
        self.decoding_count = 0
        self.prefilling = np.zeros(slots, np.int64)  # slots, in order of admission
        self.prefilling_count = 0
        self.admissions = 0
        self.history = History(
            max(scheduler.history, scheduler.lag), slots, self.gamma, scheduler.lag
        )
        # the planned step, from plan to commit
        self._chunk = np.zeros(slots, np.int64)
        self._before = np.zeros(slots, np.int64)
        self._outcome = np.zeros(slots, np.int64)
        self._kept = np.zeros(slots, np.int64)
        self._finished = np.zeros(slots, np.int64)
        self._uniform = np.full(slots, scheduler.uniform or 0)
        self._requests = self._chunks = self._drafts = self._admitted = 0
        self._seconds = 0.0
        self._lengths = self._uniform
        self._survival: np.ndarray | None = None

    @property
    def busy(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.decoding_count or self.prefilling_count or self.waiting)

    # Admission -----------------------------------------------------------------------------------

    def _admit(self) -> None:
        """Move waiting requests into free slots, first come first served."""
        self._admitted = min(len(self.waiting), len(self.free))
        for _ in range(self._admitted):
            self._seat(self.waiting.popleft(), self.free.pop())

    def _seat(self, serial: int, index: int) -> None:
        workload = self.workload
        segment = int(workload.segment_start[serial])
        row, rows = 0, 0
        if segment < workload.segment_start[serial + 1]:
            row, rows = workload.segment_first[segment], workload.segment_rows[segment]
        self.admissions += 1
        self.slots[index] = (
            serial, self.admissions, workload.prompt[serial], 0, workload.output[serial],
            row, row + rows, segment, 0, 0,
        )  # fmt: skip
        self.history.forget(index)
        self.prefilling[self.prefilling_count] = index
        self.prefilling_count += 1

    # Planning ------------------------------------------------------------------------------------

    def plan(self, now: float) -> float:
        """Decide the next step; returns its seconds. ``commit`` must follow."""
        self._admit()
        requests = self._requests = self.decoding_count
        self._survival, self._drafts, self._lengths = None, 0, self._uniform
        verified, context = 0, 0.0
        budget = self.options.token_budget
        if requests:
            context = kernels.mean_context(self.slots, self.decoding, requests)
            # drafts per request that the token budget has room for
            fits = min(self.gamma, budget // requests - 1)
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
            if self._drafts:
                kernels.outcomes(
                    self.slots, self.decoding, requests, self._accepted, 0.0, 0, self._outcome
                )
        else:
            prefill = self._plan_chunks(0)
        batch = kernels.count_step(self.counters, requests, verified, prefill)
        self.counters[PADDED_TOKENS] += self.cost.padded(batch)
        self._seconds = self.cost.step_seconds(
            requests=requests,
            batch_tokens=batch,
            mean_context=context,
            chunk_tokens=self._chunk[: self._chunks].tolist(),
            context_tokens=self._before[: self._chunks].tolist(),
            draft_tokens=self._drafts,
            sync=self.synchronous,
            new_requests=self._admitted,
            drafter=self.scheduler.drafter,
        )
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
            limit = self.slots["left"][rows] - 1
            view.outcomes = Outcomes(
                np.minimum(self._accepted[row], limit),
                lambda: np.minimum(population.shortest_path[row], limit),
            )
        self._survival = survival
        self._lengths = checked(scheduler, view, survival)
        return prefill

    def _price(self, view: View, prefill: int, drafts: int, context: float) -> None:
        """Give the view its prices: whole steps with 0..n drafts verified."""
        chunks = slice(0, self._chunks)
        attention = self.cost.prefill_seconds(
            self._chunk[chunks].tolist(), self._before[chunks].tolist()
        )
        view.prefill_tokens = prefill
        view.step_seconds = lambda most: self.belief.step_seconds(
            view.requests,
            prefill,
            most,
            mean_context=context,
            prefill_other=attention,
            draft_tokens=drafts,
            sync=self.synchronous,
        )

    # Committing ----------------------------------------------------------------------------------

    def commit(self, now: float) -> list[int]:
        """Advance all requests to the end of the planned step, ``now``; serials that finished."""
        requests, workload = self._requests, self.workload
        alive = ended = 0
        decoding = self.decoding[:requests].copy() if self._survival is not None else None
        if requests:
            alive, ended = kernels.commit_rounds(
                self.slots, self.decoding, requests, self._drafts, self._lengths, self._outcome,
                self._drawn, workload.segment_first, workload.segment_rows,
                workload.segment_start[1:], self._kept, self.counters, self._finished,
            )  # fmt: skip
        self.history.record(decoding, self._survival, self._lengths, self._kept, self._seconds)
        if self._chunks:
            self.prefilling_count, alive, ended = kernels.commit_chunks(
                self.slots, self.prefilling, self.prefilling_count, self._chunks, self._chunk,
                self.decoding, alive, now, self.recorder.first, self.counters,
                self._finished, ended,
            )  # fmt: skip
        self.decoding_count = alive
        if not ended:
            return []
        indices = self._finished[:ended].tolist()
        serials = self.slots["serial"][self._finished[:ended]]
        self.recorder.last[serials] = now
        self.free.extend(indices)
        return serials.tolist()
