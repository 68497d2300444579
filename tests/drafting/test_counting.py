"""Which rounds of a replay are counted: by lanes as live decoding has them, and all."""

import numpy as np

from benchmarks.drafters import counting
from workbench.traces import read_trace


def walked(rounds, lanes, running):
    """``in_full_lanes`` step by step."""
    slots, waiting = [None] * (lanes * running), list(range(len(rounds)))
    left, counted = list(rounds), [0] * len(rounds)
    while True:
        for slot, owner in enumerate(slots):
            if owner is None and waiting:
                slots[slot] = waiting.pop(0)
        if all(owner is None for owner in slots):
            return counted
        for lane in range(lanes):
            mine = slice(lane * running, (lane + 1) * running)
            full = None not in slots[mine]
            for slot in range(lanes * running)[mine]:
                if (owner := slots[slot]) is not None:
                    counted[owner] += full
                    left[owner] -= 1
                    if not left[owner]:
                        slots[slot] = None


def test_rounds_in_full_lanes_are_those_of_a_walk():
    rng = np.random.default_rng(0)
    for lanes, running in ((1, 1), (1, 3), (4, 2), (3, 5)):
        rounds = rng.integers(1, 12, 40).tolist()
        found = counting.in_full_lanes(rounds, lanes, running)
        assert found.tolist() == walked(rounds, lanes, running)
        assert found.sum() < sum(rounds) or running == 1


def test_all_rounds_are_the_replays():
    trace = read_trace("chat")
    rounds = counting.rounds_by_request(trace, counting.lengths(trace, "static:7"))
    assert len(rounds) == trace.requests
    assert round(counting.accepted_length(rounds), 2) == 2.18
    for request, one in enumerate(rounds):
        assert not one.inner[-1] and one.inner[:-1].all()
        # the last round's bonus token may lie past the end
        assert one.emitted.sum() in trace.output_tokens[request] - [1, 0]


def test_lengths():
    trace = read_trace("chat")
    assert set(counting.lengths(trace, "static:2").tolist()) == {2}
    found = counting.lengths(trace, "threshold:0.5")
    for row in range(50):
        kept = [c >= np.float32(0.5) for c in trace.confidence[row]]
        assert found[row] == [*kept, False].index(False)
