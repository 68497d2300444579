"""The fast paths on a GPU give what the plain ones give."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.drafting.samples import tiny_drafter, tiny_target
from tests.drafting.test_generate import some_prompts
from workbench.drafting.attention import decode_attention, grouped_attention
from workbench.drafting.block_attention import dense_attention, flex_attention_of_blocks
from workbench.drafting.decode import Decoder
from workbench.drafting.generate import RaceChoices, generate
from workbench.drafting.training import Options, Trainer, batch_losses
from workbench.schedulers import create

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]
SHAPE = {"hidden": 64, "heads": 4, "kv_heads": 2, "head_dim": 32, "ffn": 96}


def test_the_decode_kernel():
    q = torch.randn(9, 6, 1, 64, device="cuda").bfloat16()
    k, v = torch.randn(2, 9, 2, 300, 64, device="cuda").bfloat16()
    lengths = torch.tensor([1, 2, 63, 64, 65, 128, 200, 299, 300], device="cuda")
    found, wanted = decode_attention(q, k, v, lengths), grouped_attention(q, k, v, lengths)
    assert (found - wanted).abs().max() < 0.02


def test_greedy_text_from_graphs_is_the_decoders():
    target = tiny_target(5, std=0.3, eos=(3,), vocabulary=50, layers=3, **SHAPE).float().cuda()
    choices = RaceChoices(np.random.default_rng(0), "cuda")
    prompts = some_prompts(30, vocabulary=50)
    options = {"temperature": 0, "max_new_tokens": 24, "max_running": 8}
    plain = Decoder(target, None, create("none", 1), choices, **options).decode(prompts)
    data = generate(target, prompts, choices, **options)
    same = [
        data.tokens[first + len(request.prompt) : last].tolist() == request.tokens
        for request, first, last in zip(plain, data.start, data.start[1:], strict=False)
    ]
    assert np.mean(same) > 0.9  # a near tie may fall otherwise


def test_flex_attention_and_its_gradients():
    anchors = torch.randint(0, 256, (2, 20), device="cuda").sort(dim=1).values
    q = torch.randn(2, 4, 140, 64, device="cuda", requires_grad=True)
    k, v = (torch.randn(2, 2, 396, 64, device="cuda", requires_grad=True) for _ in range(2))
    seen = torch.arange(256, device="cuda") < anchors[..., None]
    weight = torch.randn(2, 4, 140, 64, device="cuda")
    found = []
    for attend in (dense_attention(seen, 7), flex_attention_of_blocks(anchors, 256, 7)):
        out = attend(q, k, v)
        found.append([out, *torch.autograd.grad((out * weight).sum(), (q, k, v))])
    for wanted, got in zip(*found, strict=True):
        assert (wanted - got).abs().max() < 0.05 * wanted.abs().max()


@pytest.mark.parametrize("head", ["dflash", "markov"])
def test_a_fast_step_has_the_plain_loss_and_learns(head):
    target = tiny_target(2, std=0.2, vocabulary=300, layers=3, **SHAPE).cuda().bfloat16()
    drafter = tiny_drafter(target.double(), head, std=0.05, **SHAPE).float()
    target.bfloat16()
    drafter.share(target.embed_tokens.weight, target.head)
    rng = np.random.default_rng(0)
    prompts = [rng.integers(0, 300, 12).tolist() for _ in range(64)]
    choices = RaceChoices(rng, "cuda")
    data = generate(target, prompts, choices, max_new_tokens=200, max_running=64)
    options = Options(
        sequences=16, anchors=16, length=128, optimiser="muon", fast=True, steps=100,
        learning_rate=3e-3, blocks_per_chunk=128,
    )  # fmt: skip
    run = Trainer(target, drafter.cuda().train(), data, options)
    drafter.share(target.embed_tokens.weight, target.head)
    batch = run.batches.get(0)
    plain = batch_losses(
        target, drafter, batch, replace(options, fast=False, blocks_per_chunk=None)
    )
    fast = batch_losses(target, drafter, batch, options)
    assert fast.total.item() == pytest.approx(plain.total.item(), rel=0.02)
    first = [run.train_step().total.item() for _ in range(5)]
    later = [run.train_step().total.item() for _ in range(60)][-5:]
    assert np.mean(later) < 0.97 * np.mean(first)
