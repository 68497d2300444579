"""Static KV cache: fixed buffers, one row per request, rolled back by forgetting a length."""

from __future__ import annotations

import torch
from torch import Tensor

from workbench.drafting.config import BlockConfig


class KVCache:
    """Keys and values [layers, rows, kv_heads, positions, head_dim].

    Nothing in it says how long a row is: whoever attends masks by position, so entries past a
    request's length are never seen, and rejected tokens are rolled back by writing over them.
    """

    def __init__(
        self,
        config: BlockConfig,
        rows: int,
        positions: int,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ):
        shape = (config.layers, rows, config.kv_heads, positions, config.head_dim)
        self.k = torch.zeros(shape, device=device, dtype=dtype)
        self.v = torch.zeros(shape, device=device, dtype=dtype)

    @property
    def rows(self) -> int:
        """Requests that fit."""
        return self.k.shape[1]

    @property
    def positions(self) -> int:
        """Tokens that fit in a row."""
        return self.k.shape[3]

    def write(self, layer: int, k: Tensor, v: Tensor, positions: Tensor) -> None:
        """Put ``k`` and ``v`` [rows, kv_heads, n, head_dim] at ``positions`` [rows, n]."""
        rows = torch.arange(self.rows, device=k.device)[:, None]
        self.k[layer][rows, :, positions] = k.transpose(1, 2)
        self.v[layer][rows, :, positions] = v.transpose(1, 2)

    def read(self, layer: int, upto: int) -> tuple[Tensor, Tensor]:
        """Keys and values of the positions before ``upto``."""
        return self.k[layer, :, :, :upto], self.v[layer, :, :, :upto]

    def write_start(self, layer: int, k: Tensor, v: Tensor, rows: Tensor) -> None:
        """Put ``k`` and ``v`` [m, kv_heads, n, head_dim] at positions 0..n − 1 of ``rows`` [m]."""
        self.k[layer][rows, :, : k.shape[2]] = k
        self.v[layer][rows, :, : v.shape[2]] = v

    def put_rows(self, rows: Tensor, other: KVCache) -> None:
        """Copy the rows of ``other``, which may be shorter, to ``rows`` of this cache."""
        self.k[:, rows, :, : other.positions] = other.k
        self.v[:, rows, :, : other.positions] = other.v
