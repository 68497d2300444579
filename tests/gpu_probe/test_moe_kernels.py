"""The experts' kernels, interpreted on the CPU, against the plain reference."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("triton")

from gpu_probe import moe, reference, tiles
from gpu_probe.checks import relative_error
from gpu_probe.tiles import Tile
from tests.support import interpreted

pytestmark = interpreted

TILES = [Tile("fused", *sizes, 2, 2) for sizes in ((16, 16, 16), (16, 64, 32), (32, 32, 64))]


@settings(deadline=None, max_examples=20)
@given(
    tokens=st.integers(1, 70),
    experts=st.integers(2, 9),
    active=st.integers(1, 9),
    hidden=st.sampled_from([16, 40, 64]),
    mlp=st.sampled_from([16, 24]),
    tile=st.sampled_from(TILES),
    noisy=st.booleans(),
    seed=st.integers(0, 99),
)
def test_any_routing_agrees_with_the_reference(
    tokens, experts, active, hidden, mlp, tile, noisy, seed
):
    torch.manual_seed(seed)
    active = min(active, experts)
    x, router = torch.randn(tokens, hidden), torch.randn(experts, hidden)
    gate_up, down = torch.randn(experts, 2 * mlp, hidden), torch.randn(experts, hidden, mlp)
    noise = torch.randn(5, experts) if noisy else None
    got = moe.apply(tile, x, reference.scores(x, router, noise), gate_up, down, active)
    truth = reference.experts(x, router, gate_up, down, active, noise)
    assert relative_error(got, truth) < 1e-5


def test_all_tokens_at_one_expert():
    x, router = torch.rand(50, 16), torch.zeros(4, 16)
    router[2] = 1.0
    gate_up, down = torch.randn(4, 16, 16), torch.randn(4, 16, 8)
    got = moe.apply(TILES[0], x, x @ router.t(), gate_up, down, 1)
    assert relative_error(got, reference.experts(x, router, gate_up, down, 1)) < 1e-5


def test_the_chosen_tile_of_a_steps_tokens_is_used(monkeypatch):
    used = []
    monkeypatch.setattr(moe, "apply", lambda tile, *rest: used.append(tile))
    experts = moe.Experts()
    experts.chosen = {8: TILES[1]}
    for tokens in (5, 9):
        experts(torch.randn(tokens, 4), torch.randn(3, 4), None, None, 2)
    assert used == [TILES[1], tiles.CANDIDATES[0]]
