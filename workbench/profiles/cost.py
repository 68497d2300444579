"""What a step costs: the truth that the simulator charges.

Step time = verify(B padded to the next captured size; past the last one the eager curve)
          + attention(R, mean context, query tokens per request)
          + Σ prefill(chunk, context before it) + draft(R, drafted tokens, mean context) + host.

``docs/cost-model.md`` states every rule with a worked example. All of it is pure: the same
arguments give the same seconds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from workbench.profiles.interpolate import ByToken, Curve, Stack, Table
from workbench.profiles.packed import PackedCost, span
from workbench.profiles.profile import Attention, AttentionTable, Host, Profile

_PARTS = ("attention", "prefill", "draft", "host", "graphs")
_NOTHING = np.empty(0)


class StepParts(NamedTuple):
    """The seconds of one step by cause."""

    verify: float
    attention: float
    prefill: float
    draft: float
    host: float

    @property
    def total(self) -> float:
        """Seconds of the step."""
        return self.verify + self.attention + self.prefill + self.draft + self.host


class StepCost:
    """Step times of one profile, by measured tables. Absent parts cost nothing.

    Attributes: profile; gpus; missing (names of the absent parts); last_captured (the largest
    captured batch size, None without graphs); kv_capacity_tokens (None if unknown) and
    kv_block_tokens; admission_lag_steps.
    """

    def __init__(self, profile: Profile):
        self.profile = profile
        self.gpus = profile.hardware.gpus
        self.missing = [part for part in _PARTS if getattr(profile, part) is None]
        graphs, host, cache = profile.graphs, profile.host, profile.kv_cache
        self._captured = graphs.batch_tokens if graphs else []
        self.last_captured = self._captured[-1] if self._captured else None
        self.kv_capacity_tokens = cache.capacity_tokens if cache else None
        self.kv_block_tokens = cache.block_tokens if cache else 16
        self.admission_lag_steps = host.admission_lag_steps if host else 0

        self._verify_prefill = profile.verify.prefill_token_seconds
        self._verify = Curve(profile.verify.batch_tokens, profile.verify.seconds)
        beyond = graphs.beyond if graphs else None
        self._beyond = Curve(beyond.batch_tokens, beyond.seconds) if beyond else None
        self._by_token = ByToken(self._verify_array)
        mixed = profile.mixed
        self._mixed = (
            Table(mixed.prefill_tokens, mixed.batch_tokens, mixed.seconds) if mixed else None
        )
        self._read_attention(profile.attention)
        prefill = profile.prefill
        self._prefill = (
            Table(prefill.chunk_tokens, prefill.context_tokens, prefill.seconds)
            if prefill
            else None
        )
        self._read_draft(profile)
        power = profile.power
        self._watts = Curve(power.batch_tokens, power.watts) if power else None

    def _read_attention(self, attention: Attention | None) -> None:
        def table(part: AttentionTable) -> Stack:
            queries, tables = zip(*part.slices(), strict=True)
            return Stack(queries, part.requests, part.context_tokens, tables)

        mixed = attention.mixed if attention else None
        self._attention = table(attention) if attention else None
        self._attention_mixed = table(mixed) if isinstance(mixed, AttentionTable) else None
        self._mixed_factor = 1.0 if mixed is None or self._attention_mixed else float(mixed)

    def _read_draft(self, profile: Profile) -> None:
        draft, graphs = profile.draft, profile.graphs
        self._draft = None
        if draft:
            contexts, tables = zip(*draft.slices(), strict=True)
            self._draft = Stack(contexts, draft.requests, draft.tokens, tables)
        self._draft_contexts = (draft.context_tokens if draft else None) or []
        self._draft_captured = (graphs.requests if graphs else None) or []
        self._per_prefill_token = draft.per_prefill_token_seconds if draft else 0.0
        layers = draft.context_layers if draft else 0
        self._context_share = layers / profile.target.layers if layers else 0.0
        reference = draft.reference_context if draft else None
        self._draft_context = profile.verify.reference_context if reference is None else reference

    # The forward pass ----------------------------------------------------------------------------

    def padded(self, batch_tokens):
        """Batch tokens after padding to the next captured size, an int or an integer array.

        Unchanged past the last captured size and without graphs.
        """
        if isinstance(batch_tokens, np.ndarray):
            if not self._captured:
                return batch_tokens
            sizes = np.array(self._captured)
            i = np.searchsorted(sizes, batch_tokens)
            return np.where(
                batch_tokens > sizes[-1], batch_tokens, sizes[np.minimum(i, len(sizes) - 1)]
            )
        return _next(self._captured, int(batch_tokens))

    def verify_seconds(self, batch_tokens, prefill_tokens: int = 0):
        """Seconds of the target's forward pass over B batch tokens, an int or an integer array.

        B has its prefill tokens in. No tokens cost nothing. ``prefill_tokens`` matters only to
        profiles with ``verify.prefill_token_seconds``, which are added, or with a ``mixed`` table,
        which then replaces both.
        """
        if isinstance(batch_tokens, np.ndarray):
            if self._mixed is not None and prefill_tokens:
                return self._mixed.values(prefill_tokens, self.padded(batch_tokens))
            return self.beside_prefill(self._verify_array(batch_tokens), prefill_tokens)
        batch_tokens = int(batch_tokens)
        if batch_tokens <= 0:
            return 0.0
        if self._mixed is not None and prefill_tokens:
            return self._mixed.at(prefill_tokens, self.padded(batch_tokens))
        if self._beyond is not None and batch_tokens > self.last_captured:
            seconds = self._beyond.at(batch_tokens)
        else:
            seconds = self._verify.at(self.padded(batch_tokens))
        return float(self.beside_prefill(seconds, prefill_tokens))

    def beside_prefill(self, seconds, prefill_tokens: int):
        """Seconds of verify by batch tokens, with what the step's prefill tokens add or save."""
        if not prefill_tokens or not self._verify_prefill:
            return seconds
        return np.maximum(0.0, seconds + self._verify_prefill * prefill_tokens)

    def _verify_array(self, batch_tokens: np.ndarray) -> np.ndarray:
        seconds = self._verify.values(self.padded(batch_tokens))
        if self._beyond is not None:
            past = batch_tokens > self.last_captured
            seconds = np.where(past, self._beyond.values(batch_tokens), seconds)
        return np.where(batch_tokens > 0, seconds, 0.0)

    def verify_table(self, n: int) -> np.ndarray:
        """``verify_seconds`` of 0..n batch tokens, float64 [n + 1], cached; a read-only view."""
        return self._by_token.upto(n)

    def verify_span(self, first: int, more: int, prefill_tokens: int = 0) -> np.ndarray:
        """``verify_seconds`` of first..first + more batch tokens, float64 [more + 1]."""
        if self._mixed is not None and prefill_tokens:
            return self.verify_seconds(np.arange(first, first + more + 1), prefill_tokens)
        return self.beside_prefill(self._by_token.upto(first + more)[first:], prefill_tokens)

    # The other parts -----------------------------------------------------------------------------

    def attention_seconds(
        self,
        requests: int,
        mean_context: float,
        prefill_tokens: int = 0,
        queries: float = 1.0,
    ) -> float:
        """Attention of R decoding requests above ``verify.reference_context``, in seconds.

        mean_context: tokens per request; queries: query tokens per request (anchor and verified
        drafts). Beside prefill the profile's ``attention.mixed`` holds.
        """
        if self._attention is None or requests <= 0:
            return 0.0
        stack, factor = self._attention, 1.0
        if prefill_tokens:
            stack = self._attention_mixed or stack
            factor = self._mixed_factor
        return stack.at(queries, requests, mean_context) * factor

    def prefill_seconds(
        self, chunk_tokens: Sequence[int] | np.ndarray, context_tokens: Sequence[int] | np.ndarray
    ) -> float:
        """Attention of prefill chunks [P] over the context before each [P], summed, in seconds."""
        if self._prefill is None:
            return 0.0
        seconds = 0.0  # added one by one: compiled callers do the same, to the bit
        for chunk, context in zip(chunk_tokens, context_tokens, strict=True):
            if chunk > 0:
                seconds += self._prefill.at(chunk, context)
        return seconds

    def draft_seconds(self, requests: int, tokens: int, mean_context: float | None = None) -> float:
        """The draft pass of R requests that draft ``tokens`` each, in seconds; 0 if nothing is.

        mean_context: tokens per request; None: the (first) context at which it was measured.
        """
        if self._draft is None or requests <= 0 or tokens <= 0:
            return 0.0
        context = mean_context
        if context is None:
            context = self._draft_contexts[0] if self._draft_contexts else 0.0
        seconds = self._draft.at(context, _next(self._draft_captured, requests), tokens)
        if not self._context_share or mean_context is None or self._attention is None:
            return seconds
        attention = self._attention.at
        more = attention(1.0, requests, mean_context)
        more -= attention(1.0, requests, self._draft_context)
        return max(0.0, seconds + self._context_share * more)

    def draft_prefill_seconds(self, prefill_tokens: int) -> float:
        """What prefill tokens cost the drafter (keys and values of its own), in seconds."""
        return self._per_prefill_token * prefill_tokens

    def span(
        self,
        verify: np.ndarray,
        requests: int,
        prefill_tokens: int,
        mean_context: float,
        draft_tokens: int,
        sync: bool,
        other: float,
    ) -> np.ndarray:
        """Seconds of a step with 0..n − 1 drafts verified, float64 [n]; see ``step_parts``.

        verify [n]: seconds of the forward pass; other: attention of the prefill chunks.
        """
        stack, factor = self._attention, 1.0
        if prefill_tokens:
            stack = self._attention_mixed or stack
            factor = self._mixed_factor
        priced = stack is not None and requests > 0
        feeding = self.draft_prefill_seconds(prefill_tokens) if draft_tokens > 0 else 0.0
        return span(
            stack.packed() if priced else _NOTHING,
            verify,
            factor,
            requests,
            float(mean_context),
            float(self.draft_seconds(requests, draft_tokens, mean_context)),
            float(feeding),
            float(self.host_seconds(sync, requests)),
            float(other),
        )

    def host_seconds(self, sync: bool, requests: int = 0, new_requests: int = 0) -> float:
        """Host time of a step that the GPU waits for.

        sync: the scheduler needs this step's confidences on the host before verification.
        requests: R, decoding in the step; new_requests: admitted in it.
        """
        host = self.profile.host
        if host is None:
            return 0.0
        seconds = host.sync_seconds if sync else host.async_seconds
        seconds += host.per_request_seconds * requests
        return seconds + host.per_new_request_seconds * new_requests

    def step_parts(
        self,
        *,
        requests: int,
        batch_tokens: int,
        mean_context: float = 0.0,
        chunk_tokens: Sequence[int] = (),
        context_tokens: Sequence[int] = (),
        draft_tokens: int = 0,
        sync: bool = False,
        new_requests: int = 0,
        drafter: bool | None = None,
    ) -> StepParts:
        """The seconds of one step, by part.

        requests: R, decoding; batch_tokens: B = Σ(1 + ℓ) + Σ chunk_tokens; mean_context: of the R;
        chunk_tokens, context_tokens [P]: prefill chunks and what precedes each; draft_tokens:
        drafted per request; drafter: whether prefill feeds a drafter (None: if draft_tokens > 0).
        """
        prefill_tokens = int(sum(chunk_tokens))
        queries = (batch_tokens - prefill_tokens) / requests if requests else 0.0
        draft = self.draft_seconds(requests, draft_tokens, mean_context)
        if draft_tokens > 0 if drafter is None else drafter:
            draft += self.draft_prefill_seconds(prefill_tokens)
        return StepParts(
            verify=self.verify_seconds(batch_tokens, prefill_tokens),
            attention=self.attention_seconds(requests, mean_context, prefill_tokens, queries),
            prefill=self.prefill_seconds(chunk_tokens, context_tokens),
            draft=draft,
            host=self.host_seconds(sync, requests, new_requests),
        )

    def step_seconds(self, **step) -> float:
        """``step_parts(...).total``: the seconds of one step."""
        return self.step_parts(**step).total

    # For compiled callers ------------------------------------------------------------------------

    def packed(self, requests: int, drafts: int) -> PackedCost:
        """All parts as arrays, for up to ``requests`` that draft up to ``drafts`` tokens."""
        host = self.profile.host or Host()

        def table(part: Table | Stack | None) -> np.ndarray:
            return np.empty(0) if part is None else part.packed()

        contexts = self._draft_contexts if len(self._draft_contexts) > 1 else []
        draft = np.zeros((len(contexts) or 1, drafts + 1, requests + 1))
        for i, context in enumerate(contexts or [None]):
            for tokens in range(1, drafts + 1):
                draft[i, tokens] = [
                    self.draft_seconds(count, tokens, context) for count in range(requests + 1)
                ]
        share = 0.0 if self._attention is None else self._context_share
        return PackedCost(
            attention=table(self._attention),
            attention_mixed=table(self._attention_mixed),
            mixed=table(self._mixed),
            prefill=table(self._prefill),
            draft=draft,
            draft_contexts=np.array(contexts, np.float64),
            rates=np.array(
                [
                    host.async_seconds,
                    host.sync_seconds,
                    host.per_request_seconds,
                    host.per_new_request_seconds,
                    self._per_prefill_token,
                    self._mixed_factor,
                    share,
                    self._draft_context,
                    self._verify_prefill,
                ]
            ),
        )

    # Room and power ------------------------------------------------------------------------------

    def watts(self, batch_tokens: int) -> float | None:
        """Watts of one GPU at B batch tokens, never above its limit; None if not measured."""
        if self._watts is None:
            return None
        watts, limit = self._watts.at(batch_tokens), self.profile.hardware.power_limit_w
        return watts if limit is None else min(watts, limit)


def _next(sizes: Sequence[int], size: int) -> int:
    i = bisect_left(sizes, size)
    return sizes[i] if i < len(sizes) else size
