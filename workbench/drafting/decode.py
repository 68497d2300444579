"""Speculative decoding, batched: draft, truncate by any scheduler, verify once, roll back.

A fixed number of slots; a finished request's slot goes to the next prompt, so the number of
decoding requests stays at ``max_running`` while prompts are left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from workbench.drafting.dspark import Drafter
from workbench.drafting.sampling import Choices, probabilities, verify
from workbench.drafting.target import Target
from workbench.errors import InputError
from workbench.schedulers import Scheduler, View, checked, checked_draft_length
from workbench.serving.history import History

StepSeconds = Callable[[int, int], np.ndarray]  # (R, drafts) → believed seconds [drafts + 1]


@dataclass
class Request:
    """What was decoded for one prompt, and its rounds."""

    prompt: list[int]
    tokens: list[int] = field(default_factory=list)  # output, the token of prefill included
    verified: list[int] = field(default_factory=list)  # ℓ of each round
    accepted: list[int] = field(default_factory=list)  # accepted drafts, before clipping at the end
    inner: int = 0  # rounds that did not reach the end


def accepted_length(requests: Sequence[Request]) -> float:
    """τ: tokens per round, the bonus token included, over rounds that do not reach the end."""
    counts = [n for request in requests for n in request.accepted[: request.inner]]
    return 1 + float(np.mean(counts)) if counts else float("nan")


def flat_cost(requests: int, drafts: int) -> np.ndarray:
    """Every step costs the same."""
    return np.ones(drafts + 1)


class Decoder:
    """Decodes prompts under one scheduler at one temperature."""

    def __init__(
        self,
        target: Target,
        drafter: Drafter | None,
        scheduler: Scheduler,
        choices: Choices,
        *,
        temperature: float = 1.0,
        max_new_tokens: int = 256,
        max_running: int = 64,
        step_seconds: StepSeconds = flat_cost,
        on_finish: Callable[[int, Request], None] = lambda index, request: None,
    ):
        """``drafter`` may be None if the scheduler drafts nothing. ``step_seconds`` is the cost
        that the scheduler believes in. Raises InputError for a scheduler that needs hindsight.
        """
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
        self.target, self.drafter, self.scheduler = target, drafter, scheduler
        self.choices, self.temperature = choices, temperature
        self.max_new, self.max_running = max_new_tokens, max_running
        self.step_seconds, self.on_finish = step_seconds, on_finish
        self.gamma = drafter.config.block_size if drafter else 1
        self._collect = drafter.config.target_layer_ids if drafter else ()
        self._eos = set(target.config.eos)

    @torch.no_grad()
    def decode(self, prompts: Sequence[Sequence[int]]) -> list[Request]:
        """Decode every prompt (token ids) up to an end token or ``max_new_tokens``.

        Raises InputError for an empty prompt or one too long for the target's context.
        """
        self._check(prompts)
        requests = [Request(list(prompt)) for prompt in prompts]
        slots = min(self.max_running, len(requests))
        if not slots:
            return []
        room = max(len(prompt) for prompt in prompts) + self.max_new + self.gamma + 1
        self._cache = self.target.new_cache(slots, room)
        self._context = self.drafter.new_cache(slots, room) if self.drafter else None
        depth = max(self.scheduler.history, self.scheduler.lag)
        self._history = History(depth, slots, self.gamma, self.scheduler.lag)
        self._slot = np.full(slots, -1)  # index of each slot's request; −1: free
        device = self.target.device
        self._length = torch.zeros(slots, dtype=torch.long, device=device)  # tokens in the cache
        self._anchor = torch.zeros(slots, dtype=torch.long, device=device)
        order: list[int] = []  # occupied slots in order of admission: the scheduler's rows
        waiting = 0
        while True:
            while waiting < len(requests) and len(order) < slots:
                free = np.flatnonzero(self._slot < 0)[: len(requests) - waiting]
                self._slot[free] = np.arange(waiting, waiting + len(free))
                waiting += len(free)
                self._prefill(free, requests)
                order += [slot for slot in free.tolist() if self._slot[slot] >= 0]
            if not order:
                return requests
            self._round(np.array(order), requests)
            order = [slot for slot in order if self._slot[slot] >= 0]

    def _check(self, prompts: Sequence[Sequence[int]]) -> None:
        longest = self.target.config.context - self.max_new - self.gamma
        for index, prompt in enumerate(prompts):
            if not 1 <= len(prompt) <= longest:
                raise InputError(
                    f"has {len(prompt)} tokens; 1 to {longest} fit beside the output",
                    place=f"prompt {index + 1}",
                    mend="shorten it or ask for fewer new tokens",
                )

    def _prefill(self, slots: np.ndarray, requests: list[Request]) -> None:
        """Process the prompts of ``slots`` and emit their token 0."""
        prompts = [requests[self._slot[slot]].prompt for slot in slots]
        lengths = torch.tensor([len(prompt) for prompt in prompts])
        tokens = torch.zeros(len(prompts), int(lengths.max()), dtype=torch.long)
        for row, prompt in enumerate(prompts):
            tokens[row, : len(prompt)] = torch.tensor(prompt)
        device = self.target.device
        tokens, lengths = tokens.to(device), lengths.to(device)
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
        for slot, token in zip(slots.tolist(), first.tolist(), strict=True):
            self._history.forget(slot)
            self._emit(slot, [token], requests)

    def _round(self, order: np.ndarray, requests: list[Request]) -> None:
        """One decode step of all running requests."""
        view = self._view(order)
        view.draft_length = drafts = checked_draft_length(self.scheduler, view)
        survival, lengths = None, np.zeros(len(order), int)
        tokens = p_d = None
        if drafts:
            tokens, p_d, confidence = self._draft(drafts)
            view.confidence = np.zeros((len(order), self.gamma))
            view.confidence[:, :drafts] = confidence.double().cpu().numpy()[order]
            survival = np.cumprod(view.confidence, axis=1)
            lengths = checked(self.scheduler, view, survival).astype(int)
        accepted, following = self._verify(order, lengths, tokens, p_d)
        drafted = tokens.tolist() if drafts else [[]] * len(self._slot)
        for slot, length in zip(order.tolist(), lengths.tolist(), strict=True):
            request = requests[self._slot[slot]]
            kept = int(accepted[slot])
            request.verified.append(length)
            request.accepted.append(kept)
            request.inner += self._emit(
                slot, [*drafted[slot][:kept], int(following[slot])], requests
            )
        self._history.record(order, survival, lengths, accepted[order], float("nan"))

    def _view(self, order: np.ndarray) -> View:
        count = len(order)
        return View(
            block_size=self.gamma,
            request=self._slot[order],
            context=self._length.cpu().numpy()[order] + 1,
            prefill_tokens=0,
            step_seconds=lambda drafts: self.step_seconds(count, drafts),
            past=self._history.of(order),
            age=np.zeros(count),
        )

    def _upto(self, tokens: int) -> int:
        return min(int(self._length.max()) + tokens, self._cache.positions)

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

    def _verify(self, order, lengths, tokens, p_d) -> tuple[np.ndarray, np.ndarray]:
        """One target pass over anchors and drafts; accepted [S] and next tokens [S] per slot."""
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
        results = np.zeros((2, len(self._slot)), int)
        results[:, order] = torch.stack([kept, following]).cpu().numpy()
        return results[0], results[1]

    def _emit(self, slot: int, tokens: list[int], requests: list[Request]) -> bool:
        """Append to the slot's request; true if it goes on, else the slot is free."""
        index = int(self._slot[slot])
        request = requests[index]
        for token in tokens:
            request.tokens.append(token)
            if token in self._eos or len(request.tokens) == self.max_new:
                self._slot[slot] = -1
                # an empty row, so that it is masked out of what the others compute
                self._length[slot] = self._anchor[slot] = 0
                self.on_finish(index, request)
                return False
        return True


def chosen_chance(logits: Tensor, tokens: Tensor, temperature: float) -> Tensor:
    """The drafter's chance [...] of the tokens it chose: the confidence of one without a head.

    At temperature 0, where every choice is certain, that of temperature 1.
    """
    p_d = probabilities(logits, temperature or 1.0)
    return p_d.gather(-1, tokens[..., None]).squeeze(-1)
