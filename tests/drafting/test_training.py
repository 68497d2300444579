"""Training on a toy: the loss falls, and a resumed run is the run that never stopped."""

import numpy as np
import pytest
import torch

from tests.drafting.samples import HEADS, tiny_drafter, tiny_target
from workbench.drafting.batches import sample_anchors
from workbench.drafting.checkpoints import load_drafter
from workbench.drafting.data import Sequences, read_sequences, write_sequences
from workbench.drafting.generate import generate
from workbench.drafting.sampling import RandomChoices
from workbench.drafting.training import Options, Trainer
from workbench.errors import InputError


@pytest.fixture(scope="module")
def toy():
    target = tiny_target(2, std=0.4, eos=(3,)).float()
    prompts = [[int(t)] * 2 for t in np.random.default_rng(0).integers(0, 11, 60)]
    choices = RandomChoices(np.random.default_rng(1))
    return target, generate(target, prompts, choices, max_new_tokens=24)


def trainer(toy, head="markov", **options):
    target, data = toy
    drafter = tiny_drafter(target, head, std=0.05).float()
    shape = {"sequences": 8, "anchors": 8, "steps": 60, "learning_rate": 5e-3}
    return Trainer(target, drafter, data, Options(**(shape | options)))


@pytest.mark.parametrize("head", HEADS)
def test_training_lowers_the_loss(toy, head):
    run = trainer(toy, head)
    losses = [run.train_step() for _ in range(60)]
    first = np.mean([step.total.item() for step in losses[:8]])
    last = np.mean([step.total.item() for step in losses[-8:]])
    assert last < 0.85 * first
    gained = losses[-1].acceptance - losses[0].acceptance
    assert gained.min() > 0.02  # every position overlaps more with the target
    assert all(not p.requires_grad for p in run.target.parameters())


@pytest.mark.parametrize("head, optimiser", [("dflash", "adamw"), ("rnn", "muon")])
def test_resumed_training_is_bit_equal(toy, tmp_path, head, optimiser):
    straight = trainer(toy, head, optimiser=optimiser)
    for _ in range(9):
        straight.train_step()

    begun = trainer(toy, head, optimiser=optimiser)
    for _ in range(5):
        begun.train_step()
    begun.save(tmp_path / "run")
    resumed = trainer(toy, head, optimiser=optimiser)
    resumed.resume(tmp_path / "run")
    assert resumed.step == 5
    losses = [resumed.train_step().total.item() for _ in range(4)]
    for name, parameter in straight.drafter.named_parameters():
        assert torch.equal(parameter, dict(resumed.drafter.named_parameters())[name]), name
    assert len(set(losses)) == 4


def test_resume_refuses_what_is_not_there(toy, tmp_path):
    with pytest.raises(InputError, match=r"optimizer\.safetensors: no such file"):
        trainer(toy).resume(tmp_path)
    run = trainer(toy, "markov")
    run.train_step()
    run.save(tmp_path)
    with pytest.raises(InputError, match="was trained with adamw; add --optimiser adamw"):
        trainer(toy, "markov", optimiser="muon").resume(tmp_path)
    with pytest.raises(InputError, match=r"markov_head_type vanilla, these options rnn"):
        trainer(toy, "rnn").resume(tmp_path)


def test_a_drafter_keeps_the_targets_frozen_weights(toy, tmp_path):
    """Master weights of higher precision than the target's: the head stays the target's own."""
    data = toy[1]
    low = tiny_target(2, std=0.4).bfloat16()
    drafter = tiny_drafter(low.double(), "markov").to("cpu", torch.float32)
    run = Trainer(low.bfloat16(), drafter, data, Options(sequences=2, anchors=4))
    assert drafter.head.data_ptr() == low.head.data_ptr()
    assert torch.isfinite(run.train_step().total)
    run.save(tmp_path)
    loaded = load_drafter(tmp_path, low, torch.float32)
    trained = drafter.state_dict()
    assert loaded.state_dict().keys() == trained.keys()
    assert all(torch.equal(value, trained[name]) for name, value in loaded.state_dict().items())


def test_blocks_chunked_or_not_train_alike(toy):
    runs = [trainer(toy, blocks_per_chunk=size) for size in (None, 5)]
    for run in runs:
        for _ in range(3):
            run.train_step()
    for a, b in zip(*(run.drafter.parameters() for run in runs), strict=True):
        assert torch.allclose(a, b, atol=1e-4)


def test_learning_rate_rises_then_falls(toy):
    run = trainer(toy, warmup=0.1)
    rates = [run.rate(step / 100) for step in range(101)]
    assert rates[1:11] == pytest.approx(np.arange(1, 11) / 10)
    assert rates[0] > 0 and rates[-1] == pytest.approx(0)
    assert rates[10:] == sorted(rates[10:], reverse=True)


def test_a_budget_of_time_ends_the_training(toy, tmp_path, monkeypatch):
    now = iter(range(0, 1000, 5))
    monkeypatch.setattr("workbench.drafting.training.time.monotonic", lambda: next(now))
    run = trainer(toy, minutes=0.5)
    shares = []
    while run.done < 1:
        run.train_step()
        shares.append(run.done)
        if run.step == 4:
            run.save(tmp_path)
    # the first step, which compiles, is free
    assert shares == pytest.approx([0, 1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6, 1])
    again = trainer(toy, minutes=0.5)
    again.resume(tmp_path)
    assert again.done == pytest.approx(0.5) and again.step == 4


def test_anchors_have_a_successor_in_the_answer():
    answer = torch.zeros(3, 10, dtype=torch.bool)
    answer[0, 4:9] = answer[1, 9:] = True
    anchors, real = sample_anchors(answer, 3, np.random.default_rng(0))
    assert real.tolist() == [[True] * 3, [False] * 3, [False] * 3]
    assert anchors[0].tolist() == sorted(anchors[0].tolist())
    assert len(set(anchors[0].tolist())) == 3
    assert set(anchors[0].tolist()) <= {4, 5, 6, 7}
    every, _ = sample_anchors(answer[:1], 9, np.random.default_rng(0))
    assert every[0, :4].tolist() == [4, 5, 6, 7]


def test_sequences_and_their_file(toy, tmp_path):
    data = Sequences.of([([1, 2, 3], [4, 5]), ([6], [7, 8, 9])])
    path = tmp_path / "data.safetensors"
    write_sequences(path, data)
    read = read_sequences(path)
    for name in ("tokens", "start", "prompt"):
        assert (getattr(read, name) == getattr(data, name)).all()
    tokens, answer = read.batch(40, np.random.default_rng(0))
    rows = {(*t, *a) for t, a in zip(tokens.tolist(), answer.tolist(), strict=True)}
    assert rows == {
        (1, 2, 3, 4, 5, False, False, False, True, True),
        (6, 7, 8, 9, 0, False, True, True, True, False),
    }
    cut, _ = read.batch(5, np.random.default_rng(0), length=2)
    assert cut.shape == (5, 2)
    path.write_bytes(b"rubbish")
    with pytest.raises(InputError, match="is no training data"):
        read_sequences(path)


def test_answers_are_the_targets_own(toy):
    _, data = toy
    ends = [data.tokens[data.start[i + 1] - 1] for i in range(len(data))]
    sizes = np.diff(data.start) - data.prompt
    assert set(np.array(ends)[sizes < 24]) == {3}
    assert sizes.max() == 24 and sizes.min() >= 1
