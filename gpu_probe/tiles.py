"""Which kernel, with which tile, the experts of a step get: by the step's tokens."""

from __future__ import annotations

from typing import NamedTuple


class Tile(NamedTuple):
    """Rows (tokens of an expert), columns and depth of one product, warps, pipeline stages.

    kernel: ``fused`` (Triton) or ``grouped`` (torch's grouped product, which chooses for itself).
    """

    kernel: str
    rows: int = 0
    columns: int = 0
    depth: int = 0
    warps: int = 0
    stages: int = 0


# batch tokens that stand for all up to them; more are like the last
SIZES = (1, 8, 64, 256, 1024, 4096)
# the first stands where nothing was chosen; tiles for few tokens an expert, then for many
CANDIDATES = (
    Tile("fused", 16, 64, 128, 4, 3),
    Tile("grouped"),
    Tile("fused", 16, 32, 256, 4, 3),
    Tile("fused", 16, 32, 128, 4, 4),
    Tile("fused", 64, 64, 64, 4, 4),
    Tile("fused", 32, 64, 128, 4, 3),
    Tile("fused", 64, 128, 64, 8, 4),
    Tile("fused", 128, 64, 64, 8, 4),
    Tile("fused", 128, 128, 64, 8, 3),
)


def size(tokens: int) -> int:
    """The entry of SIZES that stands for a step of so many tokens."""
    return next((n for n in SIZES if n >= tokens), SIZES[-1])


def promising(tile: Tile, tokens: int, experts: int, active: int) -> bool:
    """Whether a tile is worth timing where every expert has about tokens × active ÷ experts rows.

    Not one far higher than an expert has rows, nor a low one that many times over.
    """
    rows = tokens * active / experts
    if tile.kernel == "grouped":
        return rows >= 1
    highest = max(one.rows for one in CANDIDATES)
    return min(rows / 8, highest) <= tile.rows <= max(16.0, 4 * rows)
