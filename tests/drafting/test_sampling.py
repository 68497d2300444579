"""The rejection sampler against exact enumeration of small vocabularies."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.drafting.enumeration import distance, law
from workbench.drafting.sampling import RandomChoices, probabilities, residual, verify


def tables(seed: int, vocabulary: int, most: int):
    rng = np.random.default_rng(seed)
    p_t = rng.dirichlet(np.ones(vocabulary) * 0.5, (1, most + 1))
    p_d = rng.dirichlet(np.ones(vocabulary) * 0.5, (1, most))
    zero = rng.random(p_t.shape) < 0.2  # tokens that one of the two never gives
    zero[..., 0] = False
    p_t = np.where(zero, 0, p_t)
    return torch.tensor(p_t / p_t.sum(-1, keepdims=True)), torch.tensor(p_d)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), length=st.integers(0, 2), cut=st.integers(0, 2))
def test_first_token_has_the_targets_law_whatever_the_length(seed, length, cut):
    p_t, p_d = tables(seed, 3, 2)

    def run(choices):
        tokens = torch.cat([choices.draw(p_d[:, k])[:, None] for k in range(2)], dim=1)
        ell = torch.tensor([min(length, cut)])
        accepted, following = verify(p_t, p_d, tokens, ell, choices)
        assert accepted <= ell
        return (*tokens[0, : accepted[0]].tolist(), following[0].item())

    outcomes, _ = law(run)
    first: dict = {}
    for emitted, weight in outcomes.items():
        first[emitted[0]] = first.get(emitted[0], 0.0) + weight
    wanted = dict(enumerate(p_t[0, 0].tolist()))
    assert distance(first, wanted) < 1e-12
    assert sum(outcomes.values()) == pytest.approx(1, abs=1e-12)


def test_acceptance_is_the_overlap():
    p_t, p_d = tables(5, 4, 1)

    def run(choices):
        tokens = choices.draw(p_d[:, 0])[:, None]
        return verify(p_t, p_d, tokens, torch.tensor([1]), choices)[0].item()

    outcomes, _ = law(run)
    assert outcomes[1] == pytest.approx(torch.minimum(p_t[0, 0], p_d[0, 0]).sum().item(), abs=1e-12)


def test_residual_of_equal_distributions_is_the_distribution():
    p = torch.tensor([[0.2, 0.8]])
    assert torch.equal(residual(p, p), p)
    assert torch.equal(residual(p, torch.tensor([[0.0, 1.0]])), torch.tensor([[1.0, 0.0]]))


def test_temperature_sharpens_and_zero_is_the_first_argmax():
    logits = torch.tensor([[1.0, 3.0, 3.0]])
    assert torch.equal(probabilities(logits, 0), torch.tensor([[0.0, 1.0, 0.0]]))
    assert torch.allclose(probabilities(logits, 0.5), torch.softmax(logits * 2, -1))


def test_greedy_accepts_exactly_the_argmax():
    p_t = probabilities(torch.tensor([[[0.0, 9, 1], [5, 0, 1], [0, 0, 1]]]), 0)
    p_d = probabilities(torch.tensor([[[0.0, 9, 1], [0, 5, 1]]]), 0)
    choices = RandomChoices(np.random.default_rng(0))
    tokens = torch.tensor([[1, 1]])
    accepted, following = verify(p_t, p_d, tokens, torch.tensor([2]), choices)
    assert (accepted.item(), following.item()) == (1, 0)


def test_draws_follow_the_seed_and_the_probabilities():
    p = torch.tensor([0.5, 0.3, 0.2]).expand(20_000, 3)
    draws = [RandomChoices(np.random.default_rng(s)).draw(p) for s in (1, 1, 2)]
    assert torch.equal(draws[0], draws[1]) and not torch.equal(draws[0], draws[2])
    share = torch.bincount(draws[0]) / len(p)
    assert (share - p[0]).abs().max() < 4 * 0.5 / len(p) ** 0.5
    accepted = RandomChoices(np.random.default_rng(3)).accept(torch.tensor([0.0, 1.0]).repeat(5000))
    assert accepted.tolist() == [False, True] * 5000
