"""Flex attention over draft blocks sees what the dense mask shows."""

import pytest
import torch

from tests.drafting.samples import seeded, tiny_drafter, tiny_target
from workbench.drafting.block_attention import dense_attention, flex_attention_of_blocks


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("length, blocks, inputs", [(128, 16, 8), (256, 5, 7), (512, 64, 7)])
def test_flex_equals_dense(length, blocks, inputs):
    rng = seeded(0)
    anchors = torch.randint(0, length, (2, blocks), generator=rng).sort(dim=1).values
    anchors[0, 0] = 0  # no context at all
    anchors[1, 4:] = 0  # a short answer: the rest are unreal
    queries, keys = blocks * inputs, length + blocks * inputs
    q = torch.randn(2, 4, queries, 16, generator=rng)
    k, v = torch.randn(2, 2, 2, keys, 16, generator=rng)
    seen = torch.arange(length) < anchors[..., None]
    wanted = dense_attention(seen, inputs)(q, k, v)
    found = flex_attention_of_blocks(anchors, length, inputs)(q, k, v)
    assert found.shape == wanted.shape
    assert torch.allclose(found, wanted, atol=1e-5)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("head", ["dflash-shifted", "markov"])
def test_block_states_are_the_same(head):
    target = tiny_target().float()
    drafter = tiny_drafter(target, head, head_dim=16, hidden=16).float()
    tokens = torch.randint(0, 11, (2, 128), generator=seeded(1))
    anchors = torch.tensor([[3, 50, 90, 127], [0, 1, 2, 0]])
    with torch.no_grad():
        features = target.whole(tokens, collect=(0, 1)).features
        dense = drafter.block_states(tokens, features, anchors)
        flex = drafter.block_states(tokens, features, anchors, flex=True)
    assert torch.allclose(dense, flex, atol=1e-4)
