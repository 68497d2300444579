"""FlashAttention 3 out of an installed vLLM, called as vLLM calls it in its full CUDA graphs."""

from __future__ import annotations

from types import ModuleType

import torch

from gpu_probe.batch import PAGE_TOKENS, Batch
from gpu_probe.errors import ProbeError

VERSION = 3
SPLITS = 32  # vLLM's default in graphs (flash_attn_max_num_splits_for_cuda_graph)
SPLIT_TOKENS = 2048  # larger steps run outside graphs, where the library chooses the splits
LONGEST = 2048  # of the model beyond the batch's contexts: a graph is captured for the model's


def load() -> Flash:
    """Raises ProbeError, with what is missing, where the library cannot be used."""
    try:
        import vllm
        from vllm import vllm_flash_attn as library
    except Exception as error:  # a wheel for another torch or CUDA fails in many ways
        said = f"{type(error).__name__}: {error}"
        raise ProbeError(f"FlashAttention {VERSION} of vLLM cannot be loaded: {said}") from error
    if not library.is_fa_version_supported(VERSION):
        reason = library.fa_version_unsupported_reason(VERSION)
        raise ProbeError(f"FlashAttention {VERSION} of vLLM {vllm.__version__}: {reason}")
    return Flash(library, f"FlashAttention {VERSION} of vLLM {vllm.__version__}")


class Flash:
    """``reference.attention`` by ``library`` (vllm.vllm_flash_attn); name: for the profile."""

    def __init__(self, library: ModuleType, name: str):
        self.library, self.name = library, name

    def __call__(
        self,
        q: torch.Tensor,
        pages: torch.Tensor,
        batch: Batch,
        causal: bool = True,
        out: torch.Tensor | None = None,
    ) -> torch.Tensor:
        tokens, q_heads, head = q.shape
        kv_heads = pages.shape[2]
        longest = batch.length_max + LONGEST
        splits = SPLITS if tokens <= SPLIT_TOKENS else 0
        # vLLM makes both once a step: how the batch is dealt to multiprocessors, and the output
        schedule = batch.once(
            ("flash", q_heads, kv_heads, causal, splits),
            lambda: self.library.get_scheduler_metadata(
                batch_size=batch.requests, max_seqlen_q=batch.query_max, max_seqlen_k=longest,
                num_heads_q=q_heads, num_heads_kv=kv_heads, headdim=head,
                cache_seqlens=batch.lengths, qkv_dtype=q.dtype, cu_seqlens_q=batch.query_starts,
                page_size=PAGE_TOKENS, causal=causal, num_splits=splits,
            ),
        )  # fmt: skip
        if out is None:
            # tokens that fill a captured size belong to no request and stay 0
            out = batch.once(("flash out", tokens, q_heads), lambda: torch.zeros_like(q))
        k, v = pages[:, 0].transpose(1, 2), pages[:, 1].transpose(1, 2)
        self.library.flash_attn_varlen_func(
            q, k, v, max_seqlen_q=batch.query_max, cu_seqlens_q=batch.query_starts,
            max_seqlen_k=longest, seqused_k=batch.lengths, causal=causal,
            block_table=batch.table, out=out, scheduler_metadata=schedule, num_splits=splits,
            fa_version=VERSION,
        )  # fmt: skip
        return out
