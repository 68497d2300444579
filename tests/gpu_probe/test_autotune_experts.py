"""The choice of the experts' tiles; the kernels run interpreted on a CPU."""

import json
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("triton")

from gpu_probe import autotune_experts, tiles
from gpu_probe.grid import TINY
from gpu_probe.measure import Probe
from gpu_probe.shapes import MODELS
from gpu_probe.tiles import Tile
from tests.support import interpreted

SMALL = (Tile("fused", 16, 16, 16, 2, 2), Tile("fused", 16, 32, 32, 2, 2))


@given(st.integers(1, 50_000), st.integers(1, 256), st.integers(1, 16))
def test_some_tile_is_always_worth_trying(tokens, experts, active):
    active = min(active, experts)
    tried = [t for t in tiles.CANDIDATES if tiles.promising(t, tokens, experts, active)]
    assert any(tile.kernel == "fused" for tile in tried)  # the grouped product needs a new card


def test_a_step_is_like_the_next_larger_size():
    assert [tiles.size(n) for n in (1, 2, 8, 9, 300, 4096, 9000)] == [1, 8, 8, 64, 1024, 4096, 4096]


@interpreted
def test_a_tile_that_works_is_chosen_for_every_size_and_used(monkeypatch):
    broken = Tile("fused", 16, 17, 16, 2, 2)  # no power of two
    monkeypatch.setattr(tiles, "CANDIDATES", (broken, *SMALL))
    probe = Probe(MODELS["tiny-moe"], "cpu", torch.float32, TINY, 3)
    found = json.loads(json.dumps(autotune_experts.expert_tiles(probe, (1, 8))))
    assert [row["tokens"] for row in found["sizes"]] == [1, 8]
    assert all(row["seconds"] > 0 and row["columns"] in (16, 32) for row in found["sizes"])
    kernels = SimpleNamespace(experts=SimpleNamespace())
    autotune_experts.use(kernels, found)
    assert set(kernels.experts.chosen) == {1, 8}
    assert set(kernels.experts.chosen.values()) <= set(SMALL)
