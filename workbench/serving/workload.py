"""The requests of one run: which recorded request each replays, how long it is, when it is due."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.arrivals import Arrivals, fit_outputs
from workbench.errors import InputError
from workbench.serving.population import Population


@dataclass(frozen=True)
class Workload:
    """N requests in order of issue.

    Request j replays the recorded rows of its segments ``segment_start[j]:segment_start[j + 1]``
    one after another: segment s is ``segments[1, s]`` rows from row ``segments[0, s]`` on.
    """

    lengths: np.ndarray  # int64 [2, N]: prompt tokens, output tokens
    segment_start: np.ndarray  # int64 [N + 1]
    segments: np.ndarray  # int64 [2, segments]: first row, number of rows
    due: np.ndarray | None = None  # float64 [N] seconds, non-decreasing; None: a closed loop
    source: np.ndarray | None = None  # int64 [N] index into the population; None without a trace
    session: np.ndarray | None = None  # int64 [N] prefix-cache key, −1 for none
    cached: np.ndarray | None = None  # int64 [N] prompt tokens that the recording found cached
    priority: np.ndarray | None = None  # float64 [N], lowest first
    whole: bool = True  # every request is replayed as long as it was recorded
    notes: tuple[str, ...] = ()  # what was cut, continued or assumed

    def __len__(self) -> int:
        return self.lengths.shape[1]

    @property
    def prompt(self) -> np.ndarray:
        """Prompt tokens, int64 [N]."""
        return self.lengths[0]

    @property
    def output(self) -> np.ndarray:
        """Output tokens, int64 [N], the one that prefill produces included."""
        return self.lengths[1]

    def session_of(self, serial: int) -> int:
        """The request's prefix-cache key, −1 if it has none."""
        return -1 if self.session is None else int(self.session[serial])

    def cached_of(self, serial: int) -> int:
        """Prompt tokens that the recording found in a prefix cache."""
        return 0 if self.cached is None else int(self.cached[serial])

    def order_key(self, queue: str) -> np.ndarray | None:
        """What the waiting queue is sorted by, [N]; None for first come first served."""
        if queue == "fcfs":
            return None
        if queue == "shortest":
            return self.prompt
        if self.priority is None:
            raise InputError(
                "no request has a priority", place="--queue priority", mend="give --priority"
            )
        return self.priority


def from_recordings(
    population: Population, order: np.ndarray, due: np.ndarray | None = None
) -> Workload:
    """Requests that are replayed as they were recorded, in the given order [N]."""
    output = population.output[order]
    return Workload(
        lengths=np.array([population.prompt[order], output]),
        segment_start=np.arange(len(order) + 1),
        segments=np.array([population.row_start[order], output - 1]),
        due=due,
        source=order,
        session=_taken(population.session, order),
        cached=_taken(population.cached, order),
    )


def from_arrivals(
    arrivals: Arrivals,
    population: Population | None,
    order: np.ndarray | None,
    rng: np.random.Generator,
    due: np.ndarray | None,
) -> Workload:
    """Requests with the prompt and output lengths of ``arrivals``.

    Each takes the recorded rows of ``order`` [N], cut or continued to its length by the rule of
    ``arrivals.fit_outputs``; without a population nothing is drafted and no rows are needed.
    """
    prompt = arrivals.prompt_tokens.astype(np.int64)
    output = arrivals.output_tokens.astype(np.int64)
    count = len(output)
    if population is None:
        start, first, rows = np.zeros(count + 1, np.int64), *np.zeros((2, 1), np.int64)
        whole, notes = True, ()
    else:
        fitted = fit_outputs(output, population.row_start, population.domain, rng, order)
        start, rows = fitted.start, fitted.rows.astype(np.int64)
        first = population.row_start[fitted.recorded] + fitted.first_row
        whole, notes = False, (fitted.describe(),)
    return Workload(
        lengths=np.array([prompt, output]),
        segment_start=start,
        segments=np.array([first, rows]),
        due=due,
        source=order,
        session=arrivals.session,
        cached=arrivals.cached_prompt_tokens,
        whole=whole,
        notes=notes,
    )


def _taken(values: np.ndarray | None, order: np.ndarray) -> np.ndarray | None:
    return None if values is None else values[order]
