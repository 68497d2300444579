"""Recorded requests cut or continued to the output lengths that a replay asks for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from workbench.errors import InputError

_MOST_SEGMENTS = 100_000_000


@dataclass(frozen=True, eq=False)
class Segments:
    """Which recorded rows a replay of N requests walks through, as S runs of consecutive rows.

    Request r owns segments ``start[r]:start[r + 1]``: exactly one if its recording suffices. Its
    anchors are 0..m − 2 for m output tokens; segment s covers ``rows[s]`` of them.
    """

    start: np.ndarray  # int64 [N + 1]
    recorded: np.ndarray  # int32 [S], recorded request
    first_row: np.ndarray  # int32 [S], its row where the segment begins
    rows: np.ndarray  # int32 [S], 0 only for a request of one output token
    row_start: np.ndarray  # int64 [P + 1], rows of the recorded requests
    cut: np.ndarray  # bool [N], whether recorded rows were left over at its end

    @cached_property
    def begin(self) -> np.ndarray:
        """Place of each segment on the line of all requests' anchors end to end, int64 [S + 1]."""
        return np.concatenate([[0], np.cumsum(self.rows, dtype=np.int64)])

    @cached_property
    def _base(self) -> np.ndarray:
        return self.begin[self.start[:-1]]

    @cached_property
    def _offset(self) -> np.ndarray:
        return self.row_start[self.recorded] + self.first_row - self.begin[:-1]

    @property
    def requests(self) -> int:
        """N, the replayed requests."""
        return len(self.start) - 1

    @property
    def continued(self) -> np.ndarray:
        """Whether a request goes on into another recording, bool [N]."""
        return np.diff(self.start) > 1

    def row(self, request: np.ndarray, anchor: np.ndarray) -> np.ndarray:
        """Recorded row, int64 [R], at ``anchor`` [R] (0..m − 2) of replayed ``request`` [R].

        One binary search over all segments; none where no request is continued.
        """
        place = self._base[request] + anchor
        if len(self.recorded) == self.requests:
            return self._offset[request] + place
        segment = np.searchsorted(self.begin, place, side="right") - 1
        return self._offset[segment] + place

    def materialise(self) -> tuple[np.ndarray, np.ndarray]:
        """All rows of all requests: row [A], and where each request's begin, [N + 1]; int64.

        As long as the replayed output: for small N.
        """
        rows = np.repeat(self._offset, self.rows) + np.arange(self.begin[-1])
        return rows, self.begin[self.start]

    def describe(self) -> str:
        """One line for the result: how many requests were cut and continued."""
        return (
            f"{int(self.cut.sum())} of {self.requests} requests cut to the replayed output length, "
            f"{int(self.continued.sum())} continued from other recorded requests of their domain"
        )


def fit_outputs(
    output_tokens: np.ndarray,
    row_start: np.ndarray,
    domain: np.ndarray,
    rng: np.random.Generator,
    order: np.ndarray | None = None,
) -> Segments:
    """Give each replayed request of m output tokens m − 1 recorded rows.

    It takes the recorded request ``order[r]`` from its row 0 (default: seeded shuffles, each used
    once before any is used again). A longer recording is cut after m − 1 rows. A shorter one goes
    on with row 0 of another request of the same domain, drawn by ``rng`` among those that have
    rows, never the one just ended unless it is the only one; and so on until m − 1 rows are there.

    ``output_tokens`` [N] ≥ 1, ``row_start`` int64 [P + 1], ``domain`` int [P], ``order`` int [N].
    Raises InputError if rows are needed in a domain that has none.
    """
    recorded_rows = np.diff(row_start)
    n, p = len(output_tokens), len(recorded_rows)
    if order is None:
        passes = [rng.permutation(p) for _ in range(-(-n // p))]
        order = np.concatenate(passes)[:n] if passes else np.empty(0, np.int64)
    left = np.asarray(output_tokens, np.int64) - 1
    if (left < 0).any():
        raise InputError(f"request {int((left < 0).argmax())} has no output tokens")
    pool = _Pool(recorded_rows, np.asarray(domain))
    pool.check(left - recorded_rows[order], order)

    active, now = np.arange(n), np.asarray(order, np.int64)
    parts = []
    while len(active):
        taken = np.minimum(recorded_rows[now], left[active])
        parts.append((active, now, taken))
        left[active] -= taken
        more = left[active] > 0
        active, now = active[more], pool.another(now[more], rng)
    empty = np.empty(0, np.int64)
    owner, recorded, rows = (
        np.concatenate(part) for part in zip(*parts or [(empty,) * 3], strict=True)
    )

    by_owner = np.argsort(owner, kind="stable")
    owner, recorded, rows = owner[by_owner], recorded[by_owner], rows[by_owner]
    # a recording without rows that was continued leaves no segment
    keep = (rows > 0) | (np.bincount(owner, minlength=n)[owner] == 1)
    owner, recorded, rows = owner[keep], recorded[keep], rows[keep]
    start = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=n))]).astype(np.int64)
    last = start[1:] - 1
    return Segments(
        start=start,
        recorded=recorded.astype(np.int32),
        first_row=np.zeros(len(rows), np.int32),
        rows=rows.astype(np.int32),
        row_start=np.asarray(row_start, np.int64),
        cut=rows[last] < recorded_rows[recorded[last]],
    )


class _Pool:
    """The recorded requests that have rows, by domain."""

    def __init__(self, rows: np.ndarray, domain: np.ndarray):
        self.rows, self.domain = rows, np.unique(domain, return_inverse=True)[1]
        usable = np.flatnonzero(rows > 0)
        self.members = usable[np.argsort(self.domain[usable], kind="stable")]
        domains = int(self.domain.max(initial=-1)) + 1
        self.count = np.bincount(self.domain[usable], minlength=domains)
        self.first = np.cumsum(self.count) - self.count
        self.place = np.full(len(rows), -1)
        self.place[self.members] = np.arange(len(self.members))

    def check(self, lacking: np.ndarray, order: np.ndarray) -> None:
        """Raise InputError if ``lacking`` rows [N] cannot be had, or only in too many pieces."""
        short = lacking > 0
        domain = self.domain[order[short]]
        if (self.count[domain] == 0).any():
            raise InputError(
                "a request is to be continued, but no recorded request of its domain has rows",
                mend="record longer requests of that domain",
            )
        total = np.bincount(self.domain, self.rows, minlength=len(self.count))
        mean = total / np.maximum(self.count, 1)
        pieces = float((lacking[short] / mean[domain]).sum())
        if pieces > _MOST_SEGMENTS:
            raise InputError(
                f"continuing takes about {pieces:.3g} recorded requests",
                mend="record longer requests, or replay fewer",
            )

    def another(self, now: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """For each of ``now`` a request of its domain with rows, not itself if there are two."""
        domain = self.domain[now]
        first, count = self.first[domain], self.count[domain]
        own = self.place[now] - first
        avoid = (self.place[now] >= 0) & (count > 1)
        drawn = (rng.random(len(now)) * (count - avoid)).astype(np.int64)
        drawn += avoid & (drawn >= own)
        return self.members[first + drawn]
