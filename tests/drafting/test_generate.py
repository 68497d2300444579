"""Generation in wide batches: the decoder's greedy text, the target's law, ends and limits."""

import numpy as np
import pytest
import torch

from tests.drafting.enumeration import distance, law
from tests.drafting.samples import seeded, tiny_target
from tests.drafting.test_decode import target_law
from workbench.drafting import generate as module
from workbench.drafting.answers import answers
from workbench.drafting.attention import grouped_attention
from workbench.drafting.data import read_sequences
from workbench.drafting.decode import Decoder
from workbench.drafting.generate import Generator, RaceChoices, generate
from workbench.drafting.sampling import RandomChoices
from workbench.errors import InputError
from workbench.schedulers import create


def some_prompts(count, longest=40, vocabulary=11):
    rng = np.random.default_rng(3)
    return [rng.integers(0, vocabulary, n).tolist() for n in rng.integers(1, longest, count)]


def choices(seed=0):
    return RandomChoices(np.random.default_rng(seed))


@pytest.mark.parametrize("slots", [1, 5, 64])
def test_greedy_text_is_the_decoders(slots):
    """More prompts than slots, more than one prefill pass, answers that end at once or never."""
    target = tiny_target(5, eos=(3, 7))
    prompts = some_prompts(30)
    options = {"temperature": 0, "max_new_tokens": 40, "max_running": slots}
    plain = Decoder(target, None, create("none", 1), choices(), **options).decode(prompts)
    data = generate(target, prompts, choices(), **options)
    for index, request in enumerate(plain):
        text = data.tokens[data.start[index] : data.start[index + 1]].tolist()
        assert text == [*prompts[index], *request.tokens]
    lengths = {len(request.tokens) for request in plain}
    assert 40 in lengths and len(lengths) > 3


def test_prompts_are_processed_in_passes_of_bounded_size(monkeypatch):
    target = tiny_target(5, eos=(3,))
    options = {"temperature": 0, "max_new_tokens": 9, "max_running": 20}
    whole = generate(target, some_prompts(20), choices(), **options)
    monkeypatch.setattr(module, "PREFILL_TOKENS", 64)
    apart = generate(target, some_prompts(20), choices(), **options)
    assert (whole.tokens == apart.tokens).all()


@pytest.mark.parametrize("prompts", [[[0, 1]], [[1], [0, 1, 1]]])
def test_the_law_is_the_targets_by_enumeration(monkeypatch, prompts):
    monkeypatch.setattr(module, "LOOK", 1)  # ended answers draw on until the next look
    target = tiny_target(4, vocabulary=2, layers=1, std=0.7)

    def run(path):
        data = generate(
            target, prompts, path, temperature=0.8, max_new_tokens=3, max_running=len(prompts)
        )
        return tuple(
            tuple(data.tokens[first + skip : last].tolist())
            for first, last, skip in zip(data.start, data.start[1:], data.prompt, strict=False)
        )

    outcomes, _ = law(run)
    laws = [target_law(target, prompt, 3, 0.8) for prompt in prompts]
    wanted = {(): 1.0}
    for one in laws:
        wanted = {(*a, b): p * q for a, p in wanted.items() for b, q in one.items()}
    assert distance(outcomes, wanted) < 1e-12


@pytest.mark.parametrize("temperature", [0.5, 1.0])
def test_a_race_draws_by_the_softmax(temperature):
    logits = torch.randn(6, generator=seeded(0)) * 2
    race = RaceChoices(np.random.default_rng(1))
    count = 200_000
    drawn = race.race(logits.expand(count, -1), temperature)
    p = (logits / temperature).softmax(-1)
    found = torch.bincount(drawn, minlength=6) / count
    assert ((found - p).abs() < 4 * (p * (1 - p) / count).sqrt()).all()
    assert race.race(logits[None], 0).item() == logits.argmax()


def test_prompts_that_do_not_fit_are_refused():
    target = tiny_target()
    with pytest.raises(InputError, match=r"prompt 2.*has 0 tokens"):
        generate(target, [[1], []], choices(), max_new_tokens=9)
    with pytest.raises(InputError, match="1 to 156 fit"):
        Generator(target, choices(), max_new_tokens=100).run([[1] * 157], lambda *_: None)


def test_attention_over_the_cache_sees_each_rows_length():
    rng = seeded(2)
    q = torch.randn(3, 6, 1, 4, generator=rng)
    k, v = torch.randn(2, 3, 2, 20, 4, generator=rng)
    lengths = torch.tensor([1, 20, 7])
    seen = grouped_attention(q, k, v, lengths)
    for row, length in enumerate(lengths):
        for head in range(6):
            scores = k[row, head // 3, :length] @ q[row, head, 0] / 2
            wanted = scores.softmax(0) @ v[row, head // 3, :length]
            assert torch.allclose(seen[row, head, 0], wanted, atol=1e-6)


def test_answers_are_kept_in_files_and_made_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("workbench.drafting.answers.SHARD", 8)
    target, prompts = tiny_target(5, eos=(3,)), some_prompts(15)
    options = {"max_new_tokens": 6, "max_running": 4}
    counts = []
    assert answers(tmp_path, target, prompts, 0, samples=2, part=1, parts=2, **options) is None
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "00-00001.safetensors",
        "01-00001.safetensors",
    ]
    first = (tmp_path / "00-00001.safetensors").read_bytes()
    data = answers(tmp_path, target, prompts, 0, samples=2, on_progress=counts.append, **options)
    assert sum(counts) == len(data) == 30
    assert (tmp_path / "00-00001.safetensors").read_bytes() == first
    for index in range(30):
        start = data.start[index]
        prompt = data.tokens[start : start + data.prompt[index]].tolist()
        assert prompt == prompts[index % 15]
    texts = {tuple(data.tokens[data.start[i] : data.start[i + 1]]) for i in range(30)}
    assert len(texts) > 20  # two answers to a prompt differ
    again = answers(tmp_path, target, prompts, 0, samples=2, **options)
    assert (again.tokens == data.tokens).all()
    assert len(answers(tmp_path, target, prompts, 0, samples=3, **options)) == 45
    with pytest.raises(InputError, match="holds answers to other prompts"):
        answers(tmp_path, target, prompts, 1, samples=2, **options)


def test_an_interrupted_writer_keeps_its_whole_files(tmp_path, monkeypatch):
    monkeypatch.setattr("workbench.drafting.answers.SHARD", 4)
    target, prompts = tiny_target(5, eos=(3,)), some_prompts(12)

    options = {"max_new_tokens": 20, "max_running": 2}

    def stop(count, seen=[]):  # noqa: B006 — counts its own calls
        seen.append(count)
        if len(seen) == 9:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        answers(tmp_path, target, prompts, 0, on_progress=stop, **options)
    whole = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert whole and all(len(read_sequences(tmp_path / name)) == 4 for name in whole)
    assert len(answers(tmp_path, target, prompts, 0, **options)) == 12
    assert all((tmp_path / name).read_bytes() == kept for name, kept in whole.items())
