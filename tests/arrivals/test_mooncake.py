"""Mooncake's clock and prefix cache: published rows and every earlier request compared."""

import json

from hypothesis import given
from hypothesis import strategies as st

from tests.arrivals import samples
from workbench.arrivals import read_arrivals


def test_published_rows(tmp_path):
    found = read_arrivals(samples.write(tmp_path / "m.jsonl.zst", samples.MOONCAKE))
    assert found.at.tolist() == [0, 0, 3, 3]
    assert found.prompt_tokens.tolist() == [2290, 6760, 2012, 915]
    assert found.output_tokens.tolist() == [316, 3, 354, 355]
    assert found.cached_prompt_tokens.tolist() == [0, 512, 512, 512]
    assert "unlimited prefix cache" in found.notes[-1]


def test_a_repeated_prompt_still_computes_its_last_token(tmp_path):
    text = samples.MOONCAKE.splitlines()[0] + "\n"
    found = read_arrivals(samples.write(tmp_path / "m", text * 2))
    assert found.cached_prompt_tokens.tolist() == [0, 2289]


def test_a_slice_starts_with_the_cache_that_the_file_filled(tmp_path):
    path = samples.write(tmp_path / "m", samples.MOONCAKE)
    assert read_arrivals(path, start=3).cached_prompt_tokens.tolist() == [512, 512]


def test_without_hashes_nothing_is_known_of_the_cache(tmp_path):
    rows = [json.loads(line) for line in samples.MOONCAKE.splitlines()]
    text = "\n".join(json.dumps({k: v for k, v in row.items() if k != "hash_ids"}) for row in rows)
    assert read_arrivals(samples.write(tmp_path / "m", text)).cached_prompt_tokens is None


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.lists(st.integers(0, 2), min_size=1, max_size=5)),
        min_size=1,
        max_size=12,
    )
)
def test_cached_is_the_longest_prefix_of_any_earlier_request(tmp_path_factory, requests):
    rows = [
        {"timestamp": t, "input_length": 512 * len(h), "output_length": 1, "hash_ids": h}
        for t, h in requests
    ]
    path = samples.write(
        tmp_path_factory.mktemp("m") / "m", "\n".join(json.dumps(row) for row in rows)
    )
    found = read_arrivals(path)

    def common(a, b):
        return next(
            (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
        )

    hashes = [h for _, h in sorted(requests, key=lambda request: request[0])]
    for i, own in enumerate(hashes):
        longest = max((common(own, other) for other in hashes[:i]), default=0)
        expected = min(512 * longest, 512 * len(own) - 1)
        got = 0 if found.cached_prompt_tokens is None else found.cached_prompt_tokens[i]
        assert got == expected
