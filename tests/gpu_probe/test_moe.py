"""Experts and chunks: the references against definitions written out."""

import dataclasses

import pytest
import torch
import torch.nn.functional as F

from gpu_probe import reference
from gpu_probe.batch import make_batch
from gpu_probe.chunk import Chunk, chunk_attention
from gpu_probe.decoder import Decoder
from gpu_probe.shapes import MODELS


def test_experts_are_a_weighted_sum_of_each_tokens_likeliest():
    wide = {"dtype": torch.float64}
    x, router = torch.randn(5, 8, **wide), torch.randn(4, 8, **wide)
    gate_up, down = torch.randn(4, 6, 8, **wide), torch.randn(4, 8, 3, **wide)
    out = reference.experts(x, router, gate_up, down, active=2)
    for token in range(5):
        share = torch.softmax(router @ x[token], 0)
        best = share.argsort(descending=True)[:2].tolist()
        truth = torch.zeros(8, **wide)
        for expert in best:
            gate, up = (gate_up[expert] @ x[token]).chunk(2)
            truth += share[expert] / share[best].sum() * (down[expert] @ (F.silu(gate) * up))
        torch.testing.assert_close(out[token], truth)


def test_all_experts_active_and_alike_are_one_dense_mlp():
    x, router = torch.randn(5, 8), torch.randn(4, 8)
    gate_up, down = torch.randn(6, 8), torch.randn(8, 3)
    out = reference.experts(x, router, gate_up.expand(4, 6, 8), down.expand(4, 8, 3), active=4)
    torch.testing.assert_close(out, F.linear(reference.swiglu(F.linear(x, gate_up)), down))


def test_a_step_of_one_token_streams_the_active_experts_only():
    shape = MODELS["tiny-moe"]
    decoder = Decoder(shape, "cpu", torch.float32, 32)
    assert decoder.weight_bytes == 4 * shape.parameters
    idle = shape.layers * 2 * 3 * shape.mlp * shape.hidden
    embedding = shape.vocabulary * shape.hidden
    assert decoder.streamed_bytes == 4 * (shape.parameters - idle - embedding)


@pytest.mark.parametrize("model", ["tiny", "tiny-moe"])
def test_a_chunk_beside_decodes_changes_neither(model, generator):
    """Decodes beside a chunk give the tokens that they give alone."""
    shape = MODELS[model]
    decoder = Decoder(shape, "cpu", torch.float64, 128)
    size = (shape.layers, 16, 2, shape.kv_heads, 16, shape.head)
    cache = torch.randn(size, dtype=torch.float64)
    batch = make_batch([2, 3, 20], [9, 30, 0], 16, shape.vocabulary, "cpu", generator, 32)
    decodes = batch.first(2, 3, 5)
    keys_values = torch.randn(
        shape.layers, 2, 1, shape.kv_heads, 20, shape.head, dtype=torch.float64
    )
    together = decoder.forward(batch, cache.clone(), 5, Chunk(20, decodes, keys_values))
    alone = decoder.forward(make_first(batch, decodes), cache.clone())
    assert together.tolist() == alone.tolist()


def make_first(batch, decodes):
    """The decodes of ``batch`` as a batch of their own."""
    n = decodes.live
    return dataclasses.replace(
        decodes, tokens=batch.tokens[:n], positions=batch.positions[:n], slots=batch.slots[:n]
    )


def test_chunk_attention_is_causal_behind_what_precedes_it():
    q = torch.randn(1, 4, 3, 8, dtype=torch.float64)
    keys_values = torch.randn(2, 1, 2, 7, 8, dtype=torch.float64)
    out = chunk_attention(q, keys_values)
    for head in range(4):
        k, v = keys_values[:, 0, head // 2]
        for i in range(3):
            seen = 4 + i + 1
            weight = torch.softmax(k[:seen] @ q[0, head, i] / 8**0.5, 0)
            torch.testing.assert_close(out[0, head, i], weight @ v[:seen])


def test_fillers_are_outside_every_request(generator):
    batch = make_batch([1, 3], [5, 0], 8, 50, "cpu", generator, padded=8)
    assert len(batch.tokens) == len(batch.positions) == len(batch.slots) == 8
    assert batch.live == 4 and int(batch.query_starts[-1]) == 4
    assert 7 not in batch.table[0, :1].tolist() + batch.table[1, :1].tolist()  # their page is spare
    q = torch.randn(8, 4, 8)
    pages = torch.randn(8, 2, 2, 16, 8)
    assert reference.attention(q, pages, batch)[4:].abs().max() == 0
