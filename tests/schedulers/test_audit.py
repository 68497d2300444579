"""Verdicts: what the audit passes, what it refutes, and in which words; then the command."""

import json

import pytest

from workbench.cli.main import cli, run
from workbench.errors import InputError
from workbench.schedulers.audit import audit, battery

PASSED = ["none", "static:1", "static:2", "static:5", "threshold:0.7", "threshold:0.02",
          "threshold:1", "greedy", "topk", "topk:1", "topk:3"]  # fmt: skip


@pytest.mark.parametrize("spec", PASSED)
def test_causal_schedulers_pass(spec):
    verdict = audit(spec)
    assert verdict.verdict == "lossless" and verdict.distance <= 1e-12
    assert verdict.agrees and verdict.counterexample is None
    assert verdict.found == verdict.reads  # it was exercised as far as it declares
    assert verdict.declared_lossless


@pytest.mark.parametrize("spec", ["global", "oracle", "oracle:path"])
def test_hindsight_and_global_search_fail(spec):
    verdict = audit(spec)
    assert verdict.verdict == "not lossless" and verdict.distance > 0.1
    assert verdict.agrees and verdict.found == verdict.reads


def test_the_appendix_in_words():
    verdict = audit("global")
    assert verdict.appendix == pytest.approx((0.85, 0.15), abs=1e-12)
    assert "draft A A → verifies 2, draft B A → verifies 0" in verdict.counterexample
    assert "request 0" in verdict.counterexample
    assert "output A has 0.85, the target 0.7" in verdict.counterexample
    assert audit("greedy").appendix == pytest.approx((0.7, 0.3), abs=1e-12)


@pytest.mark.parametrize("spec", ["threshold:0.7", "greedy", "topk", "global"])
def test_confidences_that_see_the_token_bias_every_reader(spec):
    verdict = audit(spec, confidence_sees="token")
    assert verdict.verdict == "not lossless" and verdict.distance > 1e-3
    assert not verdict.declared_lossless and verdict.agrees


@pytest.mark.parametrize("spec", ["none", "static:2"])
def test_what_reads_nothing_is_lossless_whatever_confidences_see(spec):
    assert audit(spec, confidence_sees="token").verdict == "lossless"


def test_a_threshold_that_never_cuts_shows_nothing():
    verdict = audit("threshold:0")
    assert verdict.verdict == "not exercised" and verdict.found == "nothing"


def test_other_seeds_give_other_cases_and_the_same_verdicts():
    one, two = audit("global", seed=1), audit("global", seed=2)
    assert one.paths != two.paths and one.verdict == two.verdict == "not lossless"
    assert audit("greedy", seed=1) == audit("greedy", seed=1)
    assert audit("greedy", seed=9).verdict == audit("topk", seed=9).verdict == "lossless"


def test_bounds_hold():
    cases = list(battery("prefix", block_size=2, vocabulary=2, requests=1))
    assert {(c.requests, c.vocabulary, c.block_size) for c in cases} == {(1, 2, 2)}
    most = list(battery("prefix", lag=2))
    assert {c.requests for c in most} == {1, 2, 3} and {c.block_size for c in most} == {2, 3}
    assert min(c.horizon for c in most[1:]) >= 3


def test_a_lag_too_long_to_enumerate_is_refused():
    with pytest.raises(InputError, match="more than 6 steps"):
        audit("topk:7")


RULES = """
import numpy as np
from workbench.schedulers import Scheduler

class Later(Scheduler):
    '''Verifies the whole block if its end looks good: reads what comes later.'''
    reads = "prefix"
    def verify_lengths(self, view, survival):
        return np.where(survival[:, view.draft_length - 1] > 0.3, view.draft_length, 0)

class Honest(Later):
    reads = "block"

class Silent(Scheduler):
    '''Says that it reads nothing, but does: lossless all the same.'''
    reads = "nothing"
    def verify_lengths(self, view, survival):
        return (survival[:, : view.draft_length] > 0.5).sum(axis=1)

class Mutual(Scheduler):
    '''Each request follows the last draft but one of its neighbour.'''
    reads = "prefix"
    def verify_lengths(self, view, survival):
        if view.requests < 2:
            return np.zeros(view.requests, int)
        return (np.roll(view.confidence[:, 1], 1) > 0.5).astype(int)

class Modest(Scheduler):
    reads = "block"
    def verify_lengths(self, view, survival):
        return (survival[:, : view.draft_length] > 0.4).sum(axis=1)
"""


@pytest.fixture
def rules(tmp_path):
    path = tmp_path / "rules.py"
    path.write_text(RULES)
    return path


def test_a_wrong_declaration_is_refuted(rules):
    verdict = audit(f"{rules}:Later")
    assert verdict.verdict == "not lossless" and verdict.found == "block"
    assert verdict.misdeclared and not verdict.agrees
    assert audit(f"{rules}:Honest").agrees


def test_reading_more_than_declared_is_found_without_bias(rules):
    verdict = audit(f"{rules}:Silent")
    assert verdict.verdict == "lossless" and verdict.found == "prefix"
    assert verdict.misdeclared and not verdict.agrees


def test_requests_that_read_each_other_are_correlated(rules):
    verdict = audit(f"{rules}:Mutual")
    assert verdict.verdict == "not lossless" and not verdict.agrees
    assert "each request alone is right" in verdict.counterexample


def test_declaring_more_than_is_read_is_no_fault(rules):
    verdict = audit(f"{rules}:Modest")
    assert verdict.verdict == "lossless" and verdict.agrees and not verdict.declared_lossless


def command(*args, capfd):
    code = run(cli, "workbench", ["audit", *map(str, args)])
    return code, *capfd.readouterr()


def test_the_command_prints_both_distributions(capfd):
    code, out, _ = command("--scheduler", "greedy", "--scheduler", "global", capfd=capfd)
    assert code == 0
    assert "0.85 / 0.15" in out and "0.70 / 0.30" in out
    assert "greedy: lossless" in out and "global: NOT lossless" in out


def test_the_command_refutes_with_exit_code_1(rules, capfd):
    code, out, _ = command("--scheduler", f"{rules}:Later", "--requests", 1, capfd=capfd)
    assert code == 1 and 'WRONGLY DECLARED: reads = "prefix"' in out and 'say "block"' in out
    code, out, _ = command("--scheduler", f"{rules}:Mutual", capfd=capfd)
    assert code == 1 and "claims that this is lossless" in out
    code, out, _ = command("--scheduler", f"{rules}:Modest", capfd=capfd)
    assert code == 0 and "has results call it not lossless" in out
    code, out, _ = command("--scheduler", "threshold:0", capfd=capfd)
    assert code == 0 and "not exercised" in out


def test_the_command_writes_json(tmp_path, capfd):
    out = tmp_path / "verdicts.json"
    args = ["--scheduler", "global", "--confidence-sees", "token", "--json", out]
    assert command(*args, capfd=capfd)[0] == 0
    document = json.loads(out.read_text())
    assert document["format"] == "workbench.audit/1"
    (verdict,) = document["schedulers"]
    assert verdict["verdict"] == "not lossless" and verdict["confidence_sees"] == "token"
    first = out.read_bytes()
    assert command(*args, capfd=capfd)[0] == 0 and out.read_bytes() == first


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--scheduler", "gredy"], "no scheduler 'gredy'"),
        (["--scheduler", "static:9"], "static:9"),
        (["--confidence-sees", "all"], "prefix"),
        (["--json", "/no/such/folder/x.json", "--scheduler", "none"], "folder does not exist"),
    ],
)
def test_bad_input_is_one_line(args, words, capfd):
    code, _, err = command(*args, capfd=capfd)
    assert code == 2 and words in err and err.strip().count("\n") == 0
