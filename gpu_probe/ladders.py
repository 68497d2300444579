"""Capture sizes of CUDA graphs: an engine's ladder by name, or a list."""

from __future__ import annotations

from gpu_probe.errors import ProbeError

# vLLM 0.26.0's sizes for 256 requests of 8 tokens, read from a run with seven drafts
VLLM_DRAFTS = (
    1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 576, 768, 1024, 1152,
    1536, 2048,
)  # fmt: skip
VLLM = (1, 2, 4, *range(8, 257, 8), *range(272, 513, 16))
SGLANG_REQUESTS = (1, 2, 4, 8, 12, *range(16, 257, 8))


def capture_sizes(text: str, tokens_per_request: int) -> tuple[int, ...]:
    """Captured batch tokens, ascending. Raises ProbeError for what is no ladder.

    ``vllm-drafts``: as read from vLLM with seven drafts; ``vllm``: its default up to 512;
    ``sglang``: its request counts times ``tokens_per_request``; else a list such as 1,2,4,8.
    """
    if text in ("vllm", "vllm-drafts"):
        return VLLM if text == "vllm" else VLLM_DRAFTS
    if text == "sglang":
        return tuple(size * tokens_per_request for size in SGLANG_REQUESTS)
    try:
        sizes = sorted({int(size) for size in text.split(",")})
    except ValueError:
        sizes = [0]
    if sizes[0] < 1:
        raise ProbeError(
            f"--graphs: '{text}' is no ladder; use vllm-drafts, vllm, sglang or sizes as in 1,2,4"
        )
    return tuple(sizes)
