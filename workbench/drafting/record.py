"""Dense traces: one draft block for every output token, coupled to one fixed output.

The rule of the trace format: walk the block left to right; while the prefix equals the output y,
draft token k is accepted with probability min(1, p_d(y_k)/p_t(y_k)), and then it is y_k; else it is
drawn from max(0, p_d − p_t)/Z and the rest of the block follows the drafter on its own tokens. That
is speculative sampling's maximal coupling given the output, so acceptance is unbiased.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import torch
import torch.nn.functional as F

from workbench.drafting.decode import Decoder, Request, chosen_chance
from workbench.drafting.dspark import Drafter
from workbench.drafting.prompts import Prompt
from workbench.drafting.sampling import Choices, probabilities, residual
from workbench.drafting.target import Target
from workbench.schedulers import create
from workbench.traces import Header, Trace


@dataclass
class Blocks:
    """The draft blocks of one output's anchors 0..n − 2."""

    accepted: np.ndarray  # [n − 1] drafts accepted; none past the output's end
    confidence: np.ndarray  # [n − 1, γ] conditional, along the tokens really drafted
    judged: np.ndarray  # bool [n − 1, γ]: the prefix was accepted and the output goes on
    overlap: np.ndarray  # [n − 1, γ] Σ min(p_d, p_t) where judged: the chance of acceptance


class Recorder:
    """Draws outputs from the target and records a drafter's blocks along them."""

    def __init__(
        self,
        target: Target,
        drafter: Drafter,
        choices: Choices,
        *,
        temperature: float = 1.0,
        max_new_tokens: int = 256,
        anchors_per_pass: int = 256,
    ):
        """``anchors_per_pass`` bounds memory: logits are [anchors, vocabulary]."""
        self.target, self.drafter, self.choices = target, drafter, choices
        self.temperature, self.max_new = temperature, max_new_tokens
        self.anchors = anchors_per_pass

    def outputs(
        self,
        prompts: Sequence[Sequence[int]],
        max_running: int = 64,
        on_finish: Callable[[int, Request], None] = lambda index, request: None,
    ) -> list[list[int]]:
        """One output per prompt, by plain decoding."""
        decoder = Decoder(
            self.target,
            None,
            create("none", 1),
            self.choices,
            temperature=self.temperature,
            max_new_tokens=self.max_new,
            max_running=max_running,
            on_finish=on_finish,
        )
        return [request.tokens for request in decoder.decode(prompts)]

    @torch.no_grad()
    def blocks(self, prompt: Sequence[int], output: Sequence[int]) -> Blocks:
        """The blocks at every anchor of ``output``, which the target gave to ``prompt``."""
        gamma, count = self.drafter.config.block_size, max(len(output) - 1, 0)
        result = Blocks(
            np.zeros(count, int),
            np.zeros((count, gamma), np.float32),
            np.zeros((count, gamma), bool),
            np.full((count, gamma), np.nan),
        )
        if not count:
            return result
        device = self.target.device
        tokens = torch.tensor([[*prompt, *output]], device=device)
        start = torch.zeros(1, dtype=torch.long, device=device)
        cache = self.target.new_cache(1, tokens.shape[1])
        out = self.target(tokens, start, cache, collect=self.drafter.config.target_layer_ids)
        for first in range(0, count, self.anchors):
            rows = torch.arange(first, min(first + self.anchors, count), device=device)
            states = self.drafter.block_states(tokens, out.features, (len(prompt) + rows)[None])[0]
            self._walk(tokens[0], out.hidden[0], len(prompt) + rows, states, rows, result)
        return result

    def _walk(self, tokens, hidden, anchors, states, rows, result: Blocks) -> None:
        """Fill the rows of ``result`` whose anchors lie at positions ``anchors`` of ``tokens``."""
        end = len(tokens) - 1
        previous, state = tokens[anchors], self.drafter.start(states[:, 0])
        on_path = torch.ones_like(anchors, dtype=torch.bool)
        where = rows.cpu().numpy()
        for k in range(states.shape[1]):
            logits, confidence, state = self.drafter.step(previous, states[:, k], state)
            p_d = probabilities(logits, self.temperature)
            # past the end nothing is known of the output: the block follows the drafter
            judged = on_path & (anchors + k + 1 <= end)
            y = tokens[(anchors + k + 1).clamp(max=end)]
            p_t = self._target(hidden[(anchors + k).clamp(max=end)], y)
            chance = p_d.gather(1, y[:, None])[:, 0] / p_t.gather(1, y[:, None])[:, 0]
            on_path = judged & self.choices.accept(torch.where(judged, chance.clamp(max=1), 0.0))
            other = torch.where(judged[:, None], residual(p_d, p_t), p_d)
            drawn = self.choices.draw(other)
            previous = torch.where(on_path, y, drawn)
            if confidence is None:
                c = chosen_chance(logits, previous, self.temperature)
            else:
                c = confidence.sigmoid()
            overlap = torch.minimum(p_d, p_t).sum(dim=1)
            known = judged.cpu().numpy()
            result.confidence[where, k] = c.float().cpu().numpy()
            result.judged[where, k] = known
            result.overlap[where, k] = np.where(known, overlap.double().cpu().numpy(), np.nan)
            result.accepted[where] += on_path.cpu().numpy()

    def _target(self, hidden, y):
        """p_t [A, V] that ``y`` [A] was drawn from."""
        if self.temperature == 0:
            # the output is the argmax by definition, also where rounding made a tie
            return F.one_hot(y, self.target.config.vocabulary).to(torch.float32)
        return probabilities(self.target.logits(hidden), self.temperature)


def make_trace(
    path: Path,
    requests: Sequence[tuple[Prompt, int, Blocks]],
    target: Target,
    drafter: Drafter,
    *,
    temperature: float,
    source: str,
    decimals: int = 3,
) -> Trace:
    """A dense trace of (prompt, its tokens, blocks), confidences rounded to ``decimals``."""
    domains = tuple(
        dict.fromkeys(domain for domain in (prompt.domain for prompt, _, _ in requests))
    ) or ("",)
    config, count = drafter.config, len(requests)
    anchors = [len(blocks.accepted) for _, _, blocks in requests]
    confidence = np.concatenate(
        [np.zeros((0, config.block_size)), *(blocks.confidence for _, _, blocks in requests)]
    )
    accepted = np.concatenate([np.zeros(0, int), *(blocks.accepted for _, _, blocks in requests)])
    return Trace(
        name=path.name,
        path=path,
        header=Header(
            format="workbench.trace/1",
            coverage="dense",
            block_size=config.block_size,
            target=target.config.name,
            drafter=config.kind,
            temperature=temperature,
            domain=domains[0] if len(domains) == 1 else "",
            confidence="raw",
            confidence_sees=config.confidence_sees,
            source=source,
        ),
        ids=[prompt.id for prompt, _, _ in requests],
        domain_names=domains,
        domain=np.array([domains.index(prompt.domain) for prompt, _, _ in requests], np.int16),
        prompt_tokens=np.array([tokens for _, tokens, _ in requests], np.int32),
        output_tokens=np.array([n + 1 for n in anchors], np.int32),
        arrival_s=np.full(count, np.nan),
        session=None,
        cached_prompt_tokens=np.zeros(count, np.int32),
        row_start=np.concatenate([[0], np.cumsum(anchors)]).astype(np.int64),
        accepted=accepted.astype(np.uint8 if config.block_size <= 255 else np.uint16),
        confidence=np.round(confidence, decimals).astype(np.float32),
        verified=None,
        extra=[_benchmark(prompt) for prompt, _, _ in requests],
    )


def _benchmark(prompt: Prompt) -> bytes:
    """The request's field that traces do not know of, as JSON members."""
    return msgspec.json.encode({"benchmark": prompt.benchmark})[1:-1] if prompt.benchmark else b""
