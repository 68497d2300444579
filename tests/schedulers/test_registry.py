"""Schedulers by name, what they declare, and the checks on their answers."""

import numpy as np
import pytest

from tests.schedulers.samples import survivals, view
from workbench.errors import InputError
from workbench.schedulers import (
    Outcomes,
    Scheduler,
    checked,
    checked_draft_length,
    create,
    default_schedulers,
    lossless,
    spelled_out,
)


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("none", "none"),
        ("static:3", "static:3"),
        ("static:k=3", "static:3"),
        ("threshold:0.70", "threshold:0.7"),
        ("threshold:h=1", "threshold:1"),
        ("greedy", "greedy"),
        ("topk", "topk"),
        ("topk:2", "topk"),
        ("topk:lag=3", "topk:3"),
        ("global", "global"),
        ("oracle", "oracle"),
        ("oracle:path", "oracle:path"),
    ],
)
def test_canonical_names(spec, name):
    assert create(spec, 7).name == name
    assert create(name, 7).name == name


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("gredy", ["no scheduler 'gredy'", "greedy", "static:k", "file.py:Class"]),
        ("", ["no scheduler ''"]),
        ("static", ["needs a value", "static:k"]),
        ("static:", ["needs a value"]),
        ("static:x", ["'x'", "static:k"]),
        ("static:8", ["static:8", "7", "0 to 7"]),
        ("static:-1", ["0 to 7"]),
        ("static:1,k=2", ["unexpected 'k=2'"]),
        ("static:depth=2", ["unexpected 'depth=2'"]),
        ("greedy:3", ["unexpected '3'"]),
        ("topk:0", ["lag of 0", "global"]),
        ("threshold:1.5", ["1.5", "0 to 1"]),
        ("threshold:nan", ["0 to 1"]),
        ("oracle:future", ["'future'", "oracle[:path]"]),
    ],
)
def test_bad_specifications_say_what_exists(spec, words):
    with pytest.raises(InputError) as caught:
        create(spec, 7)
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize(
    ("gamma", "static"),
    [(7, ["static:1", "static:3", "static:7"]), (3, ["static:1", "static:3"]),
     (2, ["static:1", "static:2"]), (1, ["static:1"])],
)  # fmt: skip
def test_defaults_are_bounded_by_the_block_size(gamma, static):
    specs = default_schedulers(gamma)
    assert specs == ["none", *static, "greedy", "topk"]
    assert [create(spec, gamma).name for spec in specs] == specs


def test_every_run_gets_its_own_scheduler():
    assert create("topk", 7) is not create("topk", 7)


DECLARED = {  # reads, exact replay, needs confidence, synchronous, lag
    "none": ("nothing", True, False, False, 0),
    "static:2": ("nothing", True, False, False, 0),
    "threshold:0.5": ("prefix", True, True, True, 0),
    "greedy": ("prefix", True, True, True, 0),
    "topk": ("prefix", False, True, False, 2),
    "topk:4": ("prefix", False, True, False, 4),
    "global": ("block", False, True, True, 0),
    "oracle": ("outcomes", False, False, False, 0),
    "oracle:path": ("outcomes", False, False, False, 0),
}


@pytest.mark.parametrize("spec", DECLARED)
def test_declarations(spec):
    made = create(spec, 7)
    declared = made.reads, made.exact_replay, made.needs_confidence, made.synchronous, made.lag
    assert declared == DECLARED[spec]


@pytest.mark.parametrize("spec", DECLARED)
@pytest.mark.parametrize("sees", ["prefix", "token"])
def test_lossless_verdicts_of_the_static_rule(spec, sees):
    made = create(spec, 7)
    assert lossless(made, sees, 0)
    always = spec in ("none", "static:2")
    causal = spec.split(":")[0] in ("threshold", "greedy", "topk")
    assert lossless(made, sees, 1.0) is (always or (causal and sees == "prefix"))
    assert lossless(made, sees, 0.3) is lossless(made, sees, 1.0)


def test_draft_lengths():
    seen = view(np.zeros((2, 7)))
    expected = {"none": 0, "static:2": 2, "threshold:0.5": 7, "topk": 7, "oracle": 7}
    assert {spec: create(spec, 7).draft_length(seen) for spec in expected} == expected


def test_oracles_verify_what_will_be_accepted():
    seen = view(np.zeros((3, 4)))
    seen.outcomes = Outcomes(np.array([0, 2, 4]), lambda: np.array([0, 1, 3]))
    assert create("oracle", 4).verify_lengths(seen, None).tolist() == [0, 2, 4]
    assert create("oracle:path", 4).verify_lengths(seen, None).tolist() == [0, 1, 3]


class Answering(Scheduler):
    name = "answering"

    def __init__(self, answer):
        self.answer = answer

    def draft_length(self, view):
        return self.answer

    def verify_lengths(self, view, survival):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ([1, 2, 3], "shape [3]"),
        (2, "shape []"),
        ([1.0, 2.0], "float64"),
        ([True, False], "bool"),
        ([0, 4], "4 in row 1"),
        ([-1, 0], "-1 in row 0"),
        (None, "shape []"),
        (KeyError("nope"), "verify_lengths raised KeyError: 'nope'"),
    ],
)
def test_faulty_answers_name_the_scheduler(answer, words):
    confidence = np.full((2, 3), 0.5)
    with pytest.raises(InputError, match="scheduler answering") as caught:
        checked(Answering(answer), view(confidence), survivals(confidence))
    assert words in str(caught.value)


def test_good_answers_pass_unchanged():
    confidence = np.full((2, 3), 0.5)
    answer = checked(Answering([0, 3]), view(confidence), survivals(confidence))
    assert answer.tolist() == [0, 3]


@pytest.mark.parametrize("answer", [-1, 4, 1.5, None, "2"])
def test_faulty_draft_lengths_name_the_scheduler(answer):
    with pytest.raises(InputError, match="answering: draft_length"):
        checked_draft_length(Answering(answer), view(np.zeros((2, 3))))


def test_draft_length_may_be_a_numpy_integer():
    assert checked_draft_length(Answering(np.int64(3)), view(np.zeros((2, 3)))) == 3


def test_ranges_of_draft_lengths_are_spelled_out():
    assert spelled_out(["none", "static:2-4", "topk", "static:3"]) == [
        "none",
        "static:2",
        "static:3",
        "static:4",
        "topk",
    ]
    assert spelled_out(["a/b.py:C:x=1-2", "static:5-5"]) == ["a/b.py:C:x=1-2", "static:5"]
    for wrong in ("static:4-2", "static:1-9999999999"):
        with pytest.raises(InputError, match="FIRST-LAST"):
            spelled_out([wrong])
