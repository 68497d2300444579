"""Dense traces: one draft block for every output token, coupled to one fixed output.

The rule of the trace format: walk the block left to right; while the prefix equals the output y,
draft token k is accepted with probability min(1, p_d(y_k)/p_t(y_k)), and then it is y_k; else it is
drawn from max(0, p_d − p_t)/Z and the rest of the block follows the drafter on its own tokens. That
is speculative sampling's maximal coupling given the output, so acceptance is unbiased.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from workbench.drafting.dspark import Drafter
from workbench.drafting.passes import chosen_chance
from workbench.drafting.sampling import Choices, probabilities, residual
from workbench.drafting.target import Target


@dataclass
class Blocks:
    """The draft blocks of one output's anchors 0..n − 2."""

    accepted: np.ndarray  # [n − 1] drafts accepted; none past the output's end
    confidence: np.ndarray  # [n − 1, γ] conditional, along the tokens really drafted
    judged: np.ndarray  # bool [n − 1, γ]: the prefix was accepted and the output goes on
    overlap: np.ndarray  # [n − 1, γ] Σ min(p_d, p_t) where judged: the chance of acceptance


class Recorder:
    """Records a drafter's blocks along outputs of the target."""

    def __init__(
        self,
        target: Target,
        drafter: Drafter,
        choices: Choices,
        *,
        temperature: float = 1.0,
        rows_per_pass: int = 16,
        anchors_per_pass: int = 256,
    ):
        """``rows_per_pass``: outputs side by side; ``anchors_per_pass``: blocks of all of them.

        Both bound memory: logits are [anchors, vocabulary].
        """
        self.target, self.drafter, self.choices = target, drafter, choices
        self.temperature = temperature
        self.rows = rows_per_pass
        self.anchors = max(anchors_per_pass // rows_per_pass, 1)

    def blocks(self, prompt: Sequence[int], output: Sequence[int]) -> Blocks:
        """The blocks at every anchor of ``output``, which the target gave to ``prompt``."""
        [blocks] = self.batch([prompt], [output])
        return blocks

    @torch.no_grad()
    def batch(
        self,
        prompts: Sequence[Sequence[int]],
        outputs: Sequence[Sequence[int]],
        on_done: Callable[[int], None] = lambda count: None,
    ) -> list[Blocks]:
        """``blocks`` of every (prompt, output), several side by side.

        ``on_done`` is told how many more are done.
        """
        # alike lengths side by side: little padding
        order = sorted(range(len(outputs)), key=lambda i: (len(outputs[i]), len(prompts[i]), i))
        found: dict[int, Blocks] = {}
        for first in range(0, len(order), self.rows):
            chosen = order[first : first + self.rows]
            group = [(prompts[i], outputs[i]) for i in chosen]
            found.update(zip(chosen, self._group(group), strict=True))
            on_done(len(chosen))
        return [found[i] for i in range(len(outputs))]

    def _group(self, group) -> list[Blocks]:
        """Blocks of outputs that share their passes."""
        gamma, device = self.drafter.config.block_size, self.target.device
        counts = [max(len(output) - 1, 0) for _, output in group]
        most = max(counts)
        asked = np.array([len(prompt) for prompt, _ in group])
        flat = np.zeros((len(group), max(len(p) + len(y) for p, y in group)), np.int64)
        for row, (prompt, output) in enumerate(group):
            flat[row, : len(prompt) + len(output)] = [*prompt, *output]
        tokens = torch.from_numpy(flat).to(device)
        last = torch.tensor([len(p) + len(y) - 1 for p, y in group], device=device)
        walk = _Walk(self, tokens, last, (len(group), most, gamma))
        if most:
            out = self.target.whole(tokens, collect=self.drafter.config.target_layer_ids)
            first = torch.from_numpy(asked).to(device)[:, None]
            for begin in range(0, most, self.anchors):
                ahead = torch.arange(begin, min(begin + self.anchors, most), device=device)
                # a shorter output's rows repeat its last token; they are cut off below
                anchors = torch.minimum(first + ahead, last[:, None])
                states = self.drafter.block_states(tokens, out.features, anchors)
                walk.fill(begin, anchors, states, out.hidden)
        arrays = [part.cpu().numpy() for part in walk.parts]
        return [Blocks(*(part[row, :count] for part in arrays)) for row, count in enumerate(counts)]


class _Walk:
    """Fills blocks position by position; nothing waits for the device."""

    def __init__(self, recorder: Recorder, tokens: Tensor, last: Tensor, shape: tuple):
        """tokens: [B, S], ``last``: [B] position of each output's end; shape: (B, anchors, γ)."""
        self.target, self.drafter = recorder.target, recorder.drafter
        self.choices, self.temperature = recorder.choices, recorder.temperature
        self.tokens, self.last, device = tokens, last, tokens.device
        self.accepted = torch.zeros(shape[:2], dtype=torch.long, device=device)
        self.confidence = torch.zeros(shape, device=device)
        self.judged = torch.zeros(shape, dtype=torch.bool, device=device)
        self.overlap = torch.full(shape, float("nan"), dtype=torch.float64, device=device)

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """The fields of ``Blocks``, padded."""
        return self.accepted, self.confidence, self.judged, self.overlap

    def fill(self, begin: int, anchors: Tensor, states: Tensor, hidden: Tensor) -> None:
        """Blocks ``begin`` onwards: anchors [B, A], states [B, A, γ, ·], hidden [B, S, ·]."""
        rows, count = anchors.shape
        row = torch.arange(rows, device=anchors.device).repeat_interleave(count)
        here, end = anchors.flatten(), self.last.repeat_interleave(count)
        states = states.flatten(0, 1)
        into = slice(begin, begin + count)
        previous, state = self.tokens[row, here], self.drafter.start(states[:, 0])
        on_path = here < end  # an output's last token is no anchor
        accepted = torch.zeros_like(here)
        for k in range(states.shape[1]):
            logits, confidence, state = self.drafter.step(previous, states[:, k], state)
            p_d = probabilities(logits, self.temperature)
            # past the end nothing is known of the output: the block follows the drafter
            judged = on_path & (here + k + 1 <= end)
            y = self.tokens[row, torch.minimum(here + k + 1, end)]
            p_t = self._wanted(hidden[row, torch.minimum(here + k, end)], y)
            chance = p_d.gather(1, y[:, None])[:, 0] / p_t.gather(1, y[:, None])[:, 0]
            on_path = judged & self.choices.accept(torch.where(judged, chance.clamp(max=1), 0.0))
            other = torch.where(judged[:, None], residual(p_d, p_t), p_d)
            previous = torch.where(on_path, y, self.choices.draw(other))
            if confidence is None:
                c = chosen_chance(logits, previous, self.temperature)
            else:
                c = confidence.sigmoid()
            overlap = torch.minimum(p_d, p_t).sum(dim=1).double()
            accepted += on_path
            self.confidence[:, into, k] = c.float().view(rows, count)
            self.judged[:, into, k] = judged.view(rows, count)
            self.overlap[:, into, k] = overlap.where(judged, float("nan")).view(rows, count)
        self.accepted[:, into] = accepted.view(rows, count)

    def _wanted(self, hidden: Tensor, y: Tensor) -> Tensor:
        """p_t [A, V] that ``y`` [A] was drawn from."""
        if self.temperature == 0:
            # the output is the argmax by definition, also where rounding made a tie
            return F.one_hot(y, self.target.config.vocabulary).to(torch.float32)
        return probabilities(self.target.logits(hidden), self.temperature)
