"""Which points are measured: the full grid, and a small one for trying things out."""

from __future__ import annotations

from dataclasses import dataclass

# vLLM 0.26.0's capture sizes for 256 requests and drafts (256·8 tokens at most), read from a run
CAPTURE_SIZES = (
    1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 576, 768, 1024, 1152,
    1536, 2048,
)  # fmt: skip
# matrix products work in tiles of 64 or 128 rows: both sides of the edges show the staircase
TILE_EDGES = (
    40, 56, 65, 80, 112, 129, 160, 193, 224, 257, 320, 385, 448, 513, 577, 640, 769, 896, 1025,
    1153, 1280, 1537, 1792,
)  # fmt: skip


@dataclass(frozen=True)
class Grid:
    """Token, request and context counts of every part.

    whole: cells (requests, query tokens each, context) timed as whole steps, to check the sum of
    the tables against. power: batch tokens held for ``power_seconds`` each. settle_seconds: replays
    before every timing, so that the clock is that of a card under this very load.
    """

    captured: tuple[int, ...]
    verify: tuple[int, ...]
    beyond: tuple[int, ...]
    requests: tuple[int, ...]
    contexts: tuple[int, ...]
    chunks: tuple[int, ...]
    prefill_contexts: tuple[int, ...]
    draft_requests: tuple[int, ...]
    draft_contexts: tuple[int, ...]
    host_requests: tuple[int, ...]
    whole: tuple[tuple[int, int, int], ...]
    power: tuple[int, ...]
    power_seconds: float
    settle_seconds: float
    copy_bytes: int
    reference_context: int = 16
    max_requests: int = 256


FULL = Grid(
    captured=CAPTURE_SIZES,
    verify=tuple(sorted(CAPTURE_SIZES + TILE_EDGES)),
    beyond=(2304, 3072, 4096, 8192),
    requests=(1, 8, 32, 64, 128, 256),
    contexts=(512, 1024, 2048, 4096, 8192),
    chunks=(16, 256, 1024, 2048),
    prefill_contexts=(0, 1024, 4096, 16384),
    draft_requests=(1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256),
    draft_contexts=(512, 2048),
    host_requests=(1, 2, 4, 8, 16),
    whole=(
        (1, 1, 1024), (8, 1, 1024), (64, 1, 1024), (256, 1, 1024),
        (8, 1, 8192), (64, 1, 4096), (32, 8, 1024), (256, 8, 1024),
    ),
    power=(1, 8, 64, 256, 512, 1024, 2048),
    power_seconds=1.6,
    settle_seconds=0.25,
    copy_bytes=4 << 30,
)  # fmt: skip

QUICK = Grid(
    captured=(1, 2, 4, 8, 16, 32),
    verify=(1, 2, 4, 8, 16, 17, 32),
    beyond=(48, 64),
    requests=(1, 4),
    contexts=(64, 256),
    chunks=(16, 64),
    prefill_contexts=(0, 64),
    draft_requests=(1, 4),
    draft_contexts=(64, 128),
    host_requests=(1, 4),
    whole=((1, 1, 64), (4, 1, 64), (4, 2, 64)),
    power=(1, 32),
    power_seconds=0.05,
    settle_seconds=0.0,
    copy_bytes=1 << 26,
    max_requests=4,
)
