"""Attention by a library's kernel, or by the one that the card's own measurement chose."""

from __future__ import annotations

import torch

from gpu_probe import attention as spans
from gpu_probe import balanced
from gpu_probe.batch import Batch
from gpu_probe.flash import Flash
from gpu_probe.settings import LEAST_ROWS, Setting, bucket, candidates, tile_rows

_KERNELS = {"balanced": balanced.attention, "spans": spans.attention}


class Attention:
    """``reference.attention`` as kernels; ``chosen``: a setting by ``settings.bucket``.

    library: takes every batch where there is one (``flash.Flash``).

    Several query tokens get the tile of ``most_queries``, so that a batch's time does not jump
    with its longest block (engines capture their graphs for the longest one too).
    """

    def __init__(self):
        self.chosen: dict[str, Setting] = {}
        self.most_queries = 1
        self.library: Flash | None = None

    def __call__(
        self,
        q: torch.Tensor,
        pages: torch.Tensor,
        batch: Batch,
        causal: bool = True,
        out: torch.Tensor | None = None,
    ) -> torch.Tensor:
        if self.library is not None:
            return self.library(q, pages, batch, causal, out)
        group = q.shape[1] // pages.shape[2]
        queries = batch.query_max
        if queries > 1:
            queries = max(queries, self.most_queries)
        rows = tile_rows(queries, group)
        setting = self.chosen.get(bucket(rows, batch.requests, batch.length_mean))
        return apply(setting or candidates(rows)[0], rows, q, pages, batch, causal, out)


def apply(
    setting: Setting,
    rows: int,
    q: torch.Tensor,
    pages: torch.Tensor,
    batch: Batch,
    causal: bool = True,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """One kernel with one setting on tiles of at least ``rows`` rows."""
    kernel = _KERNELS[setting.kernel]
    return kernel(q, pages, batch, causal, out, setting, max(rows, LEAST_ROWS))
