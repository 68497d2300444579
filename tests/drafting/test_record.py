"""Recorded blocks: unbiased acceptance, the coupling at T = 0, the file that comes of them."""

import numpy as np
import pytest
import torch

from tests.drafting.enumeration import law
from tests.drafting.samples import HEADS, tiny_drafter, tiny_target
from workbench.drafting import evaluation
from workbench.drafting.decode import Decoder, accepted_length
from workbench.drafting.prompts import Prompt
from workbench.drafting.record import Recorder
from workbench.drafting.recording import make_trace
from workbench.drafting.sampling import RandomChoices
from workbench.drafting.unbiased import unbiased
from workbench.schedulers import create
from workbench.traces import read_trace, trace_statistics, write_trace


def plain(target, choices, prompts, temperature=1.0, length=30):
    """Outputs of the target alone."""
    decoder = Decoder(
        target, None, create("none", 1), choices, temperature=temperature, max_new_tokens=length
    )
    return [request.tokens for request in decoder.decode(prompts)]


def recorded(head, requests, *, temperature=1.0, length=30, seed=0, std=0.35, **options):
    target = tiny_target(2, std=std)
    drafter = tiny_drafter(target, head, std=0.4)
    choices = RandomChoices(np.random.default_rng(seed))
    recorder = Recorder(target, drafter, choices, temperature=temperature, **options)
    rng = np.random.default_rng(seed + 1)
    prompts = [rng.integers(0, 11, n).tolist() for n in rng.integers(1, 9, requests)]
    outputs = plain(target, choices, prompts, temperature, length)
    blocks = recorder.batch(prompts, outputs)
    return target, drafter, prompts, outputs, blocks


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_acceptance_is_unbiased(head, temperature):
    """By position, against Σ min(p_d, p_t), with errors clustered by request."""
    *_, blocks = recorded(head, 150, temperature=temperature)
    report = unbiased([str(i) for i in range(150)], blocks)
    assert np.array(report.judged).sum(axis=0).tolist() == [p.judged for p in report.positions]
    for k, position in enumerate(report.positions):
        flat = [
            (block.accepted[i] > k) - block.overlap[i, k]
            for block in blocks
            for i in np.flatnonzero(block.judged[:, k])
        ]
        assert position.excess == pytest.approx(np.mean(flat), abs=1e-9)
        assert 0 < position.standard_error < 0.04
        assert position.sigmas < 3, position


def test_the_law_of_a_block_is_the_drafters():
    """Over outputs of the target, the drafts have the drafter's law: exact enumeration."""
    target = tiny_target(4, vocabulary=2, layers=1, std=0.7)
    drafter = tiny_drafter(target, layers=1, block_size=2, target_layer_ids=(0,), std=1.0)
    prompt = [0, 1]

    def run(choices):
        [output] = plain(target, choices, [prompt], length=4)
        block = Recorder(target, drafter, choices).blocks(prompt, output)
        # the confidence of position 2 tells which token was drafted at 1
        return output[0], int(block.accepted[0]), round(float(block.confidence[0, 1]), 6)

    outcomes, _ = law(run)
    for anchor in (0, 1):
        total = sum(weight for key, weight in outcomes.items() if key[0] == anchor)
        tokens = torch.tensor([[*prompt, anchor]])
        out = target(tokens, torch.zeros(1, dtype=torch.long), target.new_cache(1, 3), collect=(0,))
        states = drafter.block_states(tokens, out.features, torch.tensor([[2]]))[0, 0]
        first, _, state = drafter.step(torch.tensor(anchor), states[0], drafter.start(states[0]))
        p_d = first.softmax(-1)
        p_t = target.logits(out.hidden[0, 2]).softmax(-1)
        accepted = sum(w for key, w in outcomes.items() if key[0] == anchor and key[1] > 0)
        assert accepted / total == pytest.approx(torch.minimum(p_d, p_t).sum().item(), abs=1e-9)
        for token in (0, 1):
            _, c, _ = drafter.step(torch.tensor(token), states[1], state)
            c = round(c.sigmoid().item(), 6)
            drafted = sum(w for k, w in outcomes.items() if k[0] == anchor and abs(k[2] - c) < 2e-6)
            assert drafted / total == pytest.approx(p_d[token].item(), abs=1e-9)


@pytest.mark.parametrize("head", HEADS)
def test_at_temperature_zero_replay_is_live_decoding(head):
    target, drafter, prompts, outputs, blocks = recorded(
        head, 20, temperature=0.0, std=0.3, anchors_per_pass=7
    )
    live = Decoder(
        target, drafter, create("static:3", 3), RandomChoices(np.random.default_rng(9)),
        temperature=0.0, max_new_tokens=30,
    ).decode(prompts)  # fmt: skip
    assert sum(block.accepted.sum() for block in blocks) > 20
    for request, output, block in zip(live, outputs, blocks, strict=True):
        assert request.tokens == output
        anchor = 0
        for kept in request.accepted[: request.inner]:
            assert block.accepted[anchor] == kept
            anchor += kept + 1


@pytest.mark.parametrize("head", ["dflash", "markov"])
def test_live_decoding_has_the_accepted_length_of_the_replay(tmp_path, head):
    """Two samples of one law: equal within three standard errors, by request."""
    target, drafter, prompts, _, blocks = recorded(head, 300)
    live = Decoder(
        target, drafter, create("static:3", 3), RandomChoices(np.random.default_rng(9)),
        max_new_tokens=30,
    ).decode(prompts)  # fmt: skip
    replayed = []
    for block in blocks:
        anchor, counts = 0, []
        while anchor + block.accepted[anchor] + 1 < len(block.accepted):
            counts.append(block.accepted[anchor])
            anchor += block.accepted[anchor] + 1
        replayed.append(counts)
    ratio, error = _ratio([r.accepted[: r.inner] for r in live])
    other, other_error = _ratio(replayed)
    assert ratio + 1 == pytest.approx(accepted_length(live))
    assert abs(ratio - other) < 3 * np.hypot(error, other_error)


def _ratio(counts):
    sums, sizes = np.array([sum(c) for c in counts]), np.array([len(c) for c in counts])
    mean = sums.sum() / sizes.sum()
    return mean, np.sqrt(((sums - mean * sizes) ** 2).sum()) / sizes.sum()


@pytest.mark.parametrize("head", HEADS)
def test_the_trace_file(tmp_path, head):
    _, drafter, prompts, outputs, blocks = recorded(head, 6)
    path = tmp_path / "tiny.jsonl.gz"
    rows = [
        (Prompt(id=f"r{i}", domain="math" if i % 2 else "chat", benchmark=f"b{i}"), len(p), block)
        for i, (p, block) in enumerate(zip(prompts, blocks, strict=True))
    ]
    trace = make_trace(path, rows, "tiny", drafter.config, temperature=0.6, source="a test")
    write_trace(path, trace)
    read = read_trace(path)
    assert read.header == trace.header and read.header.temperature == 0.6
    assert read.header.confidence_sees == ("token" if head.startswith("dflash") else "prefix")
    assert read.header.drafter == {"markov": "dspark-markov", "rnn": "dspark-rnn"}.get(
        head, "dflash"
    )
    assert read.output_tokens.tolist() == [len(output) for output in outputs]
    assert [evaluation.benchmark_of(read, i) for i in range(6)] == [f"b{i}" for i in range(6)]
    assert read.prompt_tokens.tolist() == [len(prompt) for prompt in prompts]
    assert (read.accepted == np.concatenate([block.accepted for block in blocks])).all()
    exact = np.concatenate([block.confidence for block in blocks])
    assert np.abs(read.confidence - exact).max() <= 0.0005001
    assert trace_statistics(read).positions[0].judged == read.rows


def test_company_changes_no_block():
    """At temperature 0: one output at a time, or many of unequal length side by side."""
    target, drafter, prompts, outputs, blocks = recorded("rnn", 9, temperature=0.0, std=0.3)
    outputs[3], outputs[5] = outputs[3][:1], outputs[5][:2]
    choices = RandomChoices(np.random.default_rng(1))
    for rows, anchors in ((1, 40), (4, 12), (9, 400)):
        recorder = Recorder(
            target, drafter, choices, temperature=0.0, rows_per_pass=rows, anchors_per_pass=anchors
        )
        done = []
        together = recorder.batch(prompts, outputs, done.append)
        assert sum(done) == 9 and len(done) == -(-9 // rows)
        for i, block in enumerate(together):
            alone = blocks[i] if i not in (3, 5) else recorder.blocks(prompts[i], outputs[i])
            assert len(block.accepted) == len(outputs[i]) - 1
            assert (block.accepted == alone.accepted).all()
            assert (block.judged == alone.judged).all()
            np.testing.assert_allclose(block.confidence, alone.confidence, atol=1e-6)
            np.testing.assert_allclose(block.overlap, alone.overlap, atol=1e-12)


def test_recording_follows_the_seed():
    first, again, other = (recorded("rnn", 3, seed=s)[4] for s in (0, 0, 1))
    assert all((a.confidence == b.confidence).all() for a, b in zip(first, again, strict=True))
    assert any(
        a.confidence.shape != b.confidence.shape or (a.confidence != b.confidence).any()
        for a, b in zip(first, other, strict=True)
    )
