"""What a trace is in memory: a typed header and flat arrays, one row per recorded draft block."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np

FORMAT = "workbench.trace/1"


class HeaderFields(msgspec.Struct, frozen=True, kw_only=True):
    """The header fields that the workbench knows; ``format``, ``coverage``, ``block_size`` must be.

    A header without ``temperature`` counts as 1.0, under which the fewest schedulers are lossless.
    """

    format: Literal["workbench.trace/1"]
    coverage: Literal["dense", "rounds"]
    block_size: Annotated[int, msgspec.Meta(ge=1, le=65535)]  # γ
    target: str = ""
    drafter: str = ""
    temperature: Annotated[float, msgspec.Meta(ge=0)] = 1.0
    domain: str = ""  # of requests that name none
    confidence: str = ""  # "raw", or how the confidences were calibrated
    confidence_sees: Literal["prefix", "token"] = "prefix"
    source: str = ""  # how the trace was recorded


class Header(HeaderFields, frozen=True, kw_only=True):
    """Line 1 of a trace file; ``unknown`` keeps the fields that this version does not know."""

    unknown: dict[str, object] = msgspec.field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """N requests and their A recorded draft blocks ("rows"), as flat read-only arrays.

    Request r owns rows ``row_start[r]:row_start[r + 1]``. With coverage ``dense`` row i of a
    request is the block drafted at anchor i (output token i, 0-based), i = 0..output_tokens − 2;
    with ``rounds`` it is the request's i-th decode round, and ``verified`` is present.
    """

    name: str  # as the user named it
    path: Path
    header: Header
    ids: list[str]
    domain_names: tuple[str, ...]
    domain: np.ndarray  # int16 [N], index into domain_names
    prompt_tokens: np.ndarray  # int32 [N]
    output_tokens: np.ndarray  # int32 [N], the one that prefill produces included
    arrival_s: np.ndarray  # float64 [N], NaN where absent
    session: list[str | None] | None  # prefix-cache key; None when no request has one
    cached_prompt_tokens: np.ndarray  # int32 [N], 0 where absent
    row_start: np.ndarray  # int64 [N + 1]
    accepted: np.ndarray  # uint8 (uint16 if γ > 255) [A], accepted drafts of the row, 0..γ
    confidence: np.ndarray | None  # float32 [A, γ], conditional c_k; None where not recorded
    verified: np.ndarray | None  # like accepted; verified drafts of the row (coverage rounds)
    extra: list[bytes]  # [N] fields not named here, as raw JSON members; b"" where none

    @property
    def block_size(self) -> int:
        """γ, draft tokens per block."""
        return self.header.block_size

    @property
    def requests(self) -> int:
        """N, the number of requests."""
        return len(self.ids)

    @property
    def rows(self) -> int:
        """A, the number of recorded draft blocks of all requests."""
        return len(self.accepted)

    def row_request(self) -> np.ndarray:
        """Request of each row, int64 [A]."""
        return np.repeat(np.arange(self.requests), np.diff(self.row_start))

    def row_anchor(self) -> np.ndarray:
        """Anchor of each row within its request's output (0-based), int64 [A].

        Dense: the row's number. Rounds: the tokens that the request's earlier rows emitted.
        """
        first = np.repeat(self.row_start[:-1], np.diff(self.row_start))
        if self.header.coverage == "dense":
            return np.arange(self.rows) - first
        emitted = np.concatenate([[0], np.cumsum(self.accepted.astype(np.int64) + 1)])
        return emitted[:-1] - emitted[first]
