"""``train``, ``record``, ``evaluate`` and ``simulate`` one after another, on a tiny target."""

import gzip
import json
import sys
from typing import NamedTuple

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.drafting.samples import TEMPLATE, save_tokenizer, tiny_target
from tests.support import workbench
from workbench.traces import read_trace


class Result(NamedTuple):
    exit_code: int
    stdout: str
    stderr: str


def invoke(*args) -> Result:
    return Result(*workbench(*args))


pytest.importorskip("tokenizers", reason="the extra 'drafting'")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A Hugging Face folder of a tiny Llama with a byte-level tokenizer, and prompts."""
    folder = tmp_path_factory.mktemp("model")
    target = tiny_target(3, vocabulary=258, std=0.25).float()
    config = {
        "model_type": "llama",
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 4,
        "intermediate_size": 24,
        "vocab_size": 258,
        "tie_word_embeddings": True,
        "max_position_embeddings": 256,
        "eos_token_id": 257,
        "rms_norm_eps": 1e-6,
    }
    (folder / "config.json").write_text(json.dumps(config))
    save_file({f"model.{k}": v for k, v in target.state_dict().items()}, folder / "m.safetensors")
    save_tokenizer(folder)
    settings = {"chat_template": TEMPLATE, "eos_token": {"content": "<|end|>"}}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    lines = [
        {"id": f"{'sum' if i % 2 else 'talk'}-{i}", "domain": "math" if i % 2 else "chat",
         "benchmark": "sum" if i % 2 else "talk", "turns": [f"What is {i} + {i}?", "Why?"]}
        for i in range(24)
    ]  # fmt: skip
    with gzip.open(folder / "prompts.jsonl.gz", "wt") as file:
        file.write("\n".join(json.dumps(line) for line in lines))
    return folder


def train(folder, out, *more):
    return invoke(
        "train", "--target", folder, "--prompts", folder / "prompts.jsonl.gz", "--out", out,
        "--layers", 1, "--block-size", 3, "--markov-rank", 4, "--max-new-tokens", 20,
        "--sequences", 4, "--anchors", 4, "--steps", 12, "--save-every", 5, *more,
    )  # fmt: skip


@pytest.mark.parametrize("head", ["dflash", "markov", "rnn"])
def test_from_prompts_to_a_simulation(folder, tmp_path, head):
    result = train(folder, tmp_path / "run", "--head", head)
    assert result.exit_code == 0, result.stderr
    assert "12 steps" in result.stdout
    trace = tmp_path / "t.jsonl.gz"
    record = (
        "record", "--target", folder, "--drafter", tmp_path / "run",
        "--prompts", folder / "prompts.jsonl.gz", "--max-new-tokens", 24, "--out",
    )  # fmt: skip
    result = invoke(*record, trace)
    assert result.exit_code == 0, result.stderr
    assert "24 requests" in result.stdout
    assert invoke(*record, tmp_path / "again.jsonl.gz").exit_code == 0
    assert trace.read_bytes() == (tmp_path / "again.jsonl.gz").read_bytes()
    read = read_trace(trace)
    assert read.block_size == 3 and set(read.domain_names) == {"math", "chat"}
    assert read.header.confidence_sees == ("token" if head == "dflash" else "prefix")

    drawn = tmp_path / "e.png"
    result = invoke("evaluate", trace, "--json", tmp_path / "e.json", "--plot", drawn)
    assert result.exit_code == 0, result.stderr
    assert drawn.read_bytes().startswith(b"\x89PNG")
    [found] = json.loads((tmp_path / "e.json").read_text())["traces"]
    assert [group["name"] for group in found["benchmarks"]] == ["talk", "sum"]
    assert all(group["requests"] == 12 for group in found["domains"])
    result = invoke("simulate", "--trace", trace, "--concurrency", 2, "--scheduler", "static:3")
    assert result.exit_code == 0, result.stderr


def test_domain_and_limit(folder, tmp_path):
    assert train(folder, tmp_path / "run", "--limit", 4).exit_code == 0
    out = tmp_path / "t.jsonl"
    result = invoke(
        "record", "--target", folder, "--drafter", tmp_path / "run", "--prompts",
        folder / "prompts.jsonl.gz", "--domain", "math", "--limit", 3, "--temperature", 0,
        "--max-new-tokens", 8, "--out", out,
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    read = read_trace(out)
    assert read.ids == ["sum-1", "sum-3", "sum-5"] and read.header.domain == "math"
    assert read.header.temperature == 0


def test_an_interrupted_training_ends_the_same(folder, tmp_path, monkeypatch):
    assert train(folder, tmp_path / "whole").exit_code == 0
    from workbench.drafting.training import Trainer

    step = Trainer.train_step

    def breaks(self):
        if self.step == 7:
            raise KeyboardInterrupt
        return step(self)

    monkeypatch.setattr(Trainer, "train_step", breaks)
    assert train(folder, tmp_path / "cut").exit_code == 130
    monkeypatch.undo()
    assert "holds a checkpoint" in train(folder, tmp_path / "cut").stderr
    assert train(folder, tmp_path / "cut", "--resume").exit_code == 0
    whole, cut = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "cut"))
    assert all(torch.equal(whole[name], cut[name]) for name in whole)


@pytest.mark.parametrize(
    "change, message",
    [
        (("--block-size", "2"), "the checkpoint has block_size 3, these options 2"),
        (("--mask-token-id", "5"), "the checkpoint has mask_token_id 257, these options 5"),
        (("--target-layers", "1"), "target_layer_ids (0, 1), these options (0,)"),
        (("--head", "rnn"), "markov_head_type vanilla, these options rnn"),
        (("--layers", "2"), "the checkpoint has layers 1, these options 2"),
    ],
)
def test_another_drafter_is_not_resumed(folder, tmp_path, change, message):
    assert train(folder, tmp_path / "run").exit_code == 0
    before = (tmp_path / "run" / "config.json").read_bytes()
    result = train(folder, tmp_path / "run", "--resume", "--steps", 14, *change)
    assert result.exit_code == 2 and result.stderr.count("\n") == 1
    assert message in result.stderr
    assert (tmp_path / "run" / "config.json").read_bytes() == before


def test_prompts_too_long_are_named_before_anything_is_recorded(folder, tmp_path):
    assert train(folder, tmp_path / "run", "--steps", 1).exit_code == 0
    out = tmp_path / "t.jsonl"
    result = record(folder, tmp_path / "run", out, "--max-new-tokens", 240)
    assert result.exit_code == 2 and result.stderr.count("\n") == 1
    # the 11th: two parts of five are full of shorter ones
    assert "prompts.jsonl.gz: id 'talk-10': has 18 tokens, 1 to 16 fit beside 240 new ones" in (
        result.stderr
    )
    result = record(folder, tmp_path / "run", out, "--max-new-tokens", 256)
    assert "--max-new-tokens 256: leaves no room" in result.stderr
    assert not out.exists() and not (tmp_path / "t.jsonl.parts").exists()


def record(folder, run, out, *more):
    return invoke(
        "record", "--target", folder, "--drafter", run, "--prompts", folder / "prompts.jsonl.gz",
        "--max-new-tokens", 24, "--part", 5, "--out", out, *more,
    )  # fmt: skip


def test_an_interrupted_recording_ends_the_same(folder, tmp_path, monkeypatch):
    assert train(folder, tmp_path / "run").exit_code == 0
    whole, cut = tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    result = record(folder, tmp_path / "run", whole, "--report", tmp_path / "report.json")
    assert result.exit_code == 0, result.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["requests"] == read_trace(whole).ids
    assert sum(sum(row) for row in report["judged"]) > 100
    assert all(abs(p["excess"]) < 4 * p["standard_error"] for p in report["positions"])
    from workbench.drafting.record import Recorder

    batch, done = Recorder.batch, []

    def breaks(self, *args):
        done.append(len(args[0]))
        if len(done) == 3:
            raise KeyboardInterrupt
        return batch(self, *args)

    monkeypatch.setattr(Recorder, "batch", breaks)
    assert record(folder, tmp_path / "run", cut).exit_code == 130
    assert not cut.exists()
    assert sorted(p.name for p in (tmp_path / "cut.jsonl.parts").iterdir()) == [
        "00000.safetensors",
        "00001.safetensors",
    ]
    result = record(folder, tmp_path / "run", cut, "--seed", 1)
    assert result.exit_code == 2 and "holds another recording's blocks" in result.stderr
    assert record(folder, tmp_path / "run", cut).exit_code == 0
    assert done == [5] * 3 + [5, 5, 4]
    assert cut.read_bytes() == whole.read_bytes()
    assert not (tmp_path / "cut.jsonl.parts").exists()


@pytest.mark.parametrize(
    "change, message",
    [
        (("--target", "missing"), "missing/config.json: cannot be read"),
        (("--prompts", "missing.jsonl"), "missing.jsonl"),
        (("--target-layers", "3"), "the target has 2 layers"),
        (("--mask-token-id", "258"), "the target has 258 tokens"),
        (("--max-new-tokens", "300"), "--max-new-tokens 300: leaves no room for a prompt"),
    ],
)
def test_bad_input_is_one_line(folder, tmp_path, change, message):
    result = train(folder, tmp_path / "run", *change)
    assert result.exit_code == 2
    assert message in result.stderr and result.stderr.count("\n") == 1


def test_other_answers_in_the_folder_are_not_trained_on(folder, tmp_path):
    assert train(folder, tmp_path / "run").exit_code == 0
    result = train(folder, tmp_path / "run", "--resume", "--seed", 1)
    assert result.exit_code == 2 and "holds answers to other prompts" in result.stderr


def test_without_torch_one_line_says_what_to_install(folder, tmp_path, monkeypatch):
    for name in list(sys.modules):
        if name.startswith("workbench.drafting."):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    result = train(folder, tmp_path / "run")
    assert result.exit_code == 2
    assert "torch is not installed; pip install '.[drafting]'" in result.stderr


@pytest.mark.parametrize(
    "layers, chosen", [(1, (0,)), (2, (0, 1)), (6, (0, 1, 2, 4, 5)), (36, (1, 9, 17, 25, 33))]
)
def test_layers_chosen_for_the_drafter(layers, chosen):
    """The last: those of DeepSpec's Qwen3-4B configuration."""
    from workbench.cli.train import _drafter_config

    target = tiny_target(layers=layers).config
    assert _drafter_config(target, "dflash", 7, 5, None, 256, None).target_layer_ids == chosen
