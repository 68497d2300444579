"""The models' side of live decoding: passes of target and drafter over a fixed number of slots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from workbench.drafting.dspark import Drafter
from workbench.drafting.sampling import Choices, probabilities, verify
from workbench.drafting.target import Target

BUCKET = 64  # tokens: attention reads the cache up to a multiple of it


@dataclass
class Verified:
    """What one verify pass came to, of R slots."""

    accepted: np.ndarray  # [R] drafts kept
    following: list[int]  # [R] the token after them
    drafts: list[list[int]]  # [R][n] what was drafted and verified, padding included


class Passes:
    """Prefill, draft and verify, with the caches that they share. Slots of length 0 are free."""

    def __init__(
        self, target: Target, drafter: Drafter | None, choices: Choices, temperature: float
    ):
        self.target, self.drafter = target, drafter
        self.choices, self.temperature = choices, temperature
        self.block_size = drafter.config.block_size if drafter else 1
        self._collect = drafter.config.target_layer_ids if drafter else ()

    def open(self, slots: int, room: int) -> None:
        """Empty slots of ``room`` tokens each."""
        self._cache = self.target.new_cache(slots, room)
        self._context = self.drafter.new_cache(slots, room) if self.drafter else None
        device = self.target.device
        self.held = np.zeros(slots, int)  # tokens in the cache, the host's copy of _length
        self._length = torch.zeros(slots, dtype=torch.long, device=device)
        self._anchor = torch.zeros(slots, dtype=torch.long, device=device)

    def prefill(
        self, slots: np.ndarray, requests: np.ndarray, prompts: Sequence[Sequence[int]]
    ) -> list[int]:
        """Process the prompts (token ids) of ``requests`` in ``slots``; their token 0."""
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
        self.held[slots] = sizes
        return first.tolist()

    def free(self, slots: Sequence[int]) -> None:
        """Empty rows, so that they are masked out of what the others compute."""
        self.held[slots] = 0
        places = torch.as_tensor(slots, device=self._length.device)
        self._length[places] = 0
        self._anchor[places] = 0

    def _upto(self, tokens: int) -> int:
        most = int(self.held.max()) + tokens
        return min(-(-most // BUCKET) * BUCKET, self._cache.positions)

    def draft(self, drafts: int, confident: bool) -> np.ndarray | None:
        """Draft in all slots S; the confidences [S, d], if they are asked for."""
        self._tokens = self._p_d = None
        if not drafts:
            return None
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
            if confident:
                confidences.append(
                    chosen_chance(logits, previous, self.temperature)
                    if confidence is None
                    else confidence.sigmoid()
                )
        self._tokens, self._p_d = torch.stack(tokens, 1), torch.stack(chances, 1)
        return torch.stack(confidences, 1).double().cpu().numpy() if confident else None

    def verify(self, order: np.ndarray, lengths: np.ndarray) -> Verified:
        """One target pass over the anchors and ``lengths`` [R] drafts of the slots ``order`` [R].

        The host waits for the device once.
        """
        device, most = self.target.device, int(lengths.max())
        places = torch.as_tensor(order, device=device)
        batch = self._anchor[:, None]
        if most:
            batch = torch.cat([batch, self._tokens[:, :most]], dim=1)
        out = self.target(
            batch, self._length, self._cache, upto=self._upto(most + 1), collect=self._collect
        )
        if self.drafter:
            self.drafter.cache_context(out.features, self._length, self._context)
        p_t = probabilities(self.target.logits(out.hidden[places]), self.temperature)
        p_d = p_t[:, :0] if self._p_d is None else self._p_d[places, :most]
        drafts = batch[places, 1:]
        ell = torch.as_tensor(lengths, device=device)
        kept, following = verify(p_t, p_d, drafts, ell, self.choices)
        self._length[places] += kept + 1
        self._anchor[places] = following
        found = torch.cat([kept[:, None], following[:, None], drafts], dim=1).cpu().numpy()
        self.held[order] += found[:, 0] + 1
        return Verified(found[:, 0], found[:, 1].tolist(), found[:, 2:].tolist())


def chosen_chance(logits: Tensor, tokens: Tensor, temperature: float) -> Tensor:
    """The drafter's chance [...] of the tokens it chose: the confidence of one without a head.

    At temperature 0, where every choice is certain, that of temperature 1.
    """
    p_d = probabilities(logits, temperature or 1.0)
    return p_d.gather(-1, tokens[..., None]).squeeze(-1)
