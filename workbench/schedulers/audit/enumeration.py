"""The exact distribution of everything a batch outputs under a scheduler, round after round.

Each state of the batch (anchors, tokens left, what the scheduler remembers) is worked out once,
backwards from the end: its distribution over the tokens still to come is the mixture, over all
drafts, acceptances and next tokens of one round, of the distributions of the states they lead to.
"""

from __future__ import annotations

import itertools
import math
import pickle
from dataclasses import dataclass

import numpy as np

from workbench.errors import InputError
from workbench.schedulers.audit.cases import Case
from workbench.schedulers.audit.past import Entry, Row, WindowPast, advanced
from workbench.schedulers.audit.rounds import Ending, Rounds, Signal
from workbench.schedulers.base import Outcomes, Scheduler, View
from workbench.schedulers.calls import checked, checked_draft_length, raised, source_file

REPLAYED = 256  # questions asked a second time, to find state kept outside the scheduler


@dataclass(frozen=True)
class State:
    """Everything that the future of the batch depends on."""

    requests: tuple[tuple[int, int, int], ...]  # (request, anchor, tokens left) of those running
    memory: bytes  # the scheduler's attributes
    window: tuple[Entry, ...]  # earlier steps as far as they can be asked about, latest first


@dataclass(frozen=True)
class Enumeration:
    """What a scheduler makes of a case."""

    outputs: np.ndarray  # [V**L] × R, the joint distribution of the output tokens
    paths: int  # ways through the case of positive probability
    decisions: dict[State, dict[tuple[Signal, ...], tuple[int, ...]]]  # ℓ by what was drafted


class _Grown(Exception):
    """The scheduler asked for a part of the past that states did not keep yet."""


def enumerate_outputs(case: Case, scheduler: Scheduler) -> Enumeration:
    """Run ``scheduler`` through all of ``case``; it is left as it was.

    Its attributes are part of the enumerated state: they are saved before each question and put
    back for the next, so a scheduler that learns is followed along every path. Of the past, states
    keep the fields that it asks for. Raises InputError if its attributes cannot be pickled or it
    answers one question in two ways.
    """
    attributes = dict(vars(scheduler))
    fields: set[str] = set()
    while True:
        walk = _Walk(case, scheduler, fields)
        start = State(tuple((r, 0, case.horizon) for r in range(case.requests)), walk.save(), ())
        try:
            outputs, paths = walk.distribution(start)
            walk.replay()
            return Enumeration(outputs, paths, walk.decisions)
        except _Grown:
            fields = set(walk.asked)
        finally:
            vars(scheduler).clear()
            vars(scheduler).update(attributes)


class _StepSeconds:
    """``View.step_seconds`` of a case; a class, so that a scheduler may keep its view."""

    def __init__(self, seconds: np.ndarray, requests: int):
        self.seconds = seconds[requests - 1 :]

    def __call__(self, drafts: int) -> np.ndarray:
        return self.seconds[: drafts + 1]


class _Walk:
    def __init__(self, case: Case, scheduler: Scheduler, fields: set[str]):
        self.case, self.scheduler, self.fields = case, scheduler, fields
        self.asked = set(fields)
        self.depth = max(scheduler.history, scheduler.lag) if fields else 0
        self.rounds = Rounds(case, hindsight=scheduler.reads == "outcomes")
        self.known: dict[State, tuple[np.ndarray, int]] = {}
        self.decisions: dict[State, dict] = {}
        self.drafts: dict[tuple, tuple[int, bytes]] = {}
        self.answers: dict[tuple, tuple[tuple[int, ...], bytes]] = {}

    def save(self) -> bytes:
        """The scheduler's attributes."""
        try:
            return pickle.dumps(vars(self.scheduler))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise InputError(
                f"scheduler {self.scheduler.name} cannot be audited: its attributes cannot be "
                f"copied ({raised(error)})",
                file=source_file(self.scheduler),
                mend="keep numbers, arrays and containers in self",
            ) from error

    def load(self, memory: bytes) -> None:
        try:
            attributes = pickle.loads(memory)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise InputError(
                f"scheduler {self.scheduler.name} cannot be audited: its attributes cannot be "
                f"restored ({raised(error)})",
                file=source_file(self.scheduler),
                mend="keep numbers, arrays and containers in self",
            ) from error
        vars(self.scheduler).clear()
        vars(self.scheduler).update(attributes)

    def distribution(self, state: State) -> tuple[np.ndarray, int]:
        """Distribution over the tokens still to come, [V**left] × running requests, and paths."""
        if not state.requests:
            return np.ones(()), 1
        if state not in self.known:
            self.known[state] = self._mixture(state)
        return self.known[state]

    def _mixture(self, state: State) -> tuple[np.ndarray, int]:
        tokens = self.case.vocabulary
        outputs = np.zeros([tokens**left for _, _, left in state.requests])
        paths = 0
        decided = self.decisions[state] = {}
        ids = tuple(request for request, _, _ in state.requests)
        drafts, memory = self._draft_length(state.memory, ids, state.window)
        choices = [self.rounds.signals(r, anchor, drafts) for r, anchor, _ in state.requests]
        for signals in itertools.product(*choices):
            lengths, after = self._verify_lengths(memory, ids, state.window, drafts, signals)
            decided[signals] = lengths
            endings = [
                self.rounds.endings(r, anchor, signal, length, left)
                for (r, anchor, left), signal, length in zip(
                    state.requests, signals, lengths, strict=True
                )
            ]
            window = state.window
            for ends in itertools.product(*endings):
                if self.depth:
                    window = self._advance(state, drafts, signals, lengths, ends)
                running = tuple(
                    (r, end.anchor, end.left)
                    for r, end in zip(ids, ends, strict=True)
                    if end.anchor is not None
                )
                future, ways = self.distribution(State(running, after, window))
                self._add(outputs, ends, future)
                paths += ways * math.prod(end.paths for end in ends)
        return outputs, paths

    def _add(self, outputs: np.ndarray, ends: tuple[Ending, ...], future: np.ndarray) -> None:
        """Add weights ⊗ future where each request's tokens begin as its ending says."""
        tokens = self.case.vocabulary
        shape, index, rest, weight = [], [], [], 1.0
        for i, end in enumerate(ends):
            size = 1 if end.anchor is None else tokens**end.left
            shape += [len(end.weights), 1 if end.anchor is None else tokens, size]
            index += [slice(None), end.anchor or 0, slice(None)]
            rest += [1, size]
            weight = weight * end.weights.reshape(-1, *[1] * (2 * (len(ends) - i) - 1))
        outputs.reshape(shape)[tuple(index)] += weight * future.reshape(rest)

    def _advance(self, state, drafts, signals, lengths, ends) -> tuple[Entry, ...]:
        kept = [
            left - end.left - 1 if end.anchor is not None else 0
            for (_, _, left), end in zip(state.requests, ends, strict=True)
        ]
        padding = (0.0,) * (self.case.block_size - drafts)
        rows = tuple(
            Row(signal.survival + padding if drafts else None, length, count)
            for signal, length, count in zip(signals, lengths, kept, strict=True)
        )
        seconds = float(self.case.seconds[len(signals) + sum(lengths) - 1])
        latest = Entry(rows, seconds).only(self.fields)
        running = [i for i, end in enumerate(ends) if end.anchor is not None]
        return advanced(latest, state.window, running, self.depth)

    def _view(self, ids: tuple[int, ...], window: tuple[Entry, ...]) -> View:
        count = len(ids)
        return View(
            block_size=self.case.block_size,
            request=np.array(ids),
            context=np.full(count, 1024),
            prefill_tokens=0,
            step_seconds=_StepSeconds(self.case.seconds, count),
            past=WindowPast(window, count, self.case.block_size, self.scheduler, self.asked),
            age=np.zeros(count),
        )

    def _draft_length(self, memory, ids, window) -> tuple[int, bytes]:
        key = (memory, ids, window)
        if key not in self.drafts:
            self.load(memory)
            length = checked_draft_length(self.scheduler, self._view(ids, window))
            self._grown()
            self.drafts[key] = length, self.save()
        return self.drafts[key]

    def _verify_lengths(self, memory, ids, window, drafts, signals):
        if not drafts:
            return (0,) * len(ids), memory
        told = tuple((signal.confidence, signal.accepted) for signal in signals)
        key = (memory, ids, window, drafts, told)
        if key not in self.answers:
            self.answers[key] = self._ask(*key)
        return self.answers[key]

    def _ask(self, memory, ids, window, drafts, told) -> tuple[tuple[int, ...], bytes]:
        self.load(memory)
        view = self._view(ids, window)
        view.draft_length = drafts
        view.confidence = np.zeros((len(ids), self.case.block_size))
        view.confidence[:, :drafts] = [confidence for confidence, _ in told]
        if self.rounds.hindsight:
            accepted = np.array([accepted for _, accepted in told])
            # nothing is recorded ahead: the path takes what is accepted now
            view.outcomes = Outcomes(accepted, accepted.copy)
        lengths = checked(self.scheduler, view, np.cumprod(view.confidence, axis=1))
        self._grown()
        return tuple(lengths.tolist()), self.save()

    def _grown(self) -> None:
        if not self.asked <= self.fields:
            raise _Grown

    def replay(self) -> None:
        """Ask some questions again in another order: the answers have to be the same."""
        for key in list(itertools.islice(reversed(self.answers), REPLAYED)):
            if self._ask(*key)[0] != self.answers[key][0]:
                raise InputError(
                    f"scheduler {self.scheduler.name} cannot be audited: it answered the same "
                    "question in two ways",
                    file=source_file(self.scheduler),
                    mend="keep its state in attributes of self and seed its generator in __init__",
                )
