"""The order in which waiting requests are admitted."""

from __future__ import annotations

import heapq
from collections import deque

import numpy as np


class WaitingQueue:
    """Serial numbers of waiting requests; preempted ones go before all others.

    ``key`` [N] orders the rest, lowest first, ties by time of arrival; None: first come first
    served, in a ring that compiled code reads too.
    """

    def __init__(self, key: np.ndarray | None = None):
        self._key = key
        self._heap: list[tuple[float, int, int]] = []
        self._pushed = 0
        self.front: deque[int] = deque()  # preempted requests
        self.ring = np.zeros(64, np.int64)  # the line, from head on and around
        self.head = self.count = 0

    def __len__(self) -> int:
        return len(self.front) + self.count + len(self._heap)

    def push(self, serial: int) -> None:
        """A request arrives."""
        if self._key is not None:
            self._pushed += 1
            heapq.heappush(self._heap, (float(self._key[serial]), self._pushed, serial))
            return
        if self.count == len(self.ring):
            self.ring = np.concatenate([self.ring[self.head :], self.ring[: self.head], self.ring])
            self.head = 0
        self.ring[(self.head + self.count) % len(self.ring)] = serial
        self.count += 1

    def push_front(self, serial: int) -> None:
        """A preempted request comes back."""
        self.front.appendleft(serial)

    def peek(self) -> int:
        """The request that is admitted next."""
        if self.front:
            return self.front[0]
        return int(self.ring[self.head]) if self._key is None else self._heap[0][2]

    def pop(self) -> int:
        """Take the request that is admitted next."""
        if self.front:
            return self.front.popleft()
        if self._key is not None:
            return heapq.heappop(self._heap)[2]
        serial = int(self.ring[self.head])
        self.head = (self.head + 1) % len(self.ring)
        self.count -= 1
        return serial
