"""Who runs on a replica: waiting queue, slots, KV blocks, preemption. Base of ``Replica``."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from workbench.errors import InputError
from workbench.profiles import StepCost
from workbench.schedulers import Scheduler
from workbench.serving import kernels
from workbench.serving.history import History
from workbench.serving.kv import KVCache
from workbench.serving.metrics import Recorder
from workbench.serving.options import Options
from workbench.serving.queueing import WaitingQueue
from workbench.serving.state import (
    DECODING,
    FINISHED,
    FREE,
    LISTS,
    PREEMPTIONS,
    PREFILLING,
    new_slots,
)
from workbench.serving.workload import Workload


@dataclass(slots=True)
class Parked:
    """Where a preempted request goes on: its tokens are recomputed as a longer prompt."""

    prompt: int
    left: int
    row: int
    row_end: int
    segment: int


class Seating:
    """The requests of a replica. Decoding ones keep the order in which they began to decode."""

    def __init__(
        self,
        workload: Workload,
        cost: StepCost,
        scheduler: Scheduler,
        options: Options,
        recorder: Recorder,
        block_size: int,
    ):
        self.workload, self.cost, self.options = workload, cost, options
        self.recorder, self.counters = recorder, recorder.counters()
        most = block_size if scheduler.uniform is None else scheduler.uniform
        self.lookahead = most + 1
        capacity = cost.kv_capacity_tokens if options.kv_tokens is None else options.kv_tokens
        self.kv = KVCache(capacity, cost.kv_block_tokens)
        self._check_room()

        slots = options.slots
        self.waiting = WaitingQueue(workload.order_key(options.queue))
        self.delayed: deque[tuple[int, int]] = deque()  # step that may admit it, serial number
        self.parked: dict[int, Parked] = {}  # by serial number
        self.slots = new_slots(slots)
        self.lists = np.zeros((len(LISTS), slots), np.int64)
        self.decoding, self.prefilling = self.lists[DECODING], self.lists[PREFILLING]
        self.decoding_count = self.prefilling_count = 0
        self.lists[FREE] = np.arange(slots)[::-1]
        self.free_count = slots
        self.admissions = 0
        self.admitted = 0  # requests seated for the step that is being planned
        self.outstanding_tokens = 0  # prompt and output tokens of the requests in the system
        self.history = History(
            max(scheduler.history, scheduler.lag), slots, block_size, scheduler.lag
        )

    def _check_room(self) -> None:
        if self.kv.capacity is None:
            return
        longest = self.workload.prompt + self.workload.output + self.lookahead
        worst = int(longest.argmax())
        if self.kv.blocks(int(longest[worst])) > self.kv.capacity:
            profile = self.options.kv_tokens is None
            raise InputError(
                f"request {worst} needs {longest[worst]:,} tokens of KV cache (prompt, output and "
                f"{self.lookahead} of lookahead); there are {self.kv.capacity * self.kv.block:,}",
                file=self.cost.profile.name if profile else None,
                place="kv_cache.capacity_tokens" if profile else "--kv-tokens",
                mend="give a larger --kv-tokens or leave the request out",
            )

    @property
    def in_system(self) -> int:
        """Requests that wait or run."""
        running = self.decoding_count + self.prefilling_count
        return running + len(self.waiting) + len(self.delayed)

    @property
    def busy(self) -> bool:
        """Whether there is anything to do."""
        return self.in_system > 0

    @property
    def _alone(self) -> bool:
        """Whether no step is under way that a delayed request could miss."""
        return not (self.decoding_count or self.prefilling_count or len(self.waiting))

    def enqueue(self, serial: int, successor: bool = False) -> None:
        """A request arrives; a successor follows a request of its user that has just finished.

        Engines that plan a step ahead admit successors ``host.admission_lag_steps`` later.
        """
        lag = self.cost.admission_lag_steps
        if successor and lag:
            self.delayed.append((self.history.step + lag, serial))
        else:
            self.waiting.push(serial)
        self.outstanding_tokens += int(self.workload.prompt[serial] + self.workload.output[serial])

    def admit(self) -> None:
        """Seat waiting requests while a slot and KV blocks for the whole prompt are free."""
        self.admitted = 0
        while self.delayed and (self.delayed[0][0] <= self.history.step or self._alone):
            self.waiting.push(self.delayed.popleft()[1])
        while self.free_count and len(self.waiting):
            if not self._seat(self.waiting.peek()):
                break
            self.waiting.pop()
            self.admitted += 1

    def _seat(self, serial: int) -> bool:
        workload, kv = self.workload, self.kv
        parked = self.parked.pop(serial, None) if self.parked else None
        if parked is None:
            segment = int(workload.segment_start[serial])
            row, end = 0, 0
            if segment < workload.segment_start[serial + 1]:
                row = workload.segments[0, segment]
                end = row + workload.segments[1, segment]
            prompt, left = int(workload.prompt[serial]), workload.output[serial]
        else:
            prompt, left = parked.prompt, parked.left
            row, end, segment = parked.row, parked.row_end, parked.segment
        restored, session = 0, -1
        if self.options.prefix_caching:
            session = workload.session_of(serial)
            restored = kv.hit(session, prompt) or min(workload.cached_of(serial), prompt - 1)
        blocks = kv.take(prompt + self.lookahead, session)
        if blocks is None:
            if parked is not None:
                self.parked[serial] = parked
            return False
        self.free_count -= 1
        index = int(self.lists[FREE, self.free_count])
        self.admissions += 1
        self.slots[index] = (
            serial, self.admissions, prompt, restored, left, row, end, segment, blocks, restored,
        )  # fmt: skip
        self.recorder.cached_tokens += restored
        self.history.forget(index)
        self.prefilling[self.prefilling_count] = index
        self.prefilling_count += 1
        return True

    def reserve(self) -> bool:
        """Grow the decoding requests' KV, preempting the newest; True if none was preempted."""
        kv, untouched = self.kv, True
        while self.decoding_count:
            wanted = kernels.growth(
                self.slots, self.decoding, self.decoding_count, kv.block, self.lookahead
            )
            if kv.make_room(wanted):
                if wanted:
                    kernels.grow(
                        self.slots, self.decoding, self.decoding_count, kv.block, self.lookahead
                    )
                    kv.free -= wanted
                break
            self._preempt_newest()
            untouched = False
        return untouched

    def _preempt_newest(self) -> None:
        """Send the request that was admitted last back to the queue; its KV is recomputed."""
        slots = self.slots
        running = np.concatenate(
            [self.decoding[: self.decoding_count], self.prefilling[: self.prefilling_count]]
        )
        index = int(running[slots["admitted"][running].argmax()])
        slot = slots[index]
        serial, decodes = int(slot["serial"]), slot["prefilled"] >= slot["prompt"]
        self.parked[serial] = Parked(
            # a decoding request's tokens are known up to its anchor, which is recomputed too
            prompt=int(slot["prefilled"]) + 1 if decodes else int(slot["prompt"]),
            left=int(slot["left"]),
            row=int(slot["row"]),
            row_end=int(slot["row_end"]),
            segment=int(slot["segment"]),
        )
        self.kv.give(int(slot["blocks"]))
        slots["left"][index] = 0
        self._free(index)
        line, count = (
            (self.decoding, self.decoding_count)
            if decodes
            else (self.prefilling, self.prefilling_count)
        )
        stay = line[:count][line[:count] != index]
        line[: count - 1] = stay
        if decodes:
            self.decoding_count -= 1
        else:
            self.prefilling_count -= 1
        self.waiting.push_front(serial)
        self.counters[PREEMPTIONS] += 1

    def release(self, now: float, ended: int) -> list[int]:
        """Free the slots and blocks of the requests that finished; their serial numbers."""
        serials = []
        for index in self.lists[FINISHED, :ended].tolist():
            slot = self.slots[index]
            serial = int(slot["serial"])
            serials.append(serial)
            self.recorder.last[serial] = now
            prompt, output = int(self.workload.prompt[serial]), int(self.workload.output[serial])
            self.outstanding_tokens -= prompt + output
            session = self.workload.session_of(serial) if self.options.prefix_caching else -1
            # the last token is emitted and never computed
            self.kv.give(int(slot["blocks"]), session, prompt + output - 1)
            self._free(index)
        return serials

    def _free(self, index: int) -> None:
        self.lists[FREE, self.free_count] = index
        self.free_count += 1
