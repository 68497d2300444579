"""The scheduler contract: two questions per decode step, asked with a view of the batch.

Life cycle of a step with R decoding requests and block size γ:

1. ``draft_length(view)`` is asked before drafting: how many tokens to draft, 0..γ.
2. The drafter runs; ``view.confidence`` [R, γ] and the survivals [R, γ] become known.
3. ``verify_lengths(view, survival)`` is asked: how many drafts of each request to verify, ℓ [R].
4. The target verifies; the outcome is recorded and is visible ``lag`` steps later.

A scheduler never sees the outcome of the round it decides about, unless ``reads`` says
``"outcomes"`` (the oracles). The serving simulator and ``workbench audit`` ask the same questions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np

Reads = Literal["nothing", "prefix", "block", "outcomes"]
"""What a decision about draft token k may depend on, of this step and this request's block:

- ``nothing``: no confidence of this step.
- ``prefix``: confidences c_1..c_k of its own block, and of other blocks those of tokens that come
  before it in the order of admission (two requests that read each other's later tokens are each
  unbiased but correlated, which the audit finds).
- ``block``: confidences after position k too.
- ``outcomes``: what verification will accept.
"""


class Past(Protocol):
    """What the engine knows of earlier steps. Rows are aligned to today's requests."""

    def survival(self, lag: int, missing: float = 1.0) -> np.ndarray:
        """Survivals [R, γ] of today's requests ``lag`` ≥ 1 engine steps ago.

        A request that drafted nothing in that step gets ``missing`` in its whole row.
        """

    def verified(self, lag: int) -> np.ndarray:
        """ℓ [R] of today's requests ``lag`` steps ago; −1 where the request had no round."""

    def accepted(self, lag: int) -> np.ndarray:
        """Accepted drafts [R] of today's requests ``lag`` steps ago; −1 where it had no round."""

    def step_seconds(self, lag: int) -> float:
        """Duration of the step ``lag`` steps ago; NaN before the first."""


@dataclass(slots=True)
class Outcomes:
    """What will happen; only schedulers with ``reads == "outcomes"`` get it."""

    accepted: np.ndarray  # [R] drafts that verification accepts, clipped to the request's end
    path: Callable[[], np.ndarray]  # [R] ℓ on a path with the fewest rounds to the request's end


@dataclass(slots=True)
class View:
    """What a scheduler may know when it decides.

    Rows are requests in order of admission; row order is the "request asc" of tie-breaking.
    """

    block_size: int  # γ
    request: np.ndarray  # [R] identity of each row, unique over the run
    context: np.ndarray  # [R] tokens in each request's KV cache, the anchor included
    prefill_tokens: int  # prompt tokens that share the step
    step_seconds: Callable[[int], np.ndarray]
    """step_seconds(n) -> [n + 1]: believed seconds of this step when 0..n drafts are verified."""
    past: Past
    confidence: np.ndarray | None = None  # [R, γ] conditional c_k, calibrated; None before drafting
    draft_length: int = 0  # drafts that were made per request; ℓ may not exceed it
    outcomes: Outcomes | None = None
    age: np.ndarray | None = None  # [R] seconds since each request was issued
    slo: dict = field(default_factory=dict)  # targets in seconds: "ttft", "tpot"

    @property
    def requests(self) -> int:
        """R, the number of decoding requests in the step."""
        return len(self.request)


class Scheduler:
    """Base of all schedulers; subclass it and say what the decision reads.

    The verdict "lossless" and the label "exact replay" are computed from the class attributes, so
    they must be true; ``workbench audit`` checks the first by exact enumeration.
    """

    name: str = ""
    reads: Reads = "block"
    exact_replay: bool = False  # of earlier rounds uses only outcomes and c_1..c_{ℓ+1}
    needs_confidence: bool = True
    synchronous: bool = True  # needs this step's confidences on the host before verification
    uniform: int | None = None  # verifies this many drafts of every request, always: is never asked
    prices: bool = True  # asks what steps cost
    drafter: bool = True  # whether a drafter is loaded at all
    lag: int = 0  # how many steps back its view of the past begins; 0: it looks at none
    new_survival: float = 1.0  # assumed of a request that has no row in the past it looks at
    history: int = 0  # the furthest step back that it looks at, where that is more than ``lag``

    def draft_length(self, view: View) -> int:
        """How many tokens to draft per request, 0..γ. 0 skips the drafter."""
        return view.block_size

    def verify_lengths(self, view: View, survival: np.ndarray) -> np.ndarray:
        """ℓ [R], integers in 0..view.draft_length, from the survivals a [R, γ]."""
        raise NotImplementedError


def lossless(scheduler: Scheduler, confidence_sees: str, temperature: float) -> bool:
    """Verdict of design §5: does the output distribution equal the target's?

    ``confidence_sees`` is ``"prefix"`` or ``"token"``, from the trace's header.
    """
    if temperature == 0 or scheduler.reads == "nothing":
        return True
    return scheduler.reads == "prefix" and confidence_sees == "prefix"
