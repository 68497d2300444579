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
from torch import Tensor

from workbench.drafting.dspark import Drafter
from workbench.drafting.lanes import Lane, StepSeconds, flat_cost
from workbench.drafting.sampling import Choices, probabilities, verify
from workbench.drafting.target import Target
from workbench.errors import InputError
from workbench.schedulers import Scheduler

BUCKET = 64  # tokens: attention reads the cache up to a multiple of it


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
    ):
        """``scheduler``: several of one kind make as many lanes of ``max_running`` requests.

        ``drafter`` may be None if the scheduler drafts nothing. ``step_seconds`` is the cost that
        a scheduler believes in, of its own lane. Raises InputError for a scheduler that needs
        hindsight.
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
        self.target, self.drafter = target, drafter
        self.choices, self.temperature = choices, temperature
        self.max_new, self.max_running = max_new_tokens, max_running
        self.step_seconds, self.on_finish = step_seconds, on_finish
        self.gamma = drafter.config.block_size if drafter else 1
        self._collect = drafter.config.target_layer_ids if drafter else ()
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
        """Slots, caches and lanes for ``requests`` of at most ``room`` tokens."""
        share = self.max_running
        slots = min(share * len(self.schedulers), requests)
        self._cache = self.target.new_cache(slots, room)
        self._context = self.drafter.new_cache(slots, room) if self.drafter else None
        self._lanes = [
            Lane(scheduler, range(first, min(first + share, slots)), self.gamma, self.step_seconds)
            for first, scheduler in zip(range(0, slots, share), self.schedulers, strict=False)
        ]
        self._slot = np.full(slots, -1)  # index of each slot's request; −1: free
        self._held = np.zeros(slots, int)  # tokens in the cache, the host's copy of _length
        device = self.target.device
        self._length = torch.zeros(slots, dtype=torch.long, device=device)
        self._anchor = torch.zeros(slots, dtype=torch.long, device=device)

    def _prefill(self, slots: np.ndarray, requests: list[Request]) -> None:
        """Process the prompts of ``slots`` and emit their token 0."""
        prompts = [requests[self._slot[slot]].prompt for slot in slots]
        sizes = [len(prompt) for prompt in prompts]
        tokens = np.zeros((len(prompts), max(sizes)), np.int64)
        for row, prompt in enumerate(prompts):
            tokens[row, : len(prompt)] = prompt
        device = self.target.device
        tokens = torch.from_numpy(tokens).to(device)
        lengths = torch.tensor(sizes, device=device)
        start = torch.zeros_like(lengths)
        cache = self.target.new_cache(len(prompts), tokens.shape[1])
        out = self.target(tokens, start, cache, collect=self._collect)
        places = torch.as_tensor(slots, device=device)
        self._cache.put_rows(places, cache)
        if self.drafter:
            context = self.drafter.new_cache(len(prompts), tokens.shape[1])
            self.drafter.cache_context(out.features, start, context)
            self._context.put_rows(places, context)
        last = out.hidden[torch.arange(len(prompts), device=device), lengths - 1]
        p_t = probabilities(self.target.logits(last), self.temperature)
        first = self.choices.draw(p_t)
        self._length[places], self._anchor[places] = lengths, first
        self._held[slots] = sizes
        ended = []
        for slot, token in zip(slots.tolist(), first.tolist(), strict=True):
            if self._emit(slot, [token], requests):
                self._lanes[slot // self.max_running].admit(slot)
            else:
                ended.append(slot)
        self._free(ended)

    def _round(self, lanes: list[Lane], requests: list[Request]) -> None:
        """One decode step of all running requests of all lanes."""
        drafts = max([lane.ask(self._slot, self._held) for lane in lanes])
        tokens = p_d = known = None
        if drafts:
            tokens, p_d, confidence = self._draft(drafts)
            if self._confident:
                known = confidence.double().cpu().numpy()
        planned = [lane.plan(known) for lane in lanes]
        order = np.concatenate([lane.order for lane in lanes])
        lengths = np.concatenate(planned)
        accepted, following, drafted = self._verify(order, lengths, tokens, p_d)
        running = np.repeat([len(lane.order) for lane in lanes], [len(one) for one in planned])
        on = np.zeros(len(order), bool)
        for row, (slot, length, kept, size) in enumerate(
            zip(order.tolist(), lengths.tolist(), accepted.tolist(), running.tolist(), strict=True)
        ):
            request = requests[self._slot[slot]]
            request.verified.append(length)
            request.accepted.append(kept)
            request.running.append(size)
            on[row] = self._emit(slot, [*drafted[row][:kept], following[row]], requests)
            request.inner += int(on[row])
        self._free(order[~on].tolist())
        first = 0
        for lane, mine in zip(lanes, planned, strict=True):
            rows = slice(first, first + len(mine))
            lane.close(mine, accepted[rows], on[rows])
            first += len(mine)

    def _upto(self, tokens: int) -> int:
        most = int(self._held.max()) + tokens
        return min(-(-most // BUCKET) * BUCKET, self._cache.positions)

    def _draft(self, drafts: int) -> tuple[Tensor, Tensor, Tensor]:
        """Tokens [S, d], their distributions [S, d, V] and confidences [S, d], of all slots."""
        drafter = self.drafter
        states = drafter.draft_states(self._anchor, self._length, self._context, upto=self._upto(0))
        previous, state = self._anchor, drafter.start(states[:, 0])
        tokens, chances, confidences = [], [], []
        for k in range(drafts):
            logits, confidence, state = drafter.step(previous, states[:, k], state)
            p_d = probabilities(logits, self.temperature)
            previous = self.choices.draw(p_d)
            tokens.append(previous)
            chances.append(p_d)
            confidences.append(
                chosen_chance(logits, previous, self.temperature)
                if confidence is None
                else confidence.sigmoid()
            )
        return torch.stack(tokens, 1), torch.stack(chances, 1), torch.stack(confidences, 1)

    def _verify(self, order, lengths, tokens, p_d) -> tuple[np.ndarray, list[int], list[list[int]]]:
        """One target pass over anchors and drafts.

        Of the slots in ``order``: accepted drafts [R], the tokens after them, and the drafts.
        """
        device, most = self.target.device, int(lengths.max())
        places = torch.as_tensor(order, device=device)
        batch = self._anchor[:, None]
        if most:
            batch = torch.cat([batch, tokens[:, :most]], dim=1)
        out = self.target(
            batch, self._length, self._cache, upto=self._upto(most + 1), collect=self._collect
        )
        if self.drafter:
            self.drafter.cache_context(out.features, self._length, self._context)
        p_t = probabilities(self.target.logits(out.hidden[places]), self.temperature)
        p_d = p_t[:, :0] if p_d is None else p_d[places, :most]
        drafts = batch[places, 1:]
        ell = torch.as_tensor(lengths, device=device)
        kept, following = verify(p_t, p_d, drafts, ell, self.choices)
        self._length[places] += kept + 1
        self._anchor[places] = following
        # one transfer: the host waits for the device once
        found = torch.cat([kept[:, None], following[:, None], drafts], dim=1).cpu().numpy()
        self._held[order] += found[:, 0] + 1
        return found[:, 0], found[:, 1].tolist(), found[:, 2:].tolist()

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
        """Empty rows, so that they are masked out of what the others compute."""
        if slots:
            self._slot[slots], self._held[slots] = -1, 0
            places = torch.as_tensor(slots, device=self._length.device)
            self._length[places] = 0
            self._anchor[places] = 0


def chosen_chance(logits: Tensor, tokens: Tensor, temperature: float) -> Tensor:
    """The drafter's chance [...] of the tokens it chose: the confidence of one without a head.

    At temperature 0, where every choice is certain, that of temperature 1.
    """
    p_d = probabilities(logits, temperature or 1.0)
    return p_d.gather(-1, tokens[..., None]).squeeze(-1)
