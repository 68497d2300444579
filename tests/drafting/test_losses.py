"""The losses against their formulas written out."""

import math

import pytest
import torch

from tests.drafting.samples import HEADS, seeded, tiny_drafter, tiny_target
from workbench.drafting.losses import Weights, drafter_losses, position_weights


def blocks(count=6):
    rng = seeded(3)
    states = torch.randn(count, 3, 16, generator=rng).double().requires_grad_()
    tokens = torch.randint(0, 11, (count, 4), generator=rng)
    p_t_logits = torch.randn(count, 3, 11, generator=rng).double() * 2
    valid = torch.tensor([[1, 1, 1], [1, 1, 0], [1, 0, 0], [1, 1, 1], [0, 0, 0], [1, 1, 1]]).bool()
    return states, tokens, p_t_logits, valid[:count]


def losses(drafter, data, **options):
    states, tokens, p_t_logits, valid = data
    return drafter_losses(
        drafter, states, tokens[:, :-1], tokens[:, 1:],
        lambda first, last: p_t_logits[first:last], valid, **options,
    )  # fmt: skip


@pytest.mark.parametrize("head", HEADS)
def test_terms_are_the_papers(head):
    drafter = tiny_drafter(tiny_target(), head)
    states, tokens, p_t_logits, valid = data = blocks()
    got = losses(drafter, data)
    logits, confidence = drafter.teacher_forced(states, tokens[:, :-1])
    ce = tv = bce = total = 0.0
    overlaps = [[], [], []]
    for n in range(len(tokens)):
        for k in range(3):
            if not valid[n, k]:
                continue
            w = math.exp(-k / 3)
            total += w
            p_d, p_t = logits[n, k].softmax(-1), p_t_logits[n, k].softmax(-1)
            l1 = (p_d - p_t).abs().sum().item()
            ce += w * -math.log(p_d[tokens[n, k + 1]].item())
            tv += w * l1
            overlaps[k].append(torch.minimum(p_d, p_t).sum().item())
            if confidence is not None:
                c, star = confidence[n, k].sigmoid().item(), 1 - l1 / 2
                bce -= w * (star * math.log(c) + (1 - star) * math.log(1 - c))
    assert got.cross_entropy.item() == pytest.approx(ce / total, abs=1e-5)
    assert got.total_variation.item() == pytest.approx(tv / total, abs=1e-5)
    assert got.confidence.item() == pytest.approx(bce / total, abs=1e-5)
    weighted = (0.1 * ce + 0.9 * tv + 1.0 * bce) / total
    assert got.total.item() == pytest.approx(weighted, abs=1e-5)
    means = [sum(values) / len(values) for values in overlaps]
    assert got.acceptance.tolist() == pytest.approx(means, abs=1e-5)


@pytest.mark.parametrize("head", HEADS)
def test_chunks_give_the_same_losses_and_gradients(head):
    drafter = tiny_drafter(tiny_target(), head)
    gradients = []
    for size in (None, 1, 4):
        data = blocks()
        drafter.zero_grad()
        losses(drafter, data, blocks_per_chunk=size).total.backward()
        parts = [p.grad for p in drafter.parameters() if p.grad is not None]
        gradients.append([data[0].grad, *parts])
    for other in gradients[1:]:
        assert len(other) == len(gradients[0])
        for a, b in zip(gradients[0], other, strict=True):
            assert torch.allclose(a, b, atol=1e-6)


def test_the_confidence_label_teaches_the_drafter_nothing():
    """c* is detached: only the confidence head and what it reads get its gradient."""
    drafter = tiny_drafter(tiny_target(), "markov")
    only = Weights(cross_entropy=0.0, total_variation=0.0, confidence=1.0)
    losses(drafter, blocks(), weights=only).total.backward()
    assert drafter.markov_head.markov_w2.weight.grad.abs().max() == 0
    assert drafter.confidence_head.proj.weight.grad.abs().max() > 0


def test_nothing_to_learn_from_is_no_nan():
    drafter = tiny_drafter(tiny_target(), "rnn")
    states, tokens, p_t_logits, valid = blocks()
    got = losses(drafter, (states, tokens, p_t_logits, torch.zeros_like(valid)))
    assert got.total.item() == 0


def test_position_weights():
    assert position_weights(7).tolist() == pytest.approx([math.exp(-k / 7) for k in range(7)])
    assert position_weights(3, 4.0)[2].item() == pytest.approx(math.exp(-0.5))
