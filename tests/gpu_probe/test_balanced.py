"""The balanced attention kernel, interpreted on the CPU, against the plain reference."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("triton")

from gpu_probe import balanced, reference
from gpu_probe.batch import make_batch, pages_needed
from gpu_probe.checks import relative_error
from gpu_probe.settings import Setting
from tests.support import interpreted

pytestmark = interpreted

ragged = st.lists(st.tuples(st.integers(1, 8), st.integers(0, 400)), min_size=1, max_size=7)


@settings(deadline=None, max_examples=12)
@given(
    requests=ragged,
    heads=st.sampled_from([(4, 2), (8, 2), (6, 2), (4, 4)]),
    causal=st.booleans(),
    each=st.integers(1, 5),
    fill=st.integers(0, 3),
    seed=st.integers(0, 99),
)
def test_any_ragged_batch_agrees_with_the_reference(requests, heads, causal, each, fill, seed):
    queries, contexts = map(list, zip(*requests, strict=True))
    q_heads, kv_heads = heads
    random = torch.Generator().manual_seed(seed)
    count = sum(pages_needed(1, q + c) for q, c in requests) + 1
    pages = torch.randn(count, 2, kv_heads, 16, 16, generator=random)
    batch = make_batch(queries, contexts, count, 9, "cpu", random, sum(queries) + fill)
    q = torch.randn(len(batch.tokens), q_heads, 16, generator=random)
    out = torch.full_like(q, float("nan"))
    got = balanced.attention(
        q, pages, batch, causal, out, setting=Setting("balanced", 32, 2, 2, each)
    )
    assert got is out
    assert relative_error(got, reference.attention(q, pages, batch, causal)) < 1e-5
    assert not got[batch.live :].any()


def test_the_decodes_of_a_batch_are_attended_to_without_its_chunk(generator):
    pages = torch.randn(200, 2, 2, 16, 16, generator=generator)
    batch = make_batch([3, 1, 40], [500, 70, 900], 200, 9, "cpu", generator)
    decodes = batch.first(2, 3, 4)
    q = torch.randn(4, 4, 16, generator=generator)
    got = balanced.attention(q, pages, decodes)
    assert relative_error(got, reference.attention(q, pages, decodes)) < 1e-5


@pytest.mark.parametrize("requests", [1, 6], ids=["many pieces each", "few pieces each"])
def test_both_ways_of_combining(requests, generator):
    pages = torch.randn(400, 2, 2, 16, 16, generator=generator)
    batch = make_batch([5] * requests, [900] * requests, 400, 9, "cpu", generator)
    q = torch.randn(5 * requests, 8, 16, generator=generator)
    got = balanced.attention(q, pages, batch, setting=Setting("balanced", 64, 2, 2, 5))
    assert relative_error(got, reference.attention(q, pages, batch)) < 1e-5
