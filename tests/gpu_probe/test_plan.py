from hypothesis import given
from hypothesis import strategies as st

from gpu_probe.plan import UNIT_TOKENS, make_plan

requests = st.lists(st.tuples(st.integers(1, 8), st.integers(0, 900)), min_size=1, max_size=9)


@given(
    requests=requests,
    kv_heads=st.sampled_from([1, 2, 8]),
    programs=st.integers(1, 40),
    fill=st.integers(0, 3),
)
def test_every_unit_is_read_once_and_no_program_has_more_than_its_share(
    requests, kv_heads, programs, fill
):
    starts = [0]
    for queries, _ in requests:
        starts.append(starts[-1] + queries)
    lengths = [queries + context for queries, context in requests]
    plan = make_plan(starts, lengths, kv_heads, programs, starts[-1] + fill, "cpu")
    units = [-(-length // UNIT_TOKENS) for length in lengths]
    share = -(-sum(units) * kv_heads // programs)
    assert len(plan.pieces) <= programs
    read: dict[int, list] = {}
    for program, (first, last, begin, end) in enumerate(plan.pieces.tolist()):
        taken = 0
        for pair in range(first, last + 1):
            one = begin if pair == first else 0, end if pair == last else units[pair // kv_heads]
            assert one[1] > one[0]
            taken += one[1] - one[0]
            read.setdefault(pair, []).append((program, *one))
        assert taken <= share
    cut = {}
    for pair, parts in read.items():
        assert [part[1] for part in parts] == [0, *(part[2] for part in parts[:-1])]
        assert parts[-1][2] == units[pair // kv_heads]
        if len(parts) > 1:
            request, head = divmod(pair, kv_heads)
            cut[starts[request], head] = parts[0][0], parts[-1][0] + 1
    assert sorted(read) == list(range(len(requests) * kv_heads))
    rows = plan.cuts.tolist()
    whole = {(token, head): (a, b) for token, head, _, a, b in rows if b > a}
    assert whole == cut
    fillers = [(token, head) for token, head, _, a, b in rows if b == a]
    assert len(fillers) == fill * kv_heads and all(token >= starts[-1] for token, _ in fillers)
    assert plan.requests.tolist() == [
        [start, queries, length, count]
        for start, (queries, _), length, count in zip(
            starts, requests, lengths, units, strict=False
        )
    ]
