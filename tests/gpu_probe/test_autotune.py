import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_probe import autotune
from gpu_probe.errors import ProbeError
from gpu_probe.settings import CANDIDATES, Setting, bucket, candidates, tile_rows

A, B, C = (Setting(name, 64, 4, 2) for name in "abc")
CASES = {"few": ("four",), "many": ("long", "short")}


def broken_a(setting):
    return "broken" * (setting is A)


def chosen(table, refused=lambda setting: "", until=lambda: False):
    best = autotune.choose((A, B, C), CASES, refused, lambda s, case: table[s.kernel, case], until)
    return {name: setting.kernel for name, (setting, _) in best.items()}


def times(**rows):
    """Seconds of each kernel's three batches, each in two forms."""
    return {
        (k, case): forms
        for k, row in rows.items()
        for case, forms in zip(("four", "long", "short"), row, strict=True)
    }


def test_the_slower_form_decides_bucket_by_bucket():
    table = times(
        a=((1, 9), (2, 2), (1, 1)), b=((3, 3), (1, 3), (1, 1)), c=((4, 4), (5, 5), (1, 1))
    )
    assert chosen(table) == {"few": "b", "many": "a"}


def test_batches_count_alike_however_long_they_take():
    one = (1, 1)
    table = times(
        a=(one, (100, 100), (1.2, 1.2)), b=(one, (101, 101), one), c=(one, (90, 90), (1.4, 1.4))
    )
    assert chosen(table) == {"few": "a", "many": "b"}


def test_what_does_not_work_is_skipped():
    table = times(a=((1, 1),) * 3, b=((3, 3),) * 3, c=((2, 2),) * 3)
    assert chosen(table, refused=broken_a) == {"few": "c", "many": "c"}


def test_time_is_up_after_the_first_that_works():
    table = times(a=((3, 3),) * 3, b=((2, 2),) * 3, c=((1, 1),) * 3)
    assert chosen(table, refused=broken_a, until=lambda: True) == dict.fromkeys(CASES, "b")


def test_none_that_works_is_an_error():
    with pytest.raises(ProbeError, match="attention kernel works on this card; no room for c"):
        chosen({}, refused=lambda setting: f"no room for {setting.kernel}")


@given(st.integers(1, 32), st.integers(1, 16))
def test_a_tile_holds_all_rows_and_is_no_larger_than_needed(queries, group):
    rows = tile_rows(queries, group)
    assert rows >= queries * group and rows & (rows - 1) == 0
    assert rows == 16 or rows < 2 * queries * group


def test_every_tile_has_candidates_of_both_kernels():
    for rows in (16, 32, 64, 128, 256):
        assert {one.kernel for one in candidates(rows)} == {"balanced", "spans"}
    assert all(few[0].kernel == "balanced" for few in CANDIDATES.values())


def test_buckets_part_few_and_many_short_and_long():
    names = [bucket(16, r, c) for r, c in ((1, 9000), (8, 10), (9, 100), (9, 1000))]
    assert names == ["16 rows, few", "16 rows, few", "16 rows, short", "16 rows, long"]
    assert {bucket(32, *case) for case in autotune.CASES} == {
        f"32 rows, {kind}" for kind in ("few", "short", "long")
    }


def test_what_was_found_is_used_after_a_checkpoint():
    row = {"bucket": "16 rows, few", **A._asdict(), "uniform_seconds": 1.0, "ragged_seconds": 1.1}
    found = json.loads(json.dumps({"most_queries": 8, "buckets": [row]}))
    kernels = SimpleNamespace(attention=SimpleNamespace())
    autotune.use(kernels, found)
    assert kernels.attention.chosen == {"16 rows, few": A}
    assert kernels.attention.most_queries == 8
