"""The split attention kernel and the choice between kernels, interpreted on the CPU."""

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("triton")

from gpu_probe import attention as spans
from gpu_probe import autotune, dispatch, reference
from gpu_probe.batch import make_batch, pages_needed
from gpu_probe.checks import relative_error
from gpu_probe.grid import TINY
from gpu_probe.measure import Probe
from gpu_probe.settings import CANDIDATES, Setting
from gpu_probe.shapes import MODELS
from tests.support import interpreted

pytestmark = interpreted

ragged = st.lists(st.tuples(st.integers(1, 8), st.integers(0, 300)), min_size=1, max_size=5)


def made(requests, fill, seed, heads=(4, 2)):
    queries, contexts = map(list, zip(*requests, strict=True))
    random = torch.Generator().manual_seed(seed)
    count = sum(pages_needed(1, q + c) for q, c in requests) + 1
    pages = torch.randn(count, 2, heads[1], 16, 16, generator=random)
    batch = make_batch(queries, contexts, count, 9, "cpu", random, sum(queries) + fill)
    q = torch.randn(len(batch.tokens), heads[0], 16, generator=random)
    return q, pages, batch


@settings(deadline=None, max_examples=12)
@given(
    requests=ragged,
    heads=st.sampled_from([(4, 2), (8, 2), (6, 2)]),
    causal=st.booleans(),
    splits=st.sampled_from([1, 2, 4]),
    fill=st.integers(0, 9),
    rows=st.sampled_from([16, 64]),
)
def test_any_ragged_batch_agrees_with_the_reference(requests, heads, causal, splits, fill, rows):
    q, pages, batch = made(requests, fill, splits + fill, heads)
    out = torch.full_like(q, float("nan"))
    setting = Setting("spans", 32, 2, 2)
    got = spans.attention(q, pages, batch, causal, out, setting, rows, splits)
    assert got is out
    assert relative_error(got, reference.attention(q, pages, batch, causal)) < 1e-5
    assert not got[batch.live :].any()


@pytest.mark.parametrize("setting", sorted({one for few in CANDIDATES.values() for one in few}))
def test_every_candidate_is_right_where_it_is_chosen(setting):
    q, pages, batch = made([(3, 200), (1, 65)], 2, 0)
    attention = dispatch.Attention()
    attention.most_queries = 8
    attention.chosen = {"16 rows, few": setting}
    truth = reference.attention(q, pages, batch)
    assert relative_error(attention(q, pages, batch), truth) < 1e-5


def test_settings_are_chosen_among_kernels_that_run(monkeypatch):
    monkeypatch.setattr(autotune, "SECONDS", 0.5)  # the interpreter is slow
    monkeypatch.setattr(autotune, "LAYERS", 1)
    grid = dataclasses.replace(TINY, cached_tokens=8192)
    probe = Probe(MODELS["tiny"], "cpu", torch.float32, grid, 3)
    shapes = ((2, 64), (9, 32))
    found = autotune.attention_settings(probe, 8, shapes)
    names = {row["bucket"] for row in found["buckets"]}
    assert names == {"16 rows, few", "16 rows, short"}
    for row in found["buckets"]:
        assert row["kernel"] in ("balanced", "spans")
        assert row["uniform_seconds"] > 0 and row["ragged_seconds"] > 0
