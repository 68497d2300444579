import dataclasses

import pytest
import torch

from gpu_probe.batch import make_batch
from gpu_probe.decoder import Decoder
from gpu_probe.shapes import MODELS

TINY = MODELS["tiny"]


@pytest.fixture
def decoder():
    return Decoder(TINY, "cpu", torch.float64, positions=256)


@pytest.fixture
def cache():
    return torch.randn(TINY.layers, 8, 2, TINY.kv_heads, 16, TINY.head, dtype=torch.float64)


def test_token_by_token_equals_the_whole_prompt_at_once(decoder, cache, generator):
    whole = make_batch([40], [0], 8, TINY.vocabulary, "cpu", generator)
    at_once = decoder.forward(whole, cache.clone())
    steps = []
    for i in range(40):
        one = dataclasses.replace(
            whole,
            tokens=whole.tokens[i : i + 1],
            positions=whole.positions[i : i + 1],
            slots=whole.slots[i : i + 1],
            query_starts=torch.tensor([0, 1]),
            lengths=torch.tensor([i + 1]),
            query_max=1,
            live=1,
        )
        steps.append(decoder.forward(one, cache)[0])
    assert len(set(at_once.tolist())) > 5  # the weights do not collapse to one answer
    assert at_once.tolist() == torch.stack(steps).tolist()


def test_requests_do_not_see_each_other(decoder, cache, generator):
    both = make_batch([4, 4], [20, 9], 8, TINY.vocabulary, "cpu", generator)
    other = dataclasses.replace(both, tokens=both.tokens.clone())
    other.tokens[4:] = (other.tokens[4:] + 1) % TINY.vocabulary
    a = decoder.forward(both, cache.clone())
    b = decoder.forward(other, cache.clone())
    assert a[:4].tolist() == b[:4].tolist()
    assert a[4:].tolist() != b[4:].tolist()


def test_every_layer_has_weights_of_its_own(decoder):
    matrices = {layer.gate_up.data_ptr() for layer in decoder.layers}
    assert len(matrices) == TINY.layers
    assert decoder.weight_bytes == 8 * TINY.parameters
    assert decoder.streamed_bytes == 8 * (TINY.parameters - TINY.vocabulary * TINY.hidden)


def test_logit_rows_leave_out_what_needs_no_token(decoder, cache, generator):
    batch = make_batch([3, 5], [0, 0], 8, TINY.vocabulary, "cpu", generator)
    all_rows = decoder.forward(batch, cache.clone())
    assert decoder.forward(batch, cache.clone(), 3).tolist() == all_rows[:3].tolist()
