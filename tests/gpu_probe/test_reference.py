"""The torch reference against formulas written out in float64."""

import math

import pytest
import torch

from gpu_probe import reference
from gpu_probe.batch import make_batch
from gpu_probe.layer import rope_table
from gpu_probe.shapes import ModelShape

SHAPE = ModelShape("small", 1, 32, heads=4, kv_heads=2, head=8, mlp=16, vocabulary=50)
EPS = SHAPE.norm_eps


@pytest.fixture
def batch(generator):
    return make_batch([1, 3, 2], [5, 0, 40], 12, 50, "cpu", generator)


def pages_of(batch, count=12):
    return torch.randn(count, 2, SHAPE.kv_heads, 16, SHAPE.head, dtype=torch.float64)


def test_rmsnorm_gives_unit_mean_square_times_weight():
    x = torch.randn(5, 32, dtype=torch.float64) * 7
    y = reference.rmsnorm(x, torch.full((32,), 3.0, dtype=torch.float64), 0.0)
    torch.testing.assert_close(y.square().mean(-1), torch.full((5,), 9.0, dtype=torch.float64))


def test_add_rmsnorm_updates_the_residual():
    x, residual = torch.randn(2, 3, 32, dtype=torch.float64)
    total = x + residual
    y = reference.add_rmsnorm(x, residual, torch.ones(32), EPS)
    torch.testing.assert_close(residual, total)
    torch.testing.assert_close(y, reference.rmsnorm(total, torch.ones(32), EPS))


def test_swiglu():
    gate, up = torch.randn(2, 4, 6, dtype=torch.float64)
    truth = gate / (1 + torch.exp(-gate)) * up
    torch.testing.assert_close(reference.swiglu(torch.cat([gate, up], -1)), truth)


@pytest.mark.parametrize("causal", [True, False])
def test_attention_is_softmax_over_the_requests_own_pages(batch, causal):
    pages = pages_of(batch)
    q = torch.randn(6, SHAPE.heads, SHAPE.head, dtype=torch.float64)
    out = reference.attention(q, pages, batch, causal)
    row = 0
    for r, (queries, context) in enumerate([(1, 5), (3, 0), (2, 40)]):
        for i in range(queries):
            seen = context + i + 1 if causal else context + queries
            for head in range(SHAPE.heads):
                at = [(int(batch.table[r, p // 16]), p % 16) for p in range(seen)]
                k = torch.stack([pages[page, 0, head // 2, place] for page, place in at])
                v = torch.stack([pages[page, 1, head // 2, place] for page, place in at])
                weight = torch.softmax(k @ q[row, head] / math.sqrt(SHAPE.head), 0)
                torch.testing.assert_close(out[row, head], weight @ v)
            row += 1


def test_scores_depend_on_the_distance_of_positions_only(generator):
    """RoPE: q at position m against k at position n is a function of m − n."""
    rope = rope_table(SHAPE, 64, "cpu")
    weight = torch.ones(SHAPE.head, dtype=torch.float64)
    qkv = torch.randn(1, SHAPE.qkv, dtype=torch.float64)
    scores = []
    for shift in (0, 9):
        keys = make_batch([1], [3 + shift], 4, 50, "cpu", generator)
        pages = torch.zeros(4, 2, SHAPE.kv_heads, 16, SHAPE.head, dtype=torch.float64)
        reference.norm_rope_append(qkv, weight, weight, rope, keys, pages, EPS)
        k = pages[keys.slots // 16, 0, :, keys.slots % 16][0, 0]
        queries = make_batch([1], [20 + shift], 4, 50, "cpu", generator)
        q = reference.norm_rope_append(qkv, weight, weight, rope, queries, pages, EPS)[0, 0]
        scores.append(float(q @ k))
    assert scores[0] == pytest.approx(scores[1], rel=1e-6)


def test_append_writes_its_slots_and_nothing_else(batch):
    pages = pages_of(batch)
    before = pages.clone()
    qkv = torch.randn(6, SHAPE.qkv, dtype=torch.float64)
    weight = torch.ones(SHAPE.head, dtype=torch.float64)
    rope = rope_table(SHAPE, 64, "cpu")
    reference.norm_rope_append(qkv, weight, weight, rope, batch, pages, EPS)
    changed = (pages != before).any(-1).any(2).any(1)  # [pages, page tokens]
    assert sorted(changed.flatten().nonzero()[:, 0].tolist()) == sorted(batch.slots.tolist())
    v = qkv.view(6, -1, SHAPE.head)[:, SHAPE.heads + SHAPE.kv_heads :]
    torch.testing.assert_close(pages[batch.slots // 16, 1, :, batch.slots % 16], v)
