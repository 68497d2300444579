import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gpu_probe.batch import PAGE_TOKENS, make_batch, pages_needed, split_evenly, spread_evenly

requests = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 70)), min_size=1, max_size=8)


@given(total=st.integers(1, 5000), parts=st.integers(1, 256))
def test_split_evenly_keeps_the_total_and_differs_by_one_at_most(total, parts):
    split = split_evenly(total, parts)
    assert sum(split) == total and len(split) == parts
    assert max(split) - min(split) <= 1


@given(mean=st.integers(1, 5000), count=st.integers(1, 256))
def test_spread_evenly_keeps_the_mean_within_half_of_it(mean, count):
    spread = spread_evenly(mean, count)
    assert len(spread) == count and sum(spread) == mean * count
    assert min(spread) >= mean // 2 and max(spread) <= 1.5 * mean + 1
    assert spread == spread_evenly(mean, count)


def test_spread_evenly_mixes_short_with_long():
    spread = spread_evenly(1024, 64)
    assert len(set(spread)) == 64
    assert (min(spread), max(spread)) == (520, 1528)
    assert spread != sorted(spread) and spread != sorted(spread, reverse=True)


@given(requests=requests, seed=st.integers(0, 9))
def test_every_cached_position_has_a_place_of_its_own(requests, seed):
    queries, contexts = map(list, zip(*requests, strict=True))
    pages = sum(pages_needed(1, q + c) for q, c in requests) + 3
    random = torch.Generator().manual_seed(seed)
    batch = make_batch(queries, contexts, pages, 50, "cpu", random)
    places = set()
    for r, (q, c) in enumerate(requests):
        first = int(batch.query_starts[r])
        for position in range(q + c):
            page = int(batch.table[r, position // PAGE_TOKENS])
            place = page * PAGE_TOKENS + position % PAGE_TOKENS
            assert 0 <= page < pages and place not in places
            places.add(place)
            if position >= c:  # a query token: its slot is its position's place
                row = first + position - c
                assert int(batch.slots[row]) == place
                assert int(batch.positions[row]) == position
    assert batch.lengths.tolist() == [q + c for q, c in requests]
    assert int(batch.query_starts[-1]) == sum(queries) == len(batch.tokens)


def test_too_few_pages_are_refused(generator):
    with pytest.raises(ValueError, match="2 pages needed, 1 there"):
        make_batch([1], [16], 1, 50, "cpu", generator)
