"""What becomes of measured parts in a profile's tables."""

import dataclasses
import math

import pytest

from gpu_probe import assemble, price
from gpu_probe.grid import FULL

NEAR, FAR = 16, 1024
GRID = dataclasses.replace(FULL, curve_contexts=(NEAR, FAR))
MOST = GRID.max_requests
TOKENS = [1, 256, 257, 384, 512, 2048, 4096]

# attention takes one time with one query token per request and another with several
UNIFORM = [
    [[0.0001, 0.001], [0.0007, 0.009]],
    [[0.0002, 0.001], [0.0015, 0.010]],
    [[0.0002, 0.001], [0.0017, 0.012]],
]
ATTENTION = {
    "query_tokens": [1, 2, 8],
    "requests": [1, 256],
    "context_tokens": [NEAR, FAR],
    "uniform": UNIFORM,
    "ragged": [[[2 * s for s in row] for row in table] for table in UNIFORM],
}
# by hand: what is in a step of each of TOKENS, its longest request's query tokens deciding
INSIDE = {
    NEAR: [0.0001, 0.0007, 0.0015, 0.0015, 0.0015, 0.0017, 0.0017],
    FAR: [0.001, 0.009, 0.010, 0.010, 0.010, 0.012, 0.012],
}


def curve(forward):
    """Whole steps at both contexts whose forward pass takes ``forward`` [context][point]."""
    seconds = [
        [bare + inside for bare, inside in zip(forward[i], INSIDE[context], strict=True)]
        for i, context in enumerate((NEAR, FAR))
    ]
    return {
        "batch_tokens": TOKENS,
        "context_tokens": [NEAR, FAR],
        "seconds": seconds,
        "spread": [[0.00, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06], [0.03] * len(TOKENS)],
    }


def parts(**more):
    flat = [[0.01 + 1e-6 * n for n in TOKENS]] * 2
    return {"attention": ATTENTION, "verify": curve(flat), **more}


def test_steps_that_are_the_sum_of_their_parts_give_the_forward_pass_back():
    made = parts(beyond=curve([[0.02 + 1e-6 * n for n in TOKENS]] * 2))
    sections = assemble.target_sections(made, GRID)
    verify, beyond = sections["verify"], sections["graphs"]["beyond"]
    assert verify["seconds"] == pytest.approx([0.01 + 1e-6 * n for n in TOKENS], abs=2e-9)
    assert beyond["seconds"] == pytest.approx([0.02 + 1e-6 * n for n in TOKENS], abs=2e-9)
    assert verify["batch_tokens"] == beyond["batch_tokens"] == TOKENS
    assert verify["reference_context"] == 0
    for name, found in (("verify", verify), ("beyond", beyond)):
        rows = assemble.without_attention(made, name, MOST)
        assert len(rows) == 2
        for row in rows:
            assert row == pytest.approx(found["seconds"], abs=2e-9)


def test_where_the_contexts_disagree_their_mean_is_charged():
    apart = curve([[0.010] * len(TOKENS), [0.012] * len(TOKENS)])
    sections = assemble.target_sections(parts(verify=apart, beyond=apart), GRID)
    for found in (sections["verify"], sections["graphs"]["beyond"]):
        assert found["seconds"] == pytest.approx([0.011] * len(TOKENS), abs=2e-9)


def test_a_tenth_of_a_step_is_left_at_each_context_where_attention_would_take_it_all():
    seconds = [[0.02], [0.001]]
    made = parts(verify={"batch_tokens": [1], "context_tokens": [NEAR, FAR], "seconds": seconds})
    rows = assemble.without_attention(made, "verify", MOST)
    assert rows == [pytest.approx([0.0199]), pytest.approx([0.0001])]


def test_attention_is_charged_as_the_mean_of_uniform_and_ragged_batches():
    axes = assemble.target_sections(parts(), GRID)["attention"]
    for table, uniform in zip(axes["seconds"], UNIFORM, strict=True):
        for row, one in zip(table, uniform, strict=True):
            assert row == pytest.approx([1.5 * s for s in one])
    assert axes["query_tokens"] == [1, 2, 8] and axes["context_tokens"] == [NEAR, FAR]


PREFILL = {
    "chunk_tokens": [16, 512],
    "context_tokens": [0, 1024],
    "seconds": [[0.0001, 0.0002], [0.0005, 0.0020]],
}


def mixed(dearer=1.0):
    """Steps beside a chunk, forward pass 0.02 + 1 µs a token, decodes' attention ``dearer``."""
    rows, columns, contexts = [128, 512], [256, 1024], [NEAR, FAR]
    axes = {**ATTENTION, "seconds": UNIFORM}

    def seconds(chunk, tokens, context):
        if tokens < chunk:
            return None
        decodes = tokens - chunk
        requests = min(decodes, MOST)
        queries = min(math.ceil(decodes / requests), 8)
        inside = price.attention(axes, requests, context, queries)
        own = price.table([16, 512], [0, 1024], PREFILL["seconds"], chunk, 0)
        return 0.02 + 1e-6 * tokens + own + dearer * inside

    return {
        "context_tokens": contexts,
        "prefill_tokens": rows,
        "batch_tokens": columns,
        "seconds": [[[seconds(p, n, c) for n in columns] for p in rows] for c in contexts],
    }


def test_the_forward_pass_beside_a_chunk_is_given_back_and_cells_without_room_are_filled():
    section = assemble.mixed_section(parts(mixed=mixed(), prefill=PREFILL), GRID)
    assert section["prefill_tokens"] == [128, 512] and section["batch_tokens"] == [256, 1024]
    expected = [[0.020256, 0.021024], [0.021024, 0.021024]]
    for row, one in zip(section["seconds"], expected, strict=True):
        assert row == pytest.approx(one, abs=2e-9)
    assert assemble.mixed_section(parts(prefill=PREFILL), GRID) is None


def test_beside_a_chunk_the_mean_of_the_contexts_is_charged_too():
    made = mixed()
    far = made["seconds"][1]
    made["seconds"][1] = [[None if s is None else s + 0.004 for s in row] for row in far]
    section = assemble.mixed_section(parts(mixed=made, prefill=PREFILL), GRID)
    expected = [[0.022256, 0.023024], [0.023024, 0.023024]]
    for row, one in zip(section["seconds"], expected, strict=True):
        assert row == pytest.approx(one, abs=2e-9)


def test_a_chunk_longer_than_every_step_makes_no_table():
    made = mixed()
    made["prefill_tokens"][1] = 2048
    assert assemble.mixed_section(parts(mixed=made, prefill=PREFILL), GRID) is None


@pytest.mark.parametrize("dearer", [1.0, 1.3])
def test_dearer_attention_beside_a_chunk_is_found_from_both_contexts(dearer):
    rows = assemble.attention_factors(parts(mixed=mixed(dearer), prefill=PREFILL), GRID)
    assert [(row["chunk"], row["requests"]) for row in rows] == [(128, 128), (128, 256), (512, 256)]
    assert [row["factor"] for row in rows] == pytest.approx([dearer] * 3, abs=1e-4)


def test_a_chunk_alone_has_no_attention_of_decodes_and_no_factor():
    made = mixed()
    made["batch_tokens"][1] = made["prefill_tokens"][1] = 1024
    for table in made["seconds"]:
        table[1] = [None, 0.05]
    both = parts(mixed=made, prefill=PREFILL)
    assert [row["chunk"] for row in assemble.attention_factors(both, GRID)] == [128, 128]
    own = price.table([16, 512], [0, 1024], PREFILL["seconds"], 1024, 0)
    assert assemble.mixed_section(both, GRID)["seconds"][1] == pytest.approx([0.05 - own] * 2)


def test_no_factor_is_made_of_attention_that_does_not_grow():
    short = {**ATTENTION, "uniform": [[[row[0]] * 2 for row in table] for table in UNIFORM]}
    made = {**parts(mixed=mixed(), prefill=PREFILL), "attention": short}
    assert assemble.attention_factors(made, GRID) == []


def test_power_is_the_mean_over_the_contexts():
    points = [
        {"batch_tokens": n, "context_tokens": context, "power_w": watts}
        for context, row in ((NEAR, (300.0, 700.0)), (FAR, (360.0, 690.0)))
        for n, watts in zip((1, 512), row, strict=True)
    ]
    power = assemble.target_sections(parts(power={"points": points}), GRID)["power"]
    assert power == {"batch_tokens": [1, 512], "watts": [330.0, 695.0]}
    points[-1]["power_w"] = None
    assert "power" not in assemble.target_sections(parts(power={"points": points}), GRID)


HEAD = {"target": {"name": "x"}, "hardware": {"gpu": "g"}, "measured": {}}


def test_both_curves_are_kept_and_the_larger_spread_is_noted():
    measured = assemble.document(parts(), GRID, HEAD, "none", None)["measured"]
    assert measured["spread"] == [0.03, 0.03, 0.03, 0.03, 0.04, 0.05, 0.06]
    whole = measured["verify_whole"]
    assert whole["seconds"] == parts()["verify"]["seconds"]
    assert whole["context_tokens"] == [NEAR, FAR]
    assert whole["without_attention"] == assemble.without_attention(parts(), "verify", MOST)
    assert measured["attention"] == {form: ATTENTION[form] for form in ("uniform", "ragged")}


def test_steps_beside_a_chunk_are_kept_as_measured_and_priced_where_asked_for():
    made = parts(mixed=mixed(1.3), prefill=PREFILL)
    plain = assemble.document(made, GRID, HEAD, "none", None)
    measured = plain["measured"]
    assert measured["mixed_whole"] == {
        "context_tokens": [NEAR, FAR],
        "seconds": made["mixed"]["seconds"],
    }
    assert [row["factor"] for row in measured["attention_mixed"]] == pytest.approx([1.3] * 3)
    asked = assemble.document(made, GRID, HEAD, "none", None, mixed=True)
    assert "mixed" not in plain and asked["mixed"] == measured["mixed"]
