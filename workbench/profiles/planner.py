"""What a scheduler believes a step costs. Truth and belief are separate.

The simulator charges ``StepCost``. A planner asks a ``Belief``: by default the truth for this R,
context and prefill, else a table of its own with its engine's lookup rule. That is how mispriced,
flat or stale tables are studied.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from workbench.profiles.cost import StepCost
from workbench.profiles.interpolate import Curve
from workbench.profiles.lookup import Lookup


class Belief(Protocol):
    """A planner's idea of the step's duration."""

    def step_seconds(
        self,
        requests: int,
        prefill_tokens: int,
        drafts: int,
        *,
        mean_context: float,
        prefill_other: float = 0.0,
        draft_tokens: int,
        sync: bool,
    ) -> np.ndarray:
        """Believed seconds of this step with 0..drafts drafts verified, float64 [drafts + 1].

        requests: R, decoding, one anchor each; prefill_tokens: prompt tokens in the step;
        drafts: the most drafts verified in all; mean_context: tokens per decoding request;
        prefill_other: attention of the step's prefill chunks, seconds; draft_tokens: drafted per
        request; sync: whether the step waits for confidences on the host.
        """


class TruthBelief:
    """The default: what the simulator will charge, but for admissions, which are not known yet."""

    def __init__(self, cost: StepCost):
        self.cost = cost

    def step_seconds(
        self,
        requests: int,
        prefill_tokens: int,
        drafts: int,
        *,
        mean_context: float,
        prefill_other: float = 0.0,
        draft_tokens: int,
        sync: bool,
    ) -> np.ndarray:
        """See ``Belief``."""
        verify = self.cost.verify_span(requests + prefill_tokens, drafts, prefill_tokens)
        return self.cost.span(
            verify, requests, prefill_tokens, mean_context, draft_tokens, sync, prefill_other
        )


@dataclass(slots=True)
class TableBelief:
    """A planner's own table: T = constant + α(R) + θ(B) [+ the other parts of a profile].

    Engines' tables time whole steps, so nothing is added to them, and their keys leave prefill
    out: these engines plan no step that has prefill in it. A profile as table prices its own
    attention, draft pass and host, and counts prefill tokens in B.
    """

    source: str  # file
    kind: str  # which format
    by_batch: Lookup  # θ: seconds by batch tokens
    by_requests: Curve | None = None  # α: seconds by requests
    requests_range: tuple[int, int] = (0, 0)  # α is clamped to it
    constant: float = 0.0  # seconds
    parts: StepCost | None = None  # attention, draft and host of a profile
    minimum_predicted_gain: float = 0.0  # TensorRT-LLM's guard: relative gain in Θ needed to trim
    warnings: list[str] = field(default_factory=list)

    def by_request_count(self, requests: int) -> float:
        """constant + α(R), in seconds."""
        if self.by_requests is None:
            return self.constant
        low, high = self.requests_range
        return self.constant + self.by_requests.at(min(max(requests, low), high))

    def step_seconds(
        self,
        requests: int,
        prefill_tokens: int,
        drafts: int,
        *,
        mean_context: float,
        prefill_other: float = 0.0,
        draft_tokens: int,
        sync: bool,
    ) -> np.ndarray:
        """See ``Belief``."""
        rest = self.by_request_count(requests)
        if self.parts is None:
            return self.by_batch.span(requests, drafts) + rest
        verify = self.by_batch.span(requests + prefill_tokens, drafts)
        return self.parts.span(
            self.parts.beside_prefill(verify, prefill_tokens),
            requests,
            prefill_tokens,
            mean_context,
            draft_tokens,
            sync,
            rest + prefill_other,
        )
