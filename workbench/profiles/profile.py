"""The structs of ``workbench.profile/1``: what one engine step costs on one machine.

Seconds everywhere, axes in tokens or requests. Only ``format``, ``name`` and ``verify`` are
required. ``profiles/README.md`` describes every field for those who write a profile by hand.
"""

from __future__ import annotations

from typing import Any

import msgspec

FORMAT = "workbench.profile/1"


class Hardware(msgspec.Struct, kw_only=True):
    """The machine. ``gpus``: how many share the step (tensor parallel); tok/s/GPU divides by it."""

    gpu: str | None = None
    gpus: int = 1
    driver: str | None = None
    sm_clock_mhz: float | None = None
    power_limit_w: float | None = None  # of one GPU


class Engine(msgspec.Struct, kw_only=True):
    """What was measured: an engine, or the probe's own forward pass."""

    name: str | None = None
    version: str | None = None
    dtype: str | None = None


class Target(msgspec.Struct, kw_only=True):
    """The served model; ``layers`` is needed where ``draft.context_layers`` is given."""

    name: str | None = None
    layers: int | None = None
    hidden: int | None = None


class Drafter(msgspec.Struct, kw_only=True):
    """The drafter: kind (dspark, dflash, eagle3, mtp, …), γ and its dimensions."""

    kind: str | None = None
    block_size: int | None = None
    layers: int | None = None
    markov_rank: int | None = None


class Verify(msgspec.Struct, kw_only=True):
    """The target's forward pass by batch tokens, at ``reference_context`` tokens per request.

    ``prefill_token_seconds`` is added for each prefill token of a step. It is below 0 where
    ``seconds`` compute the logits of every token: of a prompt only the last token needs them.
    """

    batch_tokens: list[int]
    seconds: list[float]
    reference_context: int = 0
    prefill_token_seconds: float = 0.0


class AttentionTable(msgspec.Struct, kw_only=True):
    """Seconds above the reference context, [requests][context_tokens].

    With ``query_tokens``, tokens per decoding request (anchor and verified drafts), ``seconds`` are
    [query_tokens][requests][context_tokens].
    """

    requests: list[int]
    context_tokens: list[int]
    seconds: list[list[Any]]
    query_tokens: list[int] | None = None

    def slices(self) -> list[tuple[int | None, list[list[float]]]]:
        """The tables [requests][context_tokens], each with its query tokens (None: no axis)."""
        if self.query_tokens is None:
            return [(None, self.seconds)]
        return list(zip(self.query_tokens, self.seconds, strict=True))


class Attention(AttentionTable, kw_only=True):
    """``mixed``: of decodes beside a prefill chunk, a factor on the table or a table of its own."""

    mixed: float | AttentionTable | None = None


class Prefill(msgspec.Struct, kw_only=True):
    """Attention of a chunk over the context before it, [chunk_tokens][context_tokens]."""

    chunk_tokens: list[int]
    context_tokens: list[int]
    seconds: list[list[float]]


class Draft(msgspec.Struct, kw_only=True):
    """The draft pass, [requests][tokens]; one column: the whole block costs the same.

    With ``context_tokens``, mean context per request, ``seconds`` are
    [context_tokens][requests][tokens]. Without, ``context_layers`` layers of the drafter attend to
    the whole context, as the target's do, and ``seconds`` were measured at ``reference_context``
    (default: that of ``verify``).
    """

    requests: list[int]
    tokens: list[int]
    seconds: list[list[Any]]
    context_tokens: list[int] | None = None
    per_prefill_token_seconds: float = 0.0
    context_layers: int = 0
    reference_context: int | None = None

    def slices(self) -> list[tuple[int | None, list[list[float]]]]:
        """The tables [requests][tokens], each with its context (None: no axis)."""
        if self.context_tokens is None:
            return [(None, self.seconds)]
        return list(zip(self.context_tokens, self.seconds, strict=True))


class Host(msgspec.Struct, kw_only=True):
    """Host time that the GPU waits for in each step, and the engine's admission lag in steps."""

    sync_seconds: float = 0.0
    async_seconds: float = 0.0
    per_request_seconds: float = 0.0
    per_new_request_seconds: float = 0.0
    admission_lag_steps: int = 0


class Beyond(msgspec.Struct, kw_only=True):
    """The eager curve past the last captured size."""

    batch_tokens: list[int]
    seconds: list[float]


class Graphs(msgspec.Struct, kw_only=True):
    """Captured CUDA graphs: batch tokens of the target's, requests of the draft pass's."""

    batch_tokens: list[int]
    beyond: Beyond | None = None
    requests: list[int] | None = None


class Mixed(msgspec.Struct, kw_only=True):
    """Forward pass of steps with prefill, [prefill_tokens][batch_tokens]; replaces ``verify``."""

    prefill_tokens: list[int]
    batch_tokens: list[int]
    seconds: list[list[float]]


class KVCache(msgspec.Struct, kw_only=True):
    """Room for keys and values, over all GPUs of the replica."""

    capacity_tokens: int
    block_tokens: int = 16
    bytes_per_token: int | None = None


class Power(msgspec.Struct, kw_only=True):
    """Watts of one GPU by batch tokens."""

    batch_tokens: list[int]
    watts: list[float]


class FitError(msgspec.Struct, kw_only=True):
    """Relative error of the step-time formula against steps measured whole."""

    median: float | None = None
    max: float | None = None


class Measured(msgspec.Struct, kw_only=True):
    """How well it was measured. ``spread``: relative, one per verify point if it is a list.

    complete: False where a probe was interrupted and parts are missing.
    """

    repeats: int | None = None
    complete: Any = None
    spread: Any = None
    fit_error: FitError | None = None


class Profile(msgspec.Struct, kw_only=True):
    """A profile. ``document`` is the file as read, with the fields that have no place here."""

    format: str
    name: str
    verify: Verify
    hardware: Hardware = msgspec.field(default_factory=Hardware)
    engine: Engine = msgspec.field(default_factory=Engine)
    target: Target = msgspec.field(default_factory=Target)
    drafter: Drafter | None = None
    attention: Attention | None = None
    prefill: Prefill | None = None
    draft: Draft | None = None
    host: Host | None = None
    graphs: Graphs | None = None
    mixed: Mixed | None = None
    kv_cache: KVCache | None = None
    power: Power | None = None
    measured: Measured | None = None
    document: dict[str, Any] = msgspec.field(default_factory=dict)
