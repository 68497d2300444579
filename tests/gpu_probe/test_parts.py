"""What is kept of a made-up card, whose steps take what their parts take together."""

import dataclasses
import math
from types import SimpleNamespace

import pytest

from gpu_probe import assemble, parts
from gpu_probe.grid import TINY
from gpu_probe.timing import Timing

MOST = TINY.max_requests
RAGGED = 1.2


def forward(tokens):
    return 0.001 + 1e-5 * tokens


def inside(requests, context, queries):
    return 1e-7 * requests * context * min(queries, max(TINY.queries))


def decodes(tokens, context):
    requests = min(tokens, MOST)
    return inside(requests, context, math.ceil(tokens / requests)) if tokens else 0.0


def took(seconds, spread=0.0):
    return Timing(seconds, seconds, seconds * (1 + spread), 3)


def step(tokens, context):
    return took(forward(tokens) + decodes(tokens, context), context / 1000)


def prefill(chunk, context):
    return took(1e-6 * max(chunk, 16) + 1e-7 * context)


def card(grid=TINY):
    """A probe of that card."""
    return SimpleNamespace(
        grid=grid,
        verify=step,
        beyond=step,
        prefill=prefill,
        attention=lambda r, c, q, ragged: took(inside(r, c, q) * (RAGGED if ragged else 1)),
        mixed=lambda n, chunk, c: took(
            forward(n) + prefill(chunk, 0).median + decodes(n - chunk, c)
        ),
        sustained=lambda n, c, telemetry: {
            "batch_tokens": n, "context_tokens": c, "power_w": n + c,
        },
    )  # fmt: skip


def measured(*names):
    return {name: getattr(parts, name)(card()) for name in names}


def test_a_card_that_adds_its_parts_up_is_given_back():
    made = measured("verify", "beyond", "attention", "prefill", "mixed")
    sections = assemble.target_sections(made, TINY)
    for curve in (sections["verify"], sections["graphs"]["beyond"]):
        assert curve["seconds"] == pytest.approx(list(map(forward, curve["batch_tokens"])))
    beside = assemble.mixed_section(made, TINY)
    expected = list(map(forward, beside["batch_tokens"]))
    for row in beside["seconds"]:
        assert row == pytest.approx(expected)
    factors = [row["factor"] for row in assemble.attention_factors(made, TINY)]
    assert factors == pytest.approx([1.0] * len(factors), abs=1e-3) and len(factors) == 3


@pytest.mark.parametrize("name", ["verify", "beyond"])
def test_a_curve_is_kept_at_each_context(name):
    part = getattr(parts, name)(card())
    assert part["batch_tokens"] == list(getattr(TINY, name))
    assert part["context_tokens"] == [16, 64]
    for context, row in zip((16, 64), part["seconds"], strict=True):
        assert row == pytest.approx([step(n, context).median for n in part["batch_tokens"]])
    points = len(part["batch_tokens"])
    assert part["spread"] == [[0.016] * points, [0.064] * points]
    assert parts.largest_spread(part) == 0.064


def test_attention_is_kept_of_uniform_and_of_ragged_batches():
    part = parts.attention(card())
    assert part["context_tokens"] == [TINY.curve_contexts[0], *TINY.contexts]
    for form, dearer in (("uniform", 1.0), ("ragged", RAGGED)):
        for q, table in zip(TINY.queries, part[form], strict=True):
            for r, row in zip(TINY.requests, table, strict=True):
                expected = [dearer * inside(r, c, q) for c in part["context_tokens"]]
                assert row == pytest.approx(expected, abs=1e-9)


def test_a_chunk_without_room_is_not_measured_at_any_context():
    part = parts.mixed(card(dataclasses.replace(TINY, mixed=((8, 32), (16, 32)))))
    assert part["context_tokens"] == [16, 64]
    assert part["prefill_tokens"] == [8, 32] and part["batch_tokens"] == [16, 32]
    for table in part["seconds"]:
        assert [[s is None for s in row] for row in table] == [[False, False], [True, False]]
    near, far = part["seconds"]
    assert near[1][1] == far[1][1] and near[0][0] < far[0][0]


def test_power_is_held_at_each_context_one_after_the_other():
    points = parts.power(card(), None)["points"]
    found = [(point["context_tokens"], point["batch_tokens"]) for point in points]
    assert found == [(16, 1), (16, 32), (64, 1), (64, 32)]


def test_the_largest_spread_is_found_in_rows_and_in_cells():
    assert parts.largest_spread({"spread": [[0.1, 0.3], [0.2, 0.0]]}) == 0.3
    assert parts.largest_spread({"cells": [{"spread": 0.2}, {}]}) == 0.2
    assert parts.largest_spread({"seconds": [1.0]}) == 0.0
