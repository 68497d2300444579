"""Injected context, cached or not; heads along a block, at once or step by step."""

import pytest
import torch

from tests.drafting.samples import HEADS, seeded, tiny_drafter, tiny_target


def context(target, drafter, tokens):
    zeros = torch.zeros(len(tokens), dtype=torch.long)
    cache = target.new_cache(*tokens.shape)
    return target(tokens, zeros, cache, collect=drafter.config.target_layer_ids).features


@pytest.mark.parametrize("head", HEADS)
def test_cached_context_equals_recomputing_from_scratch(head):
    target = tiny_target()
    drafter = tiny_drafter(target, head)
    tokens = torch.randint(0, 11, (2, 24), generator=seeded(5))
    features = context(target, drafter, tokens)
    every = torch.arange(1, 23).expand(2, -1)
    scratch = drafter.block_states(tokens, features, every)  # [2, 22, γ, hidden]
    assert scratch.shape == (2, 22, 3, 16)

    cache = drafter.new_cache(2, 32)
    rubbish = torch.randn(2, 32, features.shape[-1], generator=seeded(6)).double()
    drafter.cache_context(rubbish, torch.zeros(2, dtype=torch.long), cache)
    at = torch.tensor([5, 9])
    drafter.cache_context(features[:, :9], torch.zeros(2, dtype=torch.long), cache)
    for moved in ([1, 3], [4, 2], [1, 1], [3, 4]):
        anchors = tokens.gather(1, at[:, None])[:, 0]
        states = drafter.draft_states(anchors, at, cache)
        bounded = drafter.draft_states(anchors, at, cache, upto=int(at.max()))
        for row in range(2):
            assert torch.allclose(states[row], scratch[row, at[row] - 1], atol=1e-12)
        assert torch.allclose(states, bounded, atol=1e-12)
        # four verified tokens, of which the last ones are rejected
        places = at[:, None] + torch.arange(4)
        accepted = torch.tensor(moved)
        fresh = features.gather(1, places[..., None].expand(-1, -1, features.shape[-1])).clone()
        fresh[torch.arange(4) >= accepted[:, None]] = 9.0
        drafter.cache_context(fresh, at, cache)
        at = at + accepted


@pytest.mark.parametrize("head", HEADS)
def test_a_block_sees_its_context_its_anchor_and_nothing_else(head):
    target = tiny_target()
    drafter = tiny_drafter(target, head)
    tokens = torch.randint(0, 11, (1, 12), generator=seeded(8))
    features = context(target, drafter, tokens)
    states = drafter.block_states(tokens, features, torch.tensor([[6, 8]]))
    later = features.clone()
    later[:, 6:] += 1
    moved = drafter.block_states(tokens, later, torch.tensor([[6, 8]]))
    assert torch.equal(states[0, 0], moved[0, 0])  # its own anchor's features are not known yet
    assert not torch.allclose(states[0, 1], moved[0, 1])
    earlier = features.clone()
    earlier[:, 5] += 1
    moved = drafter.block_states(tokens, earlier, torch.tensor([[6, 8]]))
    assert (states[0, 0] - moved[0, 0]).abs().amin(dim=-1).max() > 0  # every position sees it
    other = tokens.clone()
    other[:, 6] = (other[:, 6] + 1) % 11
    moved = drafter.block_states(other, features, torch.tensor([[6, 8]]))
    assert not torch.allclose(states[0, 0, -1], moved[0, 0, -1])
    assert torch.equal(states[0, 1], moved[0, 1])


@pytest.mark.parametrize("head", HEADS)
def test_teacher_forced_equals_step_by_step(head):
    target = tiny_target()
    drafter = tiny_drafter(target, head)
    states = torch.randn(4, 3, 16, generator=seeded(1)).double()
    previous = torch.randint(0, 11, (4, 3), generator=seeded(2))
    logits, confidence = drafter.teacher_forced(states, previous)
    state = drafter.start(states[:, 0])
    for k in range(3):
        step, c, state = drafter.step(previous[:, k], states[:, k], state)
        assert torch.allclose(step, logits[:, k], atol=1e-12)
        if confidence is not None:
            assert torch.allclose(c, confidence[:, k], atol=1e-12)
    assert (confidence is None) == head.startswith("dflash")


@pytest.mark.parametrize("head", HEADS)
def test_how_far_back_a_head_looks(head):
    target = tiny_target()
    drafter = tiny_drafter(target, head)
    states = torch.randn(1, 3, 16, generator=seeded(1)).double()
    logits, _ = drafter.teacher_forced(states, torch.tensor([[1, 2, 3]]))
    changed, _ = drafter.teacher_forced(states, torch.tensor([[4, 2, 3]]))
    reach = [not torch.allclose(logits[0, k], changed[0, k]) for k in range(3)]
    assert (
        reach
        == {
            "dflash": [False] * 3,
            "dflash-shifted": [False] * 3,
            "markov": [True, False, False],
            "rnn": [True] * 3,
        }[head]
    )


def test_markov_head_is_the_papers_formula():
    target = tiny_target()
    drafter = tiny_drafter(target, "markov")
    h, x = torch.randn(16, generator=seeded(1)).double(), 4
    w1 = drafter.markov_head.markov_w1.weight[x]
    logits, c, _ = drafter.step(torch.tensor(x), h, drafter.start(h))
    wanted = target.head @ h + drafter.markov_head.markov_w2.weight @ w1
    assert torch.allclose(logits, wanted, atol=1e-12)
    w = drafter.confidence_head.proj.weight[0]
    assert torch.allclose(c, w @ torch.cat([h, w1]) + drafter.confidence_head.proj.bias, atol=1e-12)


def test_rnn_head_is_the_papers_formula():
    drafter = tiny_drafter(tiny_target(), "rnn")
    head, r = drafter.markov_head, 5
    head.joint_proj.bias.data.normal_(generator=seeded(3))
    s, h = torch.zeros(r).double(), torch.randn(2, 16, generator=seeded(1)).double()
    state = head.start(h[0])
    for k, x in enumerate((4, 7)):
        z = torch.cat([s, head.markov_w1.weight[x], h[k]])
        W, b = head.joint_proj.weight, head.joint_proj.bias
        gate = torch.sigmoid(W[:r] @ z + b[:r])
        s = gate * s + (1 - gate) * torch.tanh(W[r : 2 * r] @ z + b[r : 2 * r])
        out, state = head.step(torch.tensor(x), h[k], state)
        assert torch.allclose(out, torch.tanh(W[2 * r :] @ z + b[2 * r :]), atol=1e-12)
        assert torch.allclose(state, s, atol=1e-12)
