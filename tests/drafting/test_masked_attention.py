"""Attention of groups laid out as sequences is grouped-query attention."""

import pytest
import torch
import torch.nn.functional as F

from tests.drafting.samples import seeded
from workbench.drafting.masked_attention import masked_attention


@pytest.mark.parametrize("heads, kv_heads", [(6, 2), (4, 4), (5, 1)])
def test_it_is_grouped_query_attention(heads, kv_heads):
    def random(*shape):
        return torch.randn(*shape, generator=seeded(len(shape) + shape[1]), dtype=torch.float64)

    q, k, v = random(3, heads, 7, 8), random(3, kv_heads, 11, 8), random(3, kv_heads, 11, 8)
    mask = torch.rand(3, 1, 7, 11, generator=seeded(1)) < 0.5
    mask[..., 0] = True
    wanted = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
    torch.testing.assert_close(masked_attention(q, k, v, mask), wanted, atol=1e-12, rtol=0)
