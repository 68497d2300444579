"""Which attention kernel, with which settings, a batch gets: by tile rows and kind of batch."""

from __future__ import annotations

from typing import NamedTuple

FEW_REQUESTS = 8
SHORT_TOKENS = 384
LEAST_ROWS = 16  # of a tile: the smallest matrix product of a tensor core


class Setting(NamedTuple):
    """A kernel (``balanced`` or ``spans``), keys per pass, warps, pipeline stages.

    programs: per multiprocessor, of the balanced kernel; the other one splits by itself.
    """

    kernel: str
    keys: int
    warps: int
    stages: int
    programs: int = 0


# the first of a list stands where nothing was chosen; the order is that of promise
CANDIDATES = {
    16: (
        Setting("balanced", 64, 4, 2, 4),
        Setting("balanced", 32, 1, 3, 8),
        Setting("balanced", 64, 2, 2, 4),
        Setting("spans", 64, 2, 4),
        Setting("balanced", 128, 4, 3, 2),
    ),
    32: (
        Setting("balanced", 64, 2, 2, 4),
        Setting("balanced", 64, 4, 2, 2),
        Setting("balanced", 128, 4, 3, 2),
        Setting("balanced", 64, 2, 3, 4),
        Setting("spans", 64, 2, 4),
    ),
    64: (
        Setting("balanced", 64, 4, 3, 2),
        Setting("balanced", 64, 4, 2, 2),
        Setting("balanced", 64, 8, 2, 2),
        Setting("balanced", 32, 4, 3, 4),
        Setting("spans", 64, 4, 3),
    ),
}


def candidates(rows: int) -> tuple[Setting, ...]:
    """Settings worth trying for a tile of so many rows, the default first."""
    return CANDIDATES[next((size for size in CANDIDATES if size >= rows), max(CANDIDATES))]


def tile_rows(queries: int, group: int) -> int:
    """Rows of the tile that holds ``group`` heads of ``queries`` tokens: a power of two."""
    return max(LEAST_ROWS, 1 << (queries * group - 1).bit_length())


def bucket(rows: int, requests: int, length: float) -> str:
    """The kind of batch that shares a setting: tile rows, and few, short or long requests."""
    kind = "short" if length < SHORT_TOKENS else "long"
    return f"{rows} rows, {'few' if requests <= FEW_REQUESTS else kind}"
