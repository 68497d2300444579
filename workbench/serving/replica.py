"""One model replica: continuous batching over array state, one step at a time.

A step is three verbs: ``admit`` requests, ``plan`` (draft, schedule, price), ``commit`` (advance).
Nothing here knows of the simulated clock; ``serving.simulate`` drives it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from workbench.errors import InputError
from workbench.profiles import Belief, StepCost
from workbench.schedulers import Outcomes, Scheduler, View, checked, checked_draft_length
from workbench.serving.history import History
from workbench.serving.metrics import Recorder
from workbench.serving.population import Population


@dataclass(slots=True)
class Options:
    """Engine settings (names as in vLLM, in plain words)."""

    max_running: int = 256  # requests that hold a slot, prefilling or decoding
    token_budget: int = 8192  # batch tokens of a step
    synchronous: bool | None = None  # None: what the scheduler needs


@dataclass(slots=True)
class Step:
    """A planned step: what will have happened when its seconds are over."""

    seconds: float
    slots: np.ndarray  # [R] slots of the decoding requests
    survival: np.ndarray | None  # [R, γ]
    lengths: np.ndarray  # ℓ [R]
    kept: np.ndarray  # accepted drafts [R], before clipping to the request's end
    emitted: np.ndarray  # tokens [R]
    final: np.ndarray  # bool [R]: the round that reaches the request's end
    chunks: list[tuple[int, int]]  # (slot, prompt tokens)
    batch_tokens: int
    drawn: int


class Replica:
    """State of one replica. Decoding requests keep the order of their admission."""

    def __init__(
        self,
        population: Population,
        source: np.ndarray,
        cost: StepCost,
        belief: Belief,
        scheduler: Scheduler,
        options: Options,
        recorder: Recorder,
        on_finished: Callable[[int, float], None],
    ):
        if options.token_budget < options.max_running:
            raise InputError(
                f"token budget {options.token_budget} is smaller than {options.max_running} "
                "running requests",
                place="--token-budget",
                mend="every running request needs one token a step: raise it or lower --max-running",
            )
        self.population, self.source = population, source
        self.cost, self.belief, self.scheduler = cost, belief, scheduler
        self.options, self.recorder, self.on_finished = options, recorder, on_finished
        self.synchronous = (
            scheduler.synchronous if options.synchronous is None else options.synchronous
        )
        slots = options.max_running
        self.waiting: deque[int] = deque()  # serial numbers of requests
        self.free = list(range(slots))[::-1]
        self.prefilling: list[int] = []  # slots, in order of admission
        self.prefilled = np.zeros(slots, np.int64)
        self.serial = np.zeros(slots, np.int64)
        self.prompt = np.zeros(slots, np.int64)
        self.left = np.zeros(slots, np.int64)  # tokens still to emit after the anchor
        self.anchor = np.zeros(slots, np.int64)  # output index of the anchor
        self.row = np.zeros(slots, np.int64)  # the anchor's row in the population
        self.decoding = np.zeros(0, np.int64)  # slots, in order of admission
        self.admitted = 0  # requests that entered with the step being planned
        self.drafts = scheduler.name != "none"  # whether prefill feeds a drafter
        self.history = History(
            max(scheduler.history, scheduler.lag), slots, population.block_size, scheduler.lag
        )

    @property
    def busy(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.waiting or self.prefilling or len(self.decoding))

    def admit(self) -> None:
        """Move waiting requests into free slots, first come first served."""
        self.admitted = min(len(self.waiting), len(self.free))
        for _ in range(self.admitted):
            serial, slot = self.waiting.popleft(), self.free.pop()
            request = self.source[serial]
            self.serial[slot] = serial
            self.prompt[slot] = self.population.prompt[request]
            self.left[slot] = self.population.output[request] - 1
            self.anchor[slot] = 0
            self.row[slot] = self.population.row_start[request]
            self.prefilled[slot] = 0
            self.history.forget(slot)
            self.prefilling.append(slot)

    def _chunks(self, budget: int) -> list[tuple[int, int]]:
        """Prompt tokens per prefilling slot, oldest first, at most ``budget`` in all."""
        chunks = []
        for slot in self.prefilling:
            if budget <= 0:
                break
            tokens = min(int(self.prompt[slot] - self.prefilled[slot]), budget)
            chunks.append((slot, tokens))
            budget -= tokens
        return chunks

    def plan(self, now: float) -> Step:
        """Decide the next step: prefill chunks, drafts, verified lengths, outcome and price."""
        slots, population, scheduler = self.decoding, self.population, self.scheduler
        running, gamma = len(slots), population.block_size
        budget = self.options.token_budget
        if running == 0:
            return self._priced(slots, 0, self._chunks(budget), None, None)
        row = self.row[slots]
        view = View(
            block_size=gamma,
            request=self.serial[slots],
            context=self.prompt[slots] + self.anchor[slots] + 1,
            prefill_tokens=0,
            step_seconds=None,
            past=self.history.of(slots),
            age=now - self.recorder.issued[self.serial[slots]],
        )
        fits = min(gamma, budget // running - 1)  # drafts per request that the budget leaves room for
        self._price_view(view, self._chunks(budget - running * (1 + fits)), fits)
        drafts = min(checked_draft_length(scheduler, view), fits)
        chunks = self._chunks(budget - running * (1 + drafts))
        if drafts <= 0:
            return self._priced(slots, 0, chunks, None, view)
        view.draft_length = drafts
        self._price_view(view, chunks, drafts)
        if population.confidence is None:
            survival = np.ones((running, gamma))
        else:
            view.confidence = population.confidence[row].astype(np.float64)
            survival = np.cumprod(view.confidence, axis=1)
        if drafts < gamma:
            survival[:, drafts:] = 0.0
        if scheduler.reads == "outcomes":
            accepted = np.minimum(population.accepted[row], self.left[slots] - 1)
            view.outcomes = Outcomes(accepted, lambda: population.shortest_path[row])
        lengths = checked(scheduler, view, survival)
        return self._priced(slots, drafts, chunks, survival, view, lengths)

    def _price_view(self, view: View, chunks: list[tuple[int, int]], drafts: int) -> None:
        view.prefill_tokens = sum(tokens for _, tokens in chunks)
        prefill_seconds = self._prefill_seconds(chunks)
        mean_context = float(view.context.mean())
        view.step_seconds = lambda most: self.belief.step_seconds(
            view.requests,
            view.prefill_tokens,
            most,
            mean_context=mean_context,
            prefill_other=prefill_seconds,
            draft_tokens=drafts,
            sync=self.synchronous,
        )

    def _prefill_seconds(self, chunks: list[tuple[int, int]]) -> float:
        if not chunks:
            return 0.0
        slots = [slot for slot, _ in chunks]
        return self.cost.prefill_seconds([tokens for _, tokens in chunks], self.prefilled[slots])

    def _priced(self, slots, drafts, chunks, survival, view, lengths=None) -> Step:
        """The step with its true price and its recorded outcome."""
        running = len(slots)
        if lengths is None:
            lengths = np.zeros(running, np.int64)
        row, left = self.row[slots], self.left[slots]
        kept = np.minimum(lengths, self.population.accepted[row]) if drafts else lengths
        final = kept + 1 >= left
        tokens = [tokens for _, tokens in chunks]
        batch_tokens = running + int(lengths.sum()) + sum(tokens)
        seconds = self.cost.step_seconds(
            requests=running,
            batch_tokens=batch_tokens,
            mean_context=float(view.context.mean()) if running else 0.0,
            chunk_tokens=tokens,
            context_tokens=self.prefilled[[slot for slot, _ in chunks]] if chunks else (),
            draft_tokens=drafts,
            sync=self.synchronous,
            new_requests=self.admitted,
            drafter=self.drafts,
        )
        drawn = self.population.drawn
        return Step(
            seconds=seconds,
            slots=slots,
            survival=survival,
            lengths=lengths,
            kept=kept,
            emitted=np.minimum(kept + 1, left),
            final=final,
            chunks=chunks,
            batch_tokens=batch_tokens,
            drawn=0 if drawn is None or not drafts else int((drawn[row] & (lengths > 0)).sum()),
        )

    def commit(self, step: Step, now: float) -> None:
        """Advance all requests to the end of ``step``, which is ``now``."""
        counters, recorder = self.recorder.counters, self.recorder
        verified, kept = int(step.lengths.sum()), int(step.kept.sum())
        counters.steps += 1
        counters.rounds += len(step.slots)
        counters.verified += verified
        counters.rejected += verified - kept
        counters.batch_tokens += step.batch_tokens
        counters.padded_tokens += self.cost.padded(step.batch_tokens)
        counters.tokens += int(step.emitted.sum())
        counters.drawn_rounds += step.drawn
        self.history.record(step.slots, step.survival, step.lengths, step.kept, step.seconds)

        self.anchor[step.slots] += step.emitted
        self.row[step.slots] += step.emitted
        self.left[step.slots] -= step.emitted
        finished: list[int] = []
        if step.final.any():
            counters.inner_rounds += int((~step.final).sum())
            counters.inner_verified += int(step.lengths[~step.final].sum())
            counters.inner_kept += int(step.kept[~step.final].sum())
            finished = step.slots[step.final].tolist()
            self.decoding = step.slots[~step.final]
        else:
            counters.inner_rounds += len(step.slots)
            counters.inner_verified += verified
            counters.inner_kept += kept

        started = []
        for slot, tokens in step.chunks:
            self.prefilled[slot] += tokens
            if self.prefilled[slot] < self.prompt[slot]:
                continue
            self.prefilling.remove(slot)
            recorder.first[self.serial[slot]] = now
            counters.tokens += 1
            if self.left[slot]:
                started.append(slot)
            else:
                finished.append(slot)
        if started:
            self.decoding = np.concatenate([self.decoding, np.array(started, np.int64)])
        for slot in finished:
            serial = int(self.serial[slot])
            recorder.last[serial] = now
            recorder.emitted[serial] = self.anchor[slot] + 1
            self.free.append(slot)
        for slot in finished:
            self.on_finished(int(self.serial[slot]), now)
