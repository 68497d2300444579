"""The decoder against transformers' on the same random weights, and against itself in pieces."""

import json

import pytest
import torch

from tests.drafting.samples import seeded, tiny_target
from workbench.drafting.hf_weights import load_target
from workbench.errors import InputError

SHAPE = {
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 80,
    "vocab_size": 97,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "initializer_range": 0.3,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def saved(folder, family: str, **fields):
    """A random model of transformers, saved in ``folder``."""
    transformers = pytest.importorskip("transformers", reason="compares with transformers")
    config = {"llama": transformers.LlamaConfig, "qwen3": transformers.Qwen3Config}[family]
    model = {"llama": transformers.LlamaForCausalLM, "qwen3": transformers.Qwen3ForCausalLM}[family]
    torch.manual_seed(7)
    model = model(config(**(SHAPE | fields))).eval()
    for name, parameter in model.named_parameters():
        if "norm" in name:  # ones would hide a norm that is applied in the wrong place
            parameter.data.uniform_(0.5, 1.5)
    model.save_pretrained(folder)
    return model


@pytest.mark.parametrize("family", ["llama", "qwen3"])
@pytest.mark.parametrize("tied", [True, False])
def test_logits_equal_transformers(tmp_path, family, tied):
    model = saved(tmp_path, family, tie_word_embeddings=tied, rope_theta=50_000.0)
    target = load_target(tmp_path)
    assert target.config.tied is tied and target.config.rope_theta == 50_000.0
    assert target.config.eos == (2,)
    tokens = torch.randint(0, 97, (3, 40), generator=seeded(0))
    out = target(tokens, torch.zeros(3, dtype=torch.long), target.new_cache(3, 40), collect=(-1, 1))
    theirs = model(tokens, output_hidden_states=True)
    assert theirs.logits.std() > 1  # a model that says something
    assert (target.logits(out.hidden) - theirs.logits).abs().max() <= 1e-4
    features = torch.cat([theirs.hidden_states[0], theirs.hidden_states[2]], dim=-1)
    assert (out.features - features).abs().max() <= 1e-4


def test_pieces_ragged_rows_and_rollback_equal_one_pass():
    target = tiny_target()
    rng = seeded(3)
    tokens = torch.randint(0, 11, (2, 20), generator=rng)
    zeros = torch.zeros(2, dtype=torch.long)
    whole = target(tokens, zeros, target.new_cache(2, 20), collect=(0, 1))

    cache = target.new_cache(2, 32)
    target(torch.randint(0, 11, (2, 32), generator=rng), zeros, cache)  # rubbish all over
    lengths = torch.tensor([7, 4])  # rows of different length: the second is padded
    first = target(tokens[:, :7], zeros, cache, upto=7, collect=(0, 1))
    assert torch.allclose(first.hidden[0], whole.hidden[0, :7], atol=1e-12)
    while lengths.min() < 17:
        at = lengths.clamp(max=17)
        places = at[:, None] + torch.arange(3)
        pieces = tokens.gather(1, places)
        wrong = pieces.clone()
        wrong[:, 1:] = (wrong[:, 1:] + 1) % 11
        target(wrong, at, cache)  # rejected, to be written over
        out = target(pieces, at, cache, collect=(0, 1))
        for row in range(2):
            assert torch.allclose(out.hidden[row], whole.hidden[row, places[row]], atol=1e-12)
            assert torch.allclose(out.features[row], whole.features[row, places[row]], atol=1e-12)
        lengths += torch.tensor([1, 2])


@pytest.mark.parametrize(
    "change, place",
    [
        ({"model_type": "gpt2"}, "model_type"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, "rope_parameters"),
        ({"attention_bias": True}, "attention_bias"),
        ({"hidden_size": "many"}, "hidden_size"),
        ({"intermediate_size": None}, "intermediate_size"),
        ({"num_key_value_heads": 4}, "num_key_value_heads: 6 heads cannot share 4"),
        ({"head_dim": -1}, "head_dim"),
        # these load, and compute another model
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"use_sliding_window": True}, "use_sliding_window"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "layer_types"),
        ({"intermediate_size": 81}, "mlp"),
        ({"num_hidden_layers": 2}, "layers.2"),
        ({"num_hidden_layers": 4}, "layers.3"),
    ],
)
def test_a_folder_that_does_not_fit_is_one_line(tmp_path, change, place):
    saved(tmp_path, "llama")
    file = tmp_path / "config.json"
    raw = json.loads(file.read_text())
    if "rope_scaling" in change:
        raw.pop("rope_parameters", None)
    file.write_text(json.dumps(raw | change))
    with pytest.raises(InputError) as error:
        load_target(tmp_path)
    assert place in str(error.value) and "\n" not in str(error.value)


def test_missing_files_are_named(tmp_path):
    with pytest.raises(InputError, match=r"config\.json: cannot be read"):
        load_target(tmp_path)
    saved(tmp_path, "llama")
    (tmp_path / "model.safetensors").write_bytes(b"rubbish")
    with pytest.raises(InputError, match=r"model\.safetensors: cannot be read"):
        load_target(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"holds no \*\.safetensors"):
        load_target(tmp_path)
