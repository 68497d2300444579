"""What is fused between the matrix products, interpreted on the CPU, against plain torch."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("triton")

from gpu_probe import kernels, reference
from gpu_probe.batch import make_batch, pages_needed
from gpu_probe.checks import relative_error
from tests.support import interpreted

pytestmark = interpreted

CLOSE = 1e-5


@given(tokens=st.integers(1, 5), hidden=st.integers(1, 300), seed=st.integers(0, 99))
def test_norms_of_any_width(tokens, hidden, seed):
    torch.manual_seed(seed)
    x, residual, weight = (
        torch.randn(tokens, hidden),
        torch.randn(tokens, hidden),
        torch.rand(hidden),
    )
    assert (
        relative_error(kernels.rmsnorm(x, weight, 1e-6), reference.rmsnorm(x, weight, 1e-6)) < CLOSE
    )
    mine, plain = residual.clone(), residual.clone()
    got = kernels.add_rmsnorm(x, mine, weight, 1e-6)
    assert relative_error(got, reference.add_rmsnorm(x, plain, weight, 1e-6)) < CLOSE
    assert relative_error(mine, plain) < CLOSE


@given(tokens=st.integers(1, 4), mlp=st.integers(1, 2100), seed=st.integers(0, 99))
def test_swiglu_of_any_width(tokens, mlp, seed):
    torch.manual_seed(seed)
    gate_up = torch.randn(tokens, 2 * mlp)
    assert relative_error(kernels.swiglu(gate_up), reference.swiglu(gate_up)) < CLOSE


@settings(max_examples=20)
@given(
    requests=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 60)), min_size=1, max_size=4),
    heads=st.sampled_from([(4, 2), (6, 2), (5, 5), (12, 3)]),
    head=st.sampled_from([16, 64]),
    fill=st.integers(0, 3),
    seed=st.integers(0, 99),
)
def test_norm_rope_and_the_write_into_pages(requests, heads, head, fill, seed):
    queries, contexts = map(list, zip(*requests, strict=True))
    q_heads, kv_heads = heads
    random = torch.Generator().manual_seed(seed)
    count = sum(pages_needed(1, q + c) for q, c in requests) + 1
    pages = torch.randn(count, 2, kv_heads, 16, head, generator=random)
    batch = make_batch(queries, contexts, count, 9, "cpu", random, sum(queries) + fill)
    qkv = torch.randn(len(batch.tokens), (q_heads + 2 * kv_heads) * head, generator=random)
    norms = torch.rand(2, head, generator=random)
    angle = torch.randn(128, head // 2, generator=random)
    rope = torch.stack([angle.cos(), angle.sin()], 1)
    mine, plain = pages.clone(), pages.clone()
    got = kernels.norm_rope_append(qkv, *norms, rope, batch, mine, 1e-6)
    truth = reference.norm_rope_append(qkv, *norms, rope, batch, plain, 1e-6)
    live = batch.live
    assert relative_error(got[:live], truth[:live]) < CLOSE
    spare = batch.slots[live:] // 16  # fillers share a page of their own
    kept = [page for page in range(count) if page not in spare.tolist()]
    assert relative_error(mine[kept], plain[kept]) < CLOSE
