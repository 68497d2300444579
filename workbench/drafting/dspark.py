"""DSpark (arXiv 2607.05147): the DFlash backbone, a light sequential block, a confidence head.

p_k(v) ∝ exp(U_k(v) + B_k(x_<k, v)), left to right. Parameter names are DeepSpec's.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from workbench.drafting.config import DrafterConfig
from workbench.drafting.dflash import Backbone
from workbench.drafting.layers import initialise
from workbench.drafting.target import Target


class MarkovHead(nn.Module):
    """B_k = W1[x_{k−1}] W2, of rank r."""

    def __init__(self, config: DrafterConfig):
        super().__init__()
        self.rank = config.markov_rank
        self.markov_w1 = nn.Embedding(config.vocabulary, self.rank)
        self.markov_w2 = nn.Linear(self.rank, config.vocabulary, bias=False)

    def start(self, hidden: Tensor) -> Tensor:
        """s_0 = 0 for blocks of states [..., hidden]; the Markov head never changes it."""
        return hidden.new_zeros(*hidden.shape[:-1], self.rank)

    def step(self, previous: Tensor, hidden: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """What W2 makes the bias of [..., r], and s_k, from x_{k−1} [...], h_k, s_{k−1}."""
        return self.markov_w1(previous), state

    def block(self, previous: Tensor, hidden: Tensor) -> Tensor:
        """``step`` along x_0..x_{γ−1} [..., γ] and h_1..h_γ [..., γ, hidden]: [..., γ, r]."""
        return self.markov_w1(previous)


class RNNHead(MarkovHead):
    """Gated state over the drafted prefix.

    z_k = [s_{k−1}; W1[x_{k−1}]; h_k]; s_k = σ(W_g z)⊙s_{k−1} + (1−σ(W_g z))⊙tanh(W_c z);
    B_k = W2ᵀ tanh(W_o z). One projection gives gate, candidate and output.
    """

    def __init__(self, config: DrafterConfig):
        super().__init__(config)
        self.joint_proj = nn.Linear(2 * self.rank + config.hidden, 3 * self.rank)

    def step(self, previous: Tensor, hidden: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        z = torch.cat([state, self.markov_w1(previous), hidden], dim=-1)
        gate, candidate, output = self.joint_proj(z).chunk(3, dim=-1)
        gate = gate.sigmoid()
        return output.tanh(), gate * state + (1 - gate) * candidate.tanh()

    def block(self, previous: Tensor, hidden: Tensor) -> Tensor:
        outputs, state = [], self.start(hidden[..., 0, :])
        for k in range(previous.shape[-1]):
            output, state = self.step(previous[..., k], hidden[..., k, :], state)
            outputs.append(output)
        return torch.stack(outputs, dim=-2)


class ConfidenceHead(nn.Module):
    """c_k = σ(wᵀ[h_k; W1[x_{k−1}]] + b); gives the logit."""

    def __init__(self, inputs: int):
        super().__init__()
        self.proj = nn.Linear(inputs, 1)

    def forward(self, features: Tensor) -> Tensor:
        return self.proj(features).squeeze(-1)


class Drafter(Backbone):
    """A DFlash drafter, or DSpark where its configuration has a sequential head.

    Everything that drafts walks a block with ``start`` and ``step``: live decoding along its own
    draws, recording along a fixed output, training along the data.
    """

    def __init__(
        self, config: DrafterConfig, target: Target, generator: torch.Generator | None = None
    ):
        super().__init__(config, target, generator)
        self.markov_head = self.confidence_head = None
        if config.markov_rank:
            head = RNNHead if config.markov_head_type == "rnn" else MarkovHead
            self.markov_head = head(config)
        if config.enable_confidence_head:
            prefix = config.markov_rank if config.confidence_head_with_markov else 0
            self.confidence_head = ConfidenceHead(config.hidden + prefix)
        if generator is not None:
            for part in (self.markov_head, self.confidence_head):
                if part is not None:
                    initialise(part, generator)

    def start(self, hidden: Tensor) -> Tensor | None:
        """The sequential head's first state for blocks whose h_1 is ``hidden`` [..., hidden]."""
        return None if self.markov_head is None else self.markov_head.start(hidden)

    def step(
        self, previous: Tensor, hidden: Tensor, state: Tensor | None
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Draft logits [..., vocabulary] of position k, logit of c_k [...] or None, next state.

        previous: x_{k−1} [...], the anchor for k = 1; hidden: h_k [..., hidden].
        """
        logits = self.logits(hidden)
        if self.markov_head is not None:
            latent, state = self.markov_head.step(previous, hidden, state)
            logits = logits + self.markov_head.markov_w2(latent)
        return logits, self.confidence(previous, hidden), state

    def confidence(self, previous: Tensor, hidden: Tensor) -> Tensor | None:
        """Logit of c_k [...] or None, from x_{k−1} [...] and h_k [..., hidden]."""
        if self.confidence_head is None:
            return None
        if self.config.confidence_head_with_markov:
            hidden = torch.cat([hidden, self.markov_head.markov_w1(previous)], dim=-1)
        return self.confidence_head(hidden)

    def teacher_forced(self, states: Tensor, previous: Tensor) -> tuple[Tensor, Tensor | None]:
        """Logits [..., γ, vocabulary] and confidence logits [..., γ] along given tokens.

        states: h_1..h_γ [..., γ, hidden]; previous: x_0..x_{γ−1} [..., γ]. What ``step`` gives,
        in one go.
        """
        logits = self.logits(states)
        if self.markov_head is not None:
            logits = logits + self.markov_head.markov_w2(self.markov_head.block(previous, states))
        return logits, self.confidence(previous, states)
