"""Speculative decoding, batched: draft, truncate by any scheduler, verify once, roll back.

A fixed number of slots; a finished request's slot goes to the next prompt, so the number of
decoding requests stays at ``max_running`` while prompts are left. Several lanes, each with a
scheduler that sees its own requests only, share the passes of target and drafter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from workbench.drafting.dspark import Drafter
from workbench.drafting.lanes import Lane, StepSeconds, flat_cost
from workbench.drafting.passes import Passes
from workbench.drafting.sampling import Choices
from workbench.drafting.target import Target
from workbench.errors import InputError
from workbench.schedulers import Scheduler


@dataclass
class Request:
    """What was decoded for one prompt, and its rounds."""

    prompt: list[int]
    tokens: list[int] = field(default_factory=list)  # output, the token of prefill included
    verified: list[int] = field(default_factory=list)  # ℓ of each round
    accepted: list[int] = field(default_factory=list)  # accepted drafts, before clipping at the end
    running: list[int] = field(default_factory=list)  # R, decoding requests of each round's lane
    inner: int = 0  # rounds that did not reach the end


def accepted_length(requests: Sequence[Request]) -> float:
    """τ: tokens per round, the bonus token included, over rounds that do not reach the end."""
    counts = [n for request in requests for n in request.accepted[: request.inner]]
    return 1 + float(np.mean(counts)) if counts else float("nan")


class Decoder:
    """Decodes prompts under one scheduler at one temperature."""

    def __init__(
        self,
        target: Target,
        drafter: Drafter | None,
        scheduler: Scheduler | Sequence[Scheduler],
        choices: Choices,
        *,
        temperature: float = 1.0,
        max_new_tokens: int = 256,
        max_running: int = 64,
        step_seconds: StepSeconds = flat_cost,
        on_finish: Callable[[int, Request], None] = lambda index, request: None,
        passes: Passes | None = None,
    ):
        """``scheduler``: several of one kind make as many lanes of ``max_running`` requests.

        ``drafter`` may be None if the scheduler drafts nothing. ``step_seconds`` is the cost that
        a scheduler believes in, of its own lane. ``passes``: other than those of the models.
        Raises InputError for a scheduler that needs hindsight.
        """
        self.schedulers = [scheduler] if isinstance(scheduler, Scheduler) else list(scheduler)
        scheduler = self.schedulers[0]
        if scheduler.reads == "outcomes":
            raise InputError(
                f"scheduler {scheduler.name} needs to know what will be accepted",
                place=f"--scheduler {scheduler.name}",
                mend="it can only be replayed",
            )
        if drafter is None and scheduler.uniform != 0:
            raise InputError(
                f"scheduler {scheduler.name} needs a drafter",
                place="--drafter",
                mend="name one, or take scheduler none",
            )
        self.target, self.max_new, self.max_running = target, max_new_tokens, max_running
        self.step_seconds, self.on_finish = step_seconds, on_finish
        self._passes = passes or Passes(target, drafter, choices, temperature)
        self.gamma = self._passes.block_size
        self._eos = set(target.config.eos)
        self._confident = any(s.uniform is None for s in self.schedulers)

    @torch.no_grad()
    def decode(self, prompts: Sequence[Sequence[int]]) -> list[Request]:
        """Decode every prompt (token ids) up to an end token or ``max_new_tokens``.

        Raises InputError for an empty prompt or one too long for the target's context.
        """
        self._check(prompts)
        requests = [Request(list(prompt)) for prompt in prompts]
        if not requests:
            return []
        room = max(len(prompt) for prompt in prompts) + self.max_new + self.gamma + 1
        self._open(len(requests), room)
        waiting = 0
        while True:
            while waiting < len(requests):
                free = np.flatnonzero(self._slot < 0)[: len(requests) - waiting]
                if not len(free):
                    break
                self._slot[free] = np.arange(waiting, waiting + len(free))
                waiting += len(free)
                self._prefill(free, requests)
            lanes = [lane for lane in self._lanes if lane.order]
            if not lanes:
                return requests
            self._round(lanes, requests)

    def _check(self, prompts: Sequence[Sequence[int]]) -> None:
        longest = self.target.config.context - self.max_new - self.gamma
        for index, prompt in enumerate(prompts):
            if not 1 <= len(prompt) <= longest:
                raise InputError(
                    f"has {len(prompt)} tokens; 1 to {longest} fit beside the output",
                    place=f"prompt {index + 1}",
                    mend="shorten it or ask for fewer new tokens",
                )

    def _open(self, requests: int, room: int) -> None:
        """Slots and lanes for ``requests`` of at most ``room`` tokens."""
        share = self.max_running
        slots = min(share * len(self.schedulers), requests)
        self._passes.open(slots, room)
        self._lanes = [
            Lane(scheduler, range(first, min(first + share, slots)), self.gamma, self.step_seconds)
            for first, scheduler in zip(range(0, slots, share), self.schedulers, strict=False)
        ]
        self._slot = np.full(slots, -1)  # index of each slot's request; −1: free

    def _prefill(self, slots: np.ndarray, requests: list[Request]) -> None:
        """Process the prompts of ``slots`` and emit their token 0."""
        mine = self._slot[slots]
        firsts = self._passes.prefill(slots, mine, [requests[index].prompt for index in mine])
        ended = []
        for slot, token in zip(slots.tolist(), firsts, strict=True):
            if self._emit(slot, [token], requests):
                self._lanes[slot // self.max_running].admit(slot)
            else:
                ended.append(slot)
        self._free(ended)

    def _round(self, lanes: list[Lane], requests: list[Request]) -> None:
        """One decode step of all running requests of all lanes."""
        passes = self._passes
        drafts = max([lane.ask(self._slot, passes.held) for lane in lanes])
        known = passes.draft(drafts, self._confident)
        planned = [lane.plan(known) for lane in lanes]
        order = np.concatenate([lane.order for lane in lanes])
        lengths = np.concatenate(planned)
        found = passes.verify(order, lengths)
        running = np.repeat([len(lane.order) for lane in lanes], [len(one) for one in planned])
        on = np.zeros(len(order), bool)
        for row, (slot, length, kept, size) in enumerate(
            zip(*(part.tolist() for part in (order, lengths, found.accepted, running)), strict=True)
        ):
            request = requests[self._slot[slot]]
            request.verified.append(length)
            request.accepted.append(kept)
            request.running.append(size)
            tokens = [*found.drafts[row][:kept], found.following[row]]
            on[row] = self._emit(slot, tokens, requests)
            request.inner += int(on[row])
        self._free(order[~on].tolist())
        first = 0
        for lane, mine in zip(lanes, planned, strict=True):
            rows = slice(first, first + len(mine))
            lane.close(mine, found.accepted[rows], on[rows])
            first += len(mine)

    def _emit(self, slot: int, tokens: list[int], requests: list[Request]) -> bool:
        """Append to the slot's request; true if it goes on."""
        index = int(self._slot[slot])
        request = requests[index]
        for token in tokens:
            request.tokens.append(token)
            if token in self._eos or len(request.tokens) == self.max_new:
                self.on_finish(index, request)
                return False
        return True

    def _free(self, slots: list[int]) -> None:
        if slots:
            self._slot[slots] = -1
            self._passes.free(slots)
