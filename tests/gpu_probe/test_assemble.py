"""What becomes of measured parts in a profile's tables."""

import pytest

from gpu_probe.assemble import target_sections
from gpu_probe.grid import FULL

# attention takes one time with one query token per request and another with several
AXES = {
    "query_tokens": [1, 2, 8],
    "requests": [1, 256],
    "context_tokens": [16, 1024],
    "seconds": [
        [[0.0001, 0.001], [0.0007, 0.009]],
        [[0.0002, 0.001], [0.0015, 0.010]],
        [[0.0002, 0.001], [0.0017, 0.012]],
    ],
}


def test_verify_is_the_step_less_the_attention_of_its_longest_request():
    tokens = [1, 256, 257, 384, 512, 2048, 4096]
    inside = [0.0001, 0.0007, 0.0015, 0.0015, 0.0015, 0.0017, 0.0017]
    parts = {
        "attention": AXES,
        "verify": {"batch_tokens": tokens, "seconds": [0.01 + s for s in inside]},
    }
    bare = target_sections(parts, FULL)["verify"]
    assert bare["seconds"] == pytest.approx([0.01] * len(tokens), abs=1e-8)
    assert bare["reference_context"] == 0
