"""Which points are measured: the full grid, a quick one, and a tiny one for a CPU."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from gpu_probe.ladders import VLLM_DRAFTS

# matrix products work in tiles of 64 or 128 rows: both sides of the edges show the staircase
TILE_EDGES = (
    40, 56, 65, 80, 112, 129, 160, 193, 224, 257, 320, 385, 448, 513, 577, 640, 769, 896, 1025,
    1153, 1280, 1537, 1792,
)  # fmt: skip


@dataclass(frozen=True)
class Grid:
    """Token, request and context counts of every part.

    whole: cells (requests, query tokens each, context) timed as whole steps, for the comparison
    with engines. mixed: cells (prefill tokens, all tokens). held_out: how many random rounds are
    predicted. sequential: block sizes at which DSpark's loop is weighed. power: batch tokens held
    for ``power_seconds`` each. verify, beyond, mixed and power are measured at each of
    ``curve_contexts``. Before every timing replays bring the clock to that of a card under
    this very load: settle_seconds at most, and load_seconds before what may reach the power limit,
    whose timing then takes swing_seconds. cached_tokens: room of the page pool in whole steps.
    """

    captured: tuple[int, ...]
    verify: tuple[int, ...]
    beyond: tuple[int, ...]
    requests: tuple[int, ...]
    contexts: tuple[int, ...]
    queries: tuple[int, ...]
    chunks: tuple[int, ...]
    prefill_contexts: tuple[int, ...]
    mixed: tuple[tuple[int, ...], tuple[int, ...]]
    draft_requests: tuple[int, ...]
    draft_contexts: tuple[int, ...]
    host_requests: tuple[int, ...]
    whole: tuple[tuple[int, int, int], ...]
    held_out: int
    sequential: tuple[int, ...]
    power: tuple[int, ...]
    power_seconds: float
    settle_seconds: float
    load_seconds: float
    swing_seconds: float
    copy_bytes: int
    cached_tokens: int
    curve_contexts: tuple[int, int] = (16, 1024)
    max_requests: int = 256

    def limited(
        self,
        captured: tuple[int, ...] | None = None,
        max_tokens: int | None = None,
        contexts: tuple[int, ...] | None = None,
    ) -> Grid:
        """With other capture sizes, no step past ``max_tokens``, other attention contexts."""
        sizes = captured or self.captured
        last = sizes[-1] if max_tokens is None else min(sizes[-1], max_tokens)
        sizes = tuple(size for size in sizes if size <= last)
        edges = (size for size in self.verify if size not in self.captured and size < last)
        top = max_tokens or max(self.beyond)
        past = tuple(n for n in self.beyond if last < n <= top)
        if not past or past[0] > 2 * last:  # else nothing would be known just past the last graph
            past = tuple(sorted({last + last // 8 + 1, last + last // 2 + 1, 2 * last + 1}))
        rows, columns = (tuple(n for n in axis if n <= last) for axis in self.mixed)
        rows = rows or (max(1, last // 2),)
        if not columns or columns[-1] < rows[-1]:
            columns = (*columns, last)
        whole = tuple(cell for cell in self.whole if cell[0] * cell[1] <= last)
        return dataclasses.replace(
            self,
            whole=whole or self.whole[:1],
            captured=sizes,
            verify=tuple(sorted({*sizes, *edges})),
            beyond=past,
            contexts=contexts or self.contexts,
            power=tuple(n for n in self.power if n <= last),
            mixed=(rows, columns),
        )

    @property
    def loop_contexts(self) -> tuple[int, ...]:
        """Contexts over which DSpark's loop is weighed, as far as there are such long ones."""
        longest = max(self.contexts)
        return tuple(c for c in (512, 1024, 2048, 4096) if c <= longest) or (longest,)


FULL = Grid(
    captured=VLLM_DRAFTS,
    verify=tuple(sorted(VLLM_DRAFTS + TILE_EDGES)),
    beyond=(2304, 3072, 4096, 8192),
    requests=(1, 8, 32, 64, 128, 256),
    contexts=(128, 512, 1024, 2048, 4096, 8192),
    queries=(1, 2, 4, 8),
    chunks=(16, 256, 1024, 2048),
    prefill_contexts=(0, 1024, 4096, 16384),
    mixed=((128, 512, 1024), (192, 384, 768, 1024, 1152, 2048)),
    draft_requests=(1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256),
    draft_contexts=(16, 512, 2048),
    host_requests=(1, 16, 128),
    whole=(
        (1, 1, 1024), (8, 1, 1024), (64, 1, 1024), (256, 1, 1024),
        (1, 1, 2048), (8, 1, 2048), (64, 1, 2048), (128, 1, 2048), (256, 1, 2048),
        (8, 1, 8192), (64, 1, 4096), (32, 8, 1024), (256, 8, 1024),
    ),
    held_out=64,
    sequential=(4, 7, 16),
    power=(1, 8, 64, 256, 512, 1024, 2048),
    power_seconds=1.2,
    settle_seconds=0.4,
    load_seconds=1.0,
    swing_seconds=0.3,
    copy_bytes=4 << 30,
    cached_tokens=540_000,
)  # fmt: skip

QUICK = dataclasses.replace(
    FULL,
    verify=VLLM_DRAFTS,
    beyond=(2304, 4096),
    requests=(1, 32, 128, 256),
    contexts=(128, 1024, 2048, 8192),
    queries=(1, 4, 8),
    chunks=(16, 256, 1024),
    prefill_contexts=(0, 4096),
    mixed=((512,), (768, 1024)),
    draft_requests=(1, 8, 32, 64, 128, 256),
    host_requests=(1, 64),
    held_out=12,
    sequential=(),
    power=(1, 64, 512),
    settle_seconds=0.3,
    swing_seconds=0.2,
)

TINY = Grid(
    captured=(1, 2, 4, 8, 16, 32),
    verify=(1, 2, 4, 8, 16, 17, 32),
    beyond=(48, 64),
    requests=(1, 4),
    contexts=(64, 256),
    queries=(1, 2),
    chunks=(16, 64),
    prefill_contexts=(0, 64),
    mixed=((8, 16), (16, 32)),
    draft_requests=(1, 4),
    draft_contexts=(16, 64, 128),
    host_requests=(1, 4),
    whole=((1, 1, 64), (4, 1, 64), (4, 2, 64)),
    held_out=8,
    sequential=(2, 4),
    power=(1, 32),
    power_seconds=0.05,
    settle_seconds=0.0,
    load_seconds=0.0,
    swing_seconds=0.0,
    copy_bytes=1 << 26,
    cached_tokens=4096,
    curve_contexts=(16, 64),
    max_requests=4,
)
