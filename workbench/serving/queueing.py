"""The order in which waiting requests are admitted."""

from __future__ import annotations

import heapq
from collections import deque

import numpy as np


class WaitingQueue:
    """Serial numbers of waiting requests; preempted ones go before all others.

    ``key`` [N] orders the rest, lowest first, ties by time of arrival; None: first come first
    served.
    """

    def __init__(self, key: np.ndarray | None = None):
        self._key = key
        self._front: deque[int] = deque()
        self._line: deque[int] = deque()
        self._heap: list[tuple[float, int, int]] = []
        self._pushed = 0

    def __len__(self) -> int:
        return len(self._front) + len(self._line) + len(self._heap)

    def push(self, serial: int) -> None:
        """A request arrives."""
        if self._key is None:
            self._line.append(serial)
        else:
            self._pushed += 1
            heapq.heappush(self._heap, (float(self._key[serial]), self._pushed, serial))

    def push_front(self, serial: int) -> None:
        """A preempted request comes back."""
        self._front.appendleft(serial)

    def peek(self) -> int:
        """The request that is admitted next."""
        if self._front:
            return self._front[0]
        return self._line[0] if self._key is None else self._heap[0][2]

    def pop(self) -> int:
        """Take the request that is admitted next."""
        if self._front:
            return self._front.popleft()
        return self._line.popleft() if self._key is None else heapq.heappop(self._heap)[2]
