"""GGUF: a file written here, and SmolLM2-135M-Instruct where it is at hand."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

gguf = pytest.importorskip("gguf", reason="reads GGUF: the extra 'drafting'")

from benchmarks.drafters.folder import dequantise  # noqa: E402
from tests.drafting.samples import seeded, tiny_drafter, tiny_target  # noqa: E402
from workbench.drafting import hf_weights  # noqa: E402
from workbench.drafting.decode import Decoder  # noqa: E402
from workbench.drafting.gguf_weights import NAMES, halves, load_target, load_text  # noqa: E402
from workbench.drafting.sampling import RandomChoices  # noqa: E402
from workbench.errors import InputError  # noqa: E402
from workbench.schedulers import create  # noqa: E402

SMOLLM2 = os.environ.get("WORKBENCH_SMOLLM2_GGUF", "")


def interleaved(weight, heads):
    """What llama.cpp's converter does to a rotary projection; ``halves`` undoes it."""
    return weight.unflatten(0, (heads, 2, -1)).transpose(1, 2).reshape(weight.shape)


def write(path, target, family, *, kinds=("Q8_0", "Q4_1", "F32"), **more):
    """``target`` in a GGUF: matrices quantised in turn by ``kinds``."""
    writer = gguf.GGUFWriter(path, family)
    config = target.config
    writer.add_context_length(config.context)
    writer.add_embedding_length(config.hidden)
    writer.add_block_count(config.layers)
    writer.add_feed_forward_length(config.ffn)
    writer.add_head_count(config.heads)
    writer.add_head_count_kv(config.kv_heads)
    writer.add_key_length(config.head_dim)
    writer.add_rope_freq_base(config.rope_theta)
    writer.add_layer_norm_rms_eps(config.rms_eps)
    writer.add_eos_token_id(2)
    for name, value in more.items():
        writer.add_string(name.replace("__", "."), value)
    back = {theirs: mine for mine, theirs in NAMES.items()}
    for index, (name, tensor) in enumerate(target.state_dict().items()):
        parts = name.removesuffix(".weight").split(".")
        prefix = f"blk.{parts[1]}." if parts[0] == "layers" else ""
        ours = back[".".join(parts[2:] if prefix else parts)]
        if family == "llama" and ours in ("attn_q", "attn_k"):
            tensor = interleaved(tensor, config.heads if ours == "attn_q" else config.kv_heads)
        values = tensor.float().numpy()
        kind = gguf.GGMLQuantizationType[kinds[index % len(kinds)] if values.ndim == 2 else "F32"]
        data = gguf.quants.quantize(values, kind)
        writer.add_tensor(f"{prefix}{ours}.weight", data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_weights_come_back(tmp_path, family):
    target = tiny_target(
        hidden=64, ffn=96, heads=4, kv_heads=2, head_dim=16, qk_norm=family == "qwen3",
        tied=family == "llama", rope_theta=77_000.0, rms_eps=1e-5,
    )  # fmt: skip
    path = tmp_path / "model.gguf"
    write(path, target, family, kinds=("F32",))
    read = load_target(path)
    assert read.config.eos == (2,) and read.config.name == "model"
    assert read.config.rope_theta == 77_000 and read.config.tied == target.config.tied
    for name, tensor in target.state_dict().items():
        assert torch.equal(read.state_dict()[name], tensor.float()), name

    write(path, target, family)  # quantised: within half a step of the largest block
    for name, tensor in load_target(path).state_dict().items():
        wanted = target.state_dict()[name].float()
        assert (tensor - wanted).abs().max() <= wanted.abs().max() / 7, name


def test_permutation_of_rotary_rows():
    weight = torch.arange(8.0)[:, None]  # one head of 8 rows
    assert interleaved(weight, 1).flatten().tolist() == [0, 4, 1, 5, 2, 6, 3, 7]
    assert torch.equal(halves(interleaved(weight, 2), 2), weight)


def test_bad_files_are_one_line(tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF rubbish")
    with pytest.raises(InputError, match=r"model\.gguf: is no readable GGUF"):
        load_target(path)
    with pytest.raises(InputError, match="is no readable GGUF"):
        load_target(tmp_path / "missing.gguf")
    target = tiny_target(hidden=32, head_dim=8)
    write(path, target, "gemma", kinds=("F32",))
    with pytest.raises(InputError, match=r"general\.architecture: is a 'gemma' model"):
        load_target(path)
    write(path, target, "llama", kinds=("F32",), llama__rope__scaling__type="yarn")
    with pytest.raises(InputError, match="scaled RoPE"):
        load_target(path)
    with pytest.raises(InputError, match=r"tokenizer\.ggml\.model: the field is missing"):
        load_text(path)


@pytest.mark.slow
@pytest.mark.skipif(not SMOLLM2, reason="set WORKBENCH_SMOLLM2_GGUF to SmolLM2's GGUF")
class TestSmolLM2:
    def test_shape_and_text(self):
        target, text = load_target(SMOLLM2), load_text(SMOLLM2)
        assert sum(p.numel() for p in target.parameters()) == 134_515_008
        prompt = text.chat(["What is the capital of France?"])
        assert prompt[0] == 1 and text.decode([prompt[1]]) == "system"
        decoder = Decoder(
            target, None, create("none", 1), RandomChoices(np.random.default_rng(0)),
            temperature=0.0, max_new_tokens=24,
        )  # fmt: skip
        [request] = decoder.decode([prompt])
        assert request.tokens[-1] == 2, "it ends by itself"
        assert "Paris" in text.decode(request.tokens)

    def test_tokens_equal_transformers(self):
        transformers = pytest.importorskip("transformers", reason="compares with transformers")
        path = Path(SMOLLM2)
        theirs = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
        text = load_text(SMOLLM2)
        for sample in ("def f(x):\n    return x**2  # 1234", "naïve café — 3.14159\t\n\n x", "a"):
            assert text.encode(sample) == theirs(sample, add_special_tokens=False).input_ids
            assert text.decode(text.encode(sample)) == sample
        chat = [{"role": "user", "content": "Hello, 12 apples?"}]
        wanted = theirs.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
        assert text.chat(["Hello, 12 apples?"]) == text.encode(wanted)

    def test_logits_equal_transformers(self, tmp_path):
        """On the same weights: the folder that a run dequantises them into."""
        transformers = pytest.importorskip("transformers", reason="compares with transformers")
        dequantise(Path(SMOLLM2), tmp_path)
        theirs = transformers.AutoModelForCausalLM.from_pretrained(
            tmp_path, dtype=torch.float32, attn_implementation="eager"
        ).eval()
        tokens = torch.randint(0, 49_152, (2, 32), generator=seeded(0))
        with torch.no_grad():
            wanted = theirs(tokens).logits
        for target in (load_target(SMOLLM2), hf_weights.load_target(tmp_path)):
            out = target(tokens, torch.zeros(2, dtype=torch.long), target.new_cache(2, 32))
            torch.testing.assert_close(target.logits(out.hidden), wanted, rtol=0, atol=1e-4)

    def test_greedy_text_survives_speculation(self):
        """Token for token, with an untrained drafter, of which nearly nothing is accepted."""
        target, text = load_target(SMOLLM2), load_text(SMOLLM2)
        drafter = tiny_drafter(
            target, "markov", heads=9, kv_heads=3, head_dim=64, target_layer_ids=(1, 14, 27)
        ).float()
        prompts = [text.chat([ask]) for ask in ("Name three fruits.", "def add(a, b):", "2+2?")]
        outputs = [
            Decoder(
                target, None if spec == "none" else drafter, create(spec, 3),
                RandomChoices(np.random.default_rng(0)), temperature=0.0, max_new_tokens=12,
            ).decode(prompts)
            for spec in ("none", "static:3", "threshold:0.5")
        ]  # fmt: skip
        plain, *others = [[request.tokens for request in requests] for requests in outputs]
        assert all(other == plain for other in others)
