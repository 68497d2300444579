"""The target's own answers to many prompts: plain decoding in wide batches.

A fixed number of slots over a static cache. A step is one pass, captured as a CUDA graph on a GPU,
and one draw; the host looks for ended answers only every few steps, so that a GPU never waits for
it, and gives their slots to the next prompts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import torch
from torch import Tensor

from workbench.drafting.data import Sequences
from workbench.drafting.parts import EAGER, compiled
from workbench.drafting.sampling import Choices, RandomChoices, probabilities
from workbench.drafting.target import Target
from workbench.errors import InputError

LOOK = 16  # steps between two looks at what has ended
BUCKET = 64  # positions attended to are rounded up to it
PREFILL_TOKENS = 32_768  # of prompts in one pass, padding included


class RaceChoices(RandomChoices):
    """Draws that never wait for the GPU: ``torch.multinomial`` checks its input on the host."""

    def race(self, logits: Tensor, temperature: float, *, fast: bool = False) -> Tensor:
        """One index [n] from each row's softmax(logits [n, V]/temperature).

        An exponential race: argmax p_i/E_i with E_i ~ Exp(1). ``fast``: compiled for the shape.
        """
        if temperature == 0:
            return logits.argmax(dim=-1)
        times = torch.empty(logits.shape, device=logits.device)
        times.exponential_(generator=self._generator)
        return (_compiled_winner() if fast else _winner)(logits, times, temperature)


def _winner(logits: Tensor, times: Tensor, temperature: float) -> Tensor:
    return (logits.float() / temperature - times.log()).argmax(dim=-1)


@cache
def _compiled_winner():
    return torch.compile(_winner, dynamic=False)


def random_choices(rng: np.random.Generator, device: torch.device) -> Choices:
    """The draws that are fast on ``device``."""
    return (RaceChoices if device.type == "cuda" else RandomChoices)(rng, device)


def generate(
    target: Target,
    prompts: Sequence[Sequence[int]],
    choices: Choices,
    *,
    on_finish: Callable[[int, np.ndarray], None] = lambda index, answer: None,
    **options,
) -> Sequences:
    """The target's own answers to ``prompts`` (token ids); ``options`` are ``Generator``'s."""
    answers: list[np.ndarray] = [np.zeros(0, np.int32)] * len(prompts)

    def finished(index: int, answer: np.ndarray) -> None:
        answers[index] = answer
        on_finish(index, answer)

    longest = max(map(len, prompts), default=1)
    Generator(target, choices, longest_prompt=longest, **options).run(prompts, finished)
    return Sequences.of(list(zip(prompts, answers, strict=True)))


class Generator:
    """Answers prompts in ``max_running`` slots."""

    def __init__(
        self,
        target: Target,
        choices: Choices,
        *,
        temperature: float = 1.0,
        max_new_tokens: int = 512,
        max_running: int = 64,
        longest_prompt: int | None = None,
    ):
        """``longest_prompt``: tokens; None: what the target's context leaves."""
        fits = target.config.context - max_new_tokens
        longest = fits if longest_prompt is None else min(longest_prompt, fits)
        self.target, self.choices, self.temperature = target, choices, temperature
        self.max_new, self.slots, self.longest = max_new_tokens, max_running, longest
        device = self._device = target.device
        # room for the steps between an answer's end and the next look
        room = -(-(longest + max_new_tokens + LOOK) // BUCKET) * BUCKET
        self._cache = target.new_cache(max_running, room)
        self._length = torch.zeros(max_running, dtype=torch.long, device=device)  # in the cache
        self._last = torch.zeros(max_running, dtype=torch.long, device=device)
        self._written = torch.zeros(max_running, dtype=torch.long, device=device)
        self._running = torch.zeros(max_running, dtype=torch.bool, device=device)
        self._answer = torch.zeros(max_running, max_new_tokens, dtype=torch.int32, device=device)
        self._every = torch.arange(max_running, device=device)
        self._eos = torch.tensor(target.config.eos, dtype=torch.long, device=device)
        self._graphs: dict[int, tuple[torch.cuda.CUDAGraph, Tensor]] = {}

    @torch.no_grad()
    def run(
        self,
        prompts: Sequence[Sequence[int]],
        on_finish: Callable[[int, np.ndarray], None],
    ) -> None:
        """Answer every prompt (token ids); ``on_finish`` gets its index and the answer.

        An answer ends with an end token, which is part of it, or at ``max_new_tokens``. Raises
        InputError for a prompt that is empty or too long.
        """
        for index, prompt in enumerate(prompts):
            if not 1 <= len(prompt) <= self.longest:
                raise InputError(
                    f"has {len(prompt)} tokens; 1 to {self.longest} fit beside the answer",
                    place=f"prompt {index + 1}",
                    mend="shorten it or ask for fewer new tokens",
                )
        owner = np.full(self.slots, -1)  # index of each slot's prompt; −1: free
        bound = np.zeros(self.slots, int)  # no row of the cache is longer
        waiting = 0
        while waiting < len(prompts) or (owner >= 0).any():
            free = np.flatnonzero(owner < 0)[: len(prompts) - waiting]
            if len(free):
                owner[free] = np.arange(waiting, waiting + len(free))
                waiting += len(free)
                bound[free] = [len(prompts[index]) for index in owner[free]]
                self._prefill(free, [prompts[index] for index in owner[free]])
            upto = min(
                -(-(int(bound[owner >= 0].max()) + LOOK) // BUCKET) * BUCKET,
                self._cache.positions,
            )
            for _ in range(LOOK):
                self._step(upto)
            bound[owner >= 0] += LOOK
            running = self._running.cpu().numpy()
            ended = np.flatnonzero((owner >= 0) & ~running)
            self._hand_over(ended, owner, on_finish)
            owner[ended] = -1

    def _prefill(self, slots: np.ndarray, prompts: list[Sequence[int]]) -> None:
        """Process ``prompts`` and draw the first token of their answers."""
        order = np.argsort([len(prompt) for prompt in prompts], kind="stable")[::-1]
        while len(order):
            width = -(-len(prompts[order[0]]) // 32) * 32
            width = min(width, self._cache.positions)
            now = order[: max(1, PREFILL_TOKENS // width)]
            order = order[len(now) :]
            tokens = np.zeros((len(now), width), np.int64)
            for row, index in enumerate(now):
                tokens[row, : len(prompts[index])] = prompts[index]
            lengths = np.array([len(prompts[index]) for index in now])
            rows, lengths, tokens = (
                torch.from_numpy(part).to(self._device) for part in (slots[now], lengths, tokens)
            )
            out = self.target.whole(tokens, cache=self._cache, rows=rows)
            last = out.hidden[torch.arange(len(now), device=self._device), lengths - 1]
            first = self._draw(last)
            self._length[rows], self._last[rows] = lengths, first
            self._written[rows], self._answer[rows, 0] = 1, first.to(torch.int32)
            self._running[rows] = ~self._ends(first) & (self.max_new > 1)

    def _draw(self, hidden: Tensor) -> Tensor:
        logits = self.target.logits(hidden)
        if isinstance(self.choices, RaceChoices):
            fast = logits.is_cuda and len(hidden) == self.slots  # the one shape of a step
            return self.choices.race(logits, self.temperature, fast=fast)
        return self.choices.draw(probabilities(logits, self.temperature))

    def _ends(self, tokens: Tensor) -> Tensor:
        return (tokens[:, None] == self._eos).any(dim=1)

    def _step(self, upto: int) -> None:
        """One token more for every running slot."""
        following = self._draw(self._pass(upto))
        running, place = self._running, self._written.clamp(max=self.max_new - 1)
        kept = self._answer[self._every, place]
        self._answer[self._every, place] = torch.where(running, following.to(torch.int32), kept)
        self._last.copy_(torch.where(running, following, self._last))
        self._length += running
        self._written += running
        running &= ~self._ends(following) & (self._written < self.max_new)
        # an ended row is short, so that the others do not wait for its attention
        self._length *= running

    def _pass(self, upto: int) -> Tensor:
        """Normed hidden states [slots, hidden] of the last tokens."""
        if self._device.type != "cuda":
            return self.target.decode(self._last, self._length, self._cache, upto, EAGER)
        upto = self._cache.positions  # each row reads its own length: one graph is enough
        if upto not in self._graphs:
            self._graphs[upto] = self._capture(upto)
        graph, hidden = self._graphs[upto]
        graph.replay()
        return hidden

    def _capture(self, upto: int) -> tuple[torch.cuda.CUDAGraph, Tensor]:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            # what these write lies where the next step writes
            for _ in range(3):
                self.target.decode(self._last, self._length, self._cache, upto, compiled())
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            hidden = self.target.decode(self._last, self._length, self._cache, upto, compiled())
        return graph, hidden

    def _hand_over(self, ended: np.ndarray, owner: np.ndarray, on_finish) -> None:
        rows = torch.from_numpy(ended).to(self._device)
        written, answers = self._written[rows].cpu().numpy(), self._answer[rows].cpu().numpy()
        for slot, count, answer in zip(ended, written, answers, strict=True):
            on_finish(int(owner[slot]), answer[:count].copy())
