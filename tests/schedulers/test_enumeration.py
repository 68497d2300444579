"""The merged enumeration against single paths, and cases with a known answer."""

import dataclasses
import itertools

import numpy as np
import pytest

from tests.schedulers.naive import walk
from workbench.errors import InputError
from workbench.schedulers import Scheduler, create
from workbench.schedulers.audit import appendix, battery, enumerate_outputs
from workbench.schedulers.audit.counterexample import marginal, target_outputs, total_variation
from workbench.schedulers.audit.past import Entry, Row, WindowPast


class Learner(Scheduler):
    """Keeps counts of its own and looks at every part of the past."""

    name, reads, lag, history = "learner", "prefix", 1, 2

    def __init__(self):
        self.rounds = 0
        self.seen = {}

    def draft_length(self, view):
        self.rounds += 1
        return 1 if self.rounds == 2 else view.block_size

    def verify_lengths(self, view, survival):
        for request, accepted in zip(view.request, view.past.accepted(1), strict=True):
            self.seen[int(request)] = self.seen.get(int(request), 0) + max(int(accepted), 0)
        slow = view.past.step_seconds(2) > 1.5 or view.past.verified(1).max() > 1
        older = view.past.survival(2)[:, 0]
        floor = np.array([0.1 + 0.3 * self.seen[int(r)] for r in view.request]) * older
        lengths = (survival >= floor[:, None])[:, : view.draft_length].sum(axis=1)
        return np.minimum(lengths, 1) if slow else lengths


def small(sees, lag=0):
    """The smallest cases of each kind, cut to three tokens for one request and two for more."""
    for case in battery(sees, seed=3, lag=lag, block_size=2, vocabulary=3, requests=2):
        yield dataclasses.replace(case, horizon=min(case.horizon, 3 if case.requests == 1 else 2))


SPECS = ["none", "static:1", "threshold:0.6", "greedy", "topk:1", "topk", "global", "oracle"]
MAKERS = {spec: (lambda spec=spec: create(spec, 2)) for spec in SPECS}
MAKERS["learner"] = Learner


def assert_equals_single_paths(case, make):
    result = enumerate_outputs(case, make())
    totals, paths = walk(case, make())
    expected = np.zeros([case.vocabulary] * (case.horizon * case.requests))
    for texts, probability in totals.items():
        expected[tuple(itertools.chain(*texts))] = probability
    assert result.outputs.ravel() == pytest.approx(expected.ravel(), abs=1e-14)
    assert result.outputs.sum() == pytest.approx(1, abs=1e-12)
    assert result.paths == paths
    return result


@pytest.mark.parametrize("sees", ["prefix", "token"])
@pytest.mark.parametrize("name", MAKERS)
def test_equals_walking_every_path(name, sees):
    for case in itertools.islice(small(sees), 0, None, 2):
        assert_equals_single_paths(case, MAKERS[name])


class Loyal(Scheduler):
    """Biased on purpose: a request is verified if it was likely a step ago and is likely now."""

    name, lag = "loyal", 1

    def verify_lengths(self, view, survival):
        return ((view.past.survival(1)[:, 0] > 0.5) & (survival[:, 0] > 0.4)).astype(int)


def test_rows_of_the_past_stay_with_their_request():
    cases = [c for c in battery("token", seed=3, lag=1, block_size=1) if c.requests == 2]
    lengths = set()
    for case in cases:
        result = assert_equals_single_paths(case, Loyal)
        lengths |= {ell for answers in result.decisions.values() for ell in answers.values()}
    assert {(0, 1), (1, 0)} <= lengths


@pytest.mark.parametrize(
    ("spec", "expected"),
    [("greedy", [0.7, 0.3]), ("global", [0.85, 0.15]), ("static:2", [0.7, 0.3])],
)
def test_appendix_of_the_paper(spec, expected):
    outputs = enumerate_outputs(appendix(), create(spec, 2)).outputs
    assert outputs.tolist() == pytest.approx(expected, abs=1e-15)


def test_oracle_in_the_appendix_case_by_hand():
    # x_1 is accepted with 0.5·1 (A) and 0.5·0.6 (B), else the token is the target's own
    outputs = enumerate_outputs(appendix(), create("oracle", 2)).outputs
    assert outputs.tolist() == pytest.approx([0.5 + 0.2 * 0.7, 0.3 + 0.2 * 0.3], abs=1e-15)


def test_the_target_by_itself():
    for case in battery("prefix", seed=1, requests=2):
        joint = target_outputs(case)
        assert joint.sum() == pytest.approx(1, abs=1e-12)
        first = marginal(joint, 0).reshape(case.vocabulary, -1).sum(axis=1)
        assert first == pytest.approx(case.target[0, 0], abs=1e-12)


def test_a_schedulers_own_state_is_put_back():
    learner = Learner()
    case = next(small("prefix"))
    enumerate_outputs(case, learner)
    assert (learner.rounds, learner.seen) == (0, {})


class Peeking(Scheduler):
    """Remembers the last draft it saw; ℓ follows the memory, so it biases nothing."""

    name, reads = "memory", "prefix"

    def __init__(self):
        self.last = 1.0

    def verify_lengths(self, view, survival):
        answer = np.full(view.requests, 2 if self.last > 0.5 else 0)
        self.last = float(survival[0, -1])
        return answer


def test_memory_of_earlier_drafts_is_lossless():
    for case in small("prefix"):
        result = enumerate_outputs(case, Peeking())
        assert total_variation(result.outputs, target_outputs(case)) < 1e-12
    patterns = {ell for answers in result.decisions.values() for ell in answers.values()}
    assert len(patterns) > 1  # the memory did steer


class Shared(Scheduler):
    name, calls = "shared", [0]

    def verify_lengths(self, view, survival):
        self.calls[0] += 1
        return np.full(view.requests, self.calls[0] % 2)


class Unsaved(Scheduler):
    name = "unsaved"

    def __init__(self):
        self.rule = lambda survival: 0

    def verify_lengths(self, view, survival):
        return np.zeros(view.requests, int)


class TooFar(Scheduler):
    name, lag = "too far", 2

    def verify_lengths(self, view, survival):
        return view.past.verified(1)


@pytest.mark.parametrize(
    ("cls", "words"),
    [
        (Shared, "the same question in two ways"),
        (Unsaved, "cannot be copied"),
        (TooFar, "visible from 2 to 2 steps back, not 1"),
    ],
)
def test_what_cannot_be_audited_is_refused(cls, words):
    with pytest.raises(InputError, match=words):
        enumerate_outputs(next(small("prefix")), cls())


def test_the_past_of_the_audit():
    window = (
        Entry((Row((0.5, 0.2), 1, 0), Row(None, 0, 0)), 2.5),
        Entry((Row((0.9, 0.9), 2, 2), Row((0.4, 0.1), 2, 1)), 1.5),
    )
    scheduler = create("topk:1", 2)
    scheduler.history = 3
    asked = set()
    past = WindowPast(window, 2, 2, scheduler, asked)
    assert past.survival(1).tolist() == [[0.5, 0.2], [1, 1]]
    assert past.survival(2, missing=0.0).tolist() == [[0.9, 0.9], [0.4, 0.1]]
    assert past.survival(3, missing=0.0).tolist() == [[0, 0], [0, 0]]
    assert past.verified(2).tolist() == [2, 2] and past.verified(3).tolist() == [-1, -1]
    assert past.accepted(1).tolist() == [0, 0]
    assert past.step_seconds(1) == 2.5 and np.isnan(past.step_seconds(3))
    assert asked == {"survival", "verified", "accepted", "seconds"}
    with pytest.raises(ValueError, match="from 1 to 3"):
        past.verified(4)
