import dataclasses

import pytest
import torch

from gpu_probe.batch import make_batch
from gpu_probe.decoder import Decoder
from gpu_probe.drafter import Drafter
from gpu_probe.shapes import DRAFTERS, MODELS

TINY, SIZE = MODELS["tiny"], 4


@pytest.fixture
def drafter():
    shape = dataclasses.replace(DRAFTERS["dspark"], layers=2, markov_rank=8)
    target = Decoder(TINY, "cpu", torch.float64, positions=64)
    return Drafter(shape, target, SIZE)


@pytest.fixture
def cache():
    return torch.randn(2, 8, 2, TINY.kv_heads, 16, TINY.head, dtype=torch.float64)


def test_markov_walks_the_block_left_to_right(drafter):
    hidden = torch.randn(SIZE, 3, TINY.hidden, dtype=torch.float64)
    logits = torch.randn(SIZE, 3, TINY.vocabulary, dtype=torch.float64) * 0.01
    anchors = torch.tensor([1, 2, 3])
    tokens, confidences = drafter.markov(hidden, logits.clone(), anchors)
    previous = anchors
    for k in range(SIZE):
        for r in range(3):
            before = drafter.previous[previous[r]]
            biased = logits[k, r] + before @ drafter.bias
            assert int(tokens[k, r]) == int(biased.argmax())
            score = torch.cat([hidden[k, r], before]) @ drafter.confidence
            assert float(confidences[k, r]) == pytest.approx(float(1 / (1 + torch.exp(-score))))
        previous = tokens[k]


def test_a_draft_depends_on_the_token_before_it(drafter):
    hidden = torch.zeros(SIZE, 1, TINY.hidden, dtype=torch.float64)
    flat = torch.zeros(SIZE, 1, TINY.vocabulary, dtype=torch.float64)
    first = {int(drafter.markov(hidden, flat.clone(), torch.tensor([a]))[0][0]) for a in range(20)}
    assert len(first) > 10


def test_the_block_attends_in_both_directions_and_to_its_context(drafter, cache, generator):
    batch = make_batch([SIZE], [20], 8, TINY.vocabulary, "cpu", generator)
    base = drafter.backbone(batch, cache.clone())
    other = cache.clone()
    other[:, batch.table[0, 0]] += 1.0  # the first 16 tokens of the context
    assert ((drafter.backbone(batch, other) - base).abs().amax(-1) > 1e-6).all()
    # what the last query writes is seen by the first: with a causal mask it could not be
    moved = dataclasses.replace(batch, positions=batch.positions.clone())
    moved.positions[-1] += 7
    assert (drafter.backbone(moved, cache.clone())[0] - base[0]).abs().max() > 1e-9


def test_injection_fills_the_context_slots_of_every_layer(drafter, cache, generator):
    batch = make_batch([3, 2], [5, 0], 8, TINY.vocabulary, "cpu", generator)
    before = cache.clone()
    features = torch.randn(5, 5 * TINY.hidden, dtype=torch.float64)
    drafter.inject(features, batch, cache)
    for layer in range(2):
        changed = (cache[layer] != before[layer]).any(-1).any(2).any(1)
        assert sorted(changed.flatten().nonzero()[:, 0].tolist()) == sorted(batch.slots.tolist())


@pytest.mark.parametrize("kind", ["dspark", "dspark-rnn", "dflash"])
@pytest.mark.parametrize("requests", [1, 3])
def test_a_round_gives_a_token_and_a_confidence_per_position(kind, requests, cache, generator):
    target = Decoder(TINY, "cpu", torch.float64, positions=64)
    drafter = Drafter(dataclasses.replace(DRAFTERS[kind], layers=2), target, SIZE)
    assert drafter.queries == SIZE + (kind == "dflash")
    block = make_batch(
        [drafter.queries] * requests, [8] * requests, 8, TINY.vocabulary, "cpu", generator
    )
    seen = make_batch([5] * requests, [3] * requests, 8, TINY.vocabulary, "cpu", generator)
    features = torch.randn(5 * requests, 5 * TINY.hidden, dtype=torch.float64)
    tokens, confidences = drafter.forward(features, seen, block, cache)
    assert tokens.shape == confidences.shape == (SIZE, requests)
    assert ((confidences > 0) & (confidences < 1)).all()
