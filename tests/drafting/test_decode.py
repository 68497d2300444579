"""The decoding loop: its exact law, greedy text, what it counts and what schedulers see."""

import itertools

import numpy as np
import pytest
import torch

from tests.drafting.enumeration import distance, law
from tests.drafting.samples import HEADS, seeded, tiny_drafter, tiny_target
from workbench.drafting.decode import Decoder, accepted_length
from workbench.drafting.passes import Passes
from workbench.drafting.sampling import RandomChoices, probabilities
from workbench.errors import InputError
from workbench.schedulers import Scheduler, create, lossless

LOSSLESS = ("none", "static:1", "static:2", "threshold:0.5", "greedy", "topk:1")


def rising(requests: int, drafts: int) -> np.ndarray:
    """A cost under which planners verify some drafts and not others."""
    return 1.0 + 0.3 * (requests - 1 + np.arange(drafts + 1))


def appendix(requests: int, drafts: int) -> np.ndarray:
    """Dear at once, cheap after: what makes a global search look ahead."""
    return 1 / np.concatenate([[1.0], 0.5 * 0.9 ** np.arange(drafts)])


def target_law(target, prompt, length, temperature):
    outputs = {}
    for output in itertools.product(range(target.config.vocabulary), repeat=length):
        tokens = torch.tensor([[*prompt, *output]])
        cache = target.new_cache(1, tokens.shape[1])
        out = target(tokens, torch.zeros(1, dtype=torch.long), cache)
        p = probabilities(target.logits(out.hidden[0]), temperature)
        places = range(len(prompt) - 1, len(prompt) + length - 1)
        outputs[output] = float(np.prod([p[i, t] for i, t in zip(places, output, strict=True)]))
    return outputs


def decode(target, drafter, spec, choices, prompts, **options):
    scheduler = spec if isinstance(spec, Scheduler) else create(spec, drafter.config.block_size)
    return Decoder(target, drafter, scheduler, choices, **options).decode(prompts)


def two_tokens(head, seed=4, std=0.7):
    target = tiny_target(seed, vocabulary=2, layers=1, std=std)
    drafter = tiny_drafter(target, head, layers=1, block_size=2, target_layer_ids=(0,), std=1.0)
    return target, drafter


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("spec", LOSSLESS)
def test_output_law_is_the_targets_by_enumeration(head, spec):
    """DFlash's confidence is the chance of the token it chose: none and static keep the law."""
    sees = "token" if head.startswith("dflash") else "prefix"
    if not lossless(create(spec, 2), sees, 1.0):
        pytest.skip("its confidence sees the token: not lossless, and said so")
    target, drafter = two_tokens(head)
    seen = set()

    def run(choices):
        [request] = decode(
            target, drafter, spec, choices, [[0, 1]], max_new_tokens=3, step_seconds=rising
        )
        seen.update(request.verified)
        return tuple(request.tokens)

    outcomes, ways = law(run)
    assert sum(outcomes.values()) == pytest.approx(1, abs=1e-12)
    assert distance(outcomes, target_law(target, [0, 1], 3, 1.0)) < 1e-12
    if spec in ("threshold:0.5", "greedy", "topk:1"):
        assert len(seen) > 1, "the scheduler always verified the same"
    assert ways >= 8


@pytest.mark.parametrize("temperature", [0.6, 1.7])
def test_output_law_at_other_temperatures(temperature):
    target, drafter = two_tokens("rnn")

    def run(choices):
        [request] = decode(
            target, drafter, "threshold:0.5", choices, [[0, 1]],
            max_new_tokens=3, temperature=temperature,
        )  # fmt: skip
        return tuple(request.tokens)

    assert distance(law(run)[0], target_law(target, [0, 1], 3, temperature)) < 1e-12


@pytest.mark.parametrize("spec", ["static:1", "greedy", "topk:1"])
def test_joint_law_of_two_requests(spec):
    """Two requests share each step's budget; a third token per request needs a second round."""
    target, drafter = two_tokens("markov")

    def run(choices):
        requests = decode(
            target, drafter, spec, choices, [[0], [1, 0]], max_new_tokens=2, step_seconds=rising
        )
        return tuple(tuple(request.tokens) for request in requests)

    outcomes, _ = law(run)
    first, second = target_law(target, [0], 2, 1.0), target_law(target, [1, 0], 2, 1.0)
    joint = {(a, b): p * q for a, p in first.items() for b, q in second.items()}
    assert distance(outcomes, joint) < 1e-12


def test_enumeration_finds_the_bias_of_a_global_search():
    """The power of the test above, on confidences like those of the paper's appendix A."""
    target, drafter = two_tokens("markov", 1, 0.3)
    # c_k is 0.9 after token 0 and nearly 0 after token 1
    proj, w1 = drafter.confidence_head.proj, drafter.markov_head.markov_w1.weight.data
    proj.weight.data.zero_()
    proj.weight.data[0, -5:] = torch.linalg.lstsq(w1, torch.tensor([[2.2], [-7.0]]).double())[0].T
    wanted = target_law(target, [0, 1], 2, 1.0)

    def bias(spec):
        def run(choices):
            [request] = decode(
                target, drafter, spec, choices, [[0, 1]], max_new_tokens=2, step_seconds=appendix
            )
            return tuple(request.tokens)

        return distance(law(run)[0], wanted)

    assert bias("global") > 1e-3
    assert bias("greedy") < 1e-12


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize(
    "spec", ["static:1", "static:3", "threshold:0.3", "greedy", "topk", "global"]
)
def test_greedy_text_equals_plain_decoding_token_for_token(head, spec):
    target = tiny_target(2, std=0.35, eos=(3,))
    drafter = tiny_drafter(target, head)
    rng = np.random.default_rng(0)
    prompts = [rng.integers(0, 11, n).tolist() for n in rng.integers(1, 12, 12)]
    options = {"temperature": 0.0, "max_new_tokens": 40, "max_running": 5}
    plain = decode(
        target, None, create("none", 1), RandomChoices(np.random.default_rng(0)), prompts, **options
    )
    fast = decode(
        target, drafter, spec, RandomChoices(np.random.default_rng(1)), prompts,
        step_seconds=rising, **options,
    )  # fmt: skip
    assert [r.tokens for r in fast] == [r.tokens for r in plain]
    lengths = [len(r.tokens) for r in plain]
    assert min(lengths) < 40 == max(lengths)  # some end by themselves, some are cut


def test_a_perfect_drafter_is_always_accepted():
    """Drafts that are the target's own tokens: γ + 1 tokens a round."""
    target = tiny_target(2)
    drafter = tiny_drafter(target)
    choices = RandomChoices(np.random.default_rng(0))
    [plain] = decode(
        target, None, create("none", 1), choices, [[1, 2]], temperature=0.0, max_new_tokens=30
    )

    class Knowing(Passes):
        def draft(self, drafts, confident):
            at = int(self.held[0]) - 1
            self._tokens = torch.tensor([(plain.tokens + [0] * 9)[at : at + drafts]])
            self._p_d = probabilities(torch.eye(11)[self._tokens] * 9, 0)

    [request] = Decoder(
        target, drafter, create("static:3", 3), choices, temperature=0.0, max_new_tokens=30,
        passes=Knowing(target, drafter, choices, 0.0),
    ).decode([[1, 2]])  # fmt: skip
    assert request.tokens == plain.tokens
    assert set(request.accepted[: request.inner]) == {3}
    assert accepted_length([request]) == 4.0
    assert request.inner == len(request.verified) - 1 == 7


class Watching(Scheduler):
    """Notes what it is shown."""

    name, reads, lag, history = "watching", "prefix", 1, 2

    def __init__(self):
        self.seen = []

    def verify_lengths(self, view, survival):
        accepted, verified = view.past.accepted(1), view.past.verified(1)
        self.seen.append(
            (view.request.tolist(), view.context.tolist(), accepted.tolist(), verified.tolist())
        )
        assert (survival == np.cumprod(view.confidence, axis=1)).all()
        assert ((view.past.survival(1) == 1) | (verified >= 0)[:, None]).all()
        return (view.request + len(self.seen)) % (view.draft_length + 1)


def test_what_a_scheduler_sees_is_what_happened():
    target = tiny_target(2, eos=(3,))
    drafter = tiny_drafter(target)
    watching = Watching()
    prompts = [[1, 2], [4], [5, 6, 7], [8, 9], [1]]
    requests = decode(
        target, drafter, watching, RandomChoices(np.random.default_rng(3)), prompts,
        max_new_tokens=12, max_running=2,
    )  # fmt: skip
    rounds = [0] * len(prompts)
    for step, (rows, context, accepted, verified) in enumerate(watching.seen, start=1):
        assert 1 <= len(rows) <= 2 and rows == sorted(rows)
        for row, n, kept, length in zip(rows, context, accepted, verified, strict=True):
            request, done = requests[row], rounds[row]
            emitted = 1 + sum(k + 1 for k in request.accepted[:done])
            assert n == len(prompts[row]) + emitted
            before = (request.accepted[done - 1], request.verified[done - 1]) if done else (-1, -1)
            assert (kept, length) == before
            assert request.verified[done] == (row + step) % 4
            rounds[row] += 1
    assert rounds == [len(request.verified) for request in requests]
    assert sum(rounds) > 10


def test_a_batch_decodes_as_each_prompt_alone():
    """At temperature 0 company changes nothing, in whatever slot and order."""
    target = tiny_target(6, eos=(3,))
    drafter = tiny_drafter(target, "rnn")
    prompts = [torch.randint(0, 11, (n,), generator=seeded(n)).tolist() for n in (1, 9, 3, 14, 5)]
    choices = RandomChoices(np.random.default_rng(0))
    options = {"temperature": 0.0, "max_new_tokens": 25}
    alone = [decode(target, drafter, "static:2", choices, [p], **options)[0] for p in prompts]
    for slots in (1, 2, 5, 9):
        together = decode(
            target, drafter, "static:2", choices, prompts, max_running=slots, **options
        )
        assert [(r.tokens, r.accepted) for r in together] == [(r.tokens, r.accepted) for r in alone]


@pytest.mark.parametrize("spec", ["static:2", "topk", "greedy"])
def test_lanes_are_engines_of_their_own(spec):
    """At temperature 0 each lane decodes as alone: what its scheduler sees is its own requests."""
    target = tiny_target(6, eos=(3,))
    drafter = tiny_drafter(target, "rnn")
    prompts = [torch.randint(0, 11, (n,), generator=seeded(n)).tolist() for n in range(1, 9)]
    choices = RandomChoices(np.random.default_rng(0))
    options = {"temperature": 0.0, "max_new_tokens": 25, "step_seconds": rising, "max_running": 2}
    schedulers = [create(spec, 3) for _ in range(4)]
    together = Decoder(target, drafter, schedulers, choices, **options).decode(prompts)
    for lane in range(4):
        mine = prompts[2 * lane : 2 * lane + 2]
        alone = decode(target, drafter, spec, choices, mine, **options)
        for one, other in zip(together[2 * lane : 2 * lane + 2], alone, strict=True):
            assert (one.tokens, one.verified) == (other.tokens, other.verified)
            assert (one.accepted, one.running) == (other.accepted, other.running)
    assert {r for one in together for r in one.running} == {1, 2}


def test_refusals_are_one_line():
    target = tiny_target()
    drafter = tiny_drafter(target)
    choices = RandomChoices(np.random.default_rng(0))
    with pytest.raises(InputError, match="needs to know what will be accepted"):
        decode(target, drafter, "oracle", choices, [[1]])
    with pytest.raises(InputError, match="needs a drafter"):
        Decoder(target, None, create("static:1", 1), choices)
    with pytest.raises(InputError, match=r"prompt 2: has 0 tokens"):
        decode(target, drafter, "static:1", choices, [[1], []], max_new_tokens=9)
    with pytest.raises(InputError, match=r"prompt 1: has 250 tokens; 1 to 244 fit"):
        decode(target, drafter, "static:1", choices, [[1] * 250], max_new_tokens=9)
