"""Drafters on disk: the workbench's own, DeepSpec's and DFlash's layouts."""

import json
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.drafting.samples import HEADS, seeded, tiny_drafter, tiny_target
from workbench.drafting.checkpoints import load_drafter, save_drafter
from workbench.errors import InputError


def drafts(target, drafter):
    tokens = torch.randint(0, 11, (1, 9), generator=seeded(0))
    out = target(
        tokens, torch.zeros(1, dtype=torch.long), target.new_cache(1, 9),
        collect=drafter.config.target_layer_ids,
    )  # fmt: skip
    states = drafter.block_states(tokens, out.features, torch.tensor([[5]]))
    return drafter.teacher_forced(states, torch.tensor([[[1, 2, 3]]]))


@pytest.mark.parametrize("head", HEADS)
def test_what_was_saved_is_loaded(tmp_path, head):
    target = tiny_target()
    drafter = tiny_drafter(target, head)
    save_drafter(tmp_path / "a" / "b", drafter, target)
    loaded = load_drafter(tmp_path / "a" / "b", target)
    assert loaded.config == drafter.config
    for a, b in zip(drafts(target, drafter), drafts(target, loaded), strict=True):
        assert (a is None) == (b is None)
        # a mapped file's tensors are aligned otherwise, which may change the last bit of a sum
        assert a is None or torch.allclose(a, b, rtol=0, atol=1e-12)
    names = load_file(tmp_path / "a" / "b" / "model.safetensors").keys()
    assert not any("embed" in name or "lm_head" in name for name in names)


def test_converting_a_drafter_leaves_its_target_alone(tmp_path):
    target = tiny_target()
    save_drafter(tmp_path, tiny_drafter(target), target)
    low = load_drafter(tmp_path, target).to(torch.bfloat16)
    assert low.head.dtype == low.fc.weight.dtype == torch.bfloat16
    assert {p.dtype for p in target.parameters()} == {torch.float64}


def deepspec(folder, target, **changes):
    """A tiny checkpoint with the fields and tensor names of DeepSpec's Qwen3 drafters."""
    config = {
        "architectures": ["Qwen3DSparkModel"],
        "model_type": "qwen3",
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 4,
        "intermediate_size": 24,
        "vocab_size": 11,
        "rms_norm_eps": 1e-6,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1_000_000},
        "tie_word_embeddings": False,
        "layer_types": ["full_attention"],
        "num_target_layers": 2,
        "block_size": 3,
        "mask_token_id": 10,
        "target_layer_ids": [-1, 0, 1],
        "num_anchors": 512,
        "markov_rank": 5,
        "markov_head_type": "vanilla",
        "enable_confidence_head": True,
        "confidence_head_with_markov": True,
    } | changes
    inner = config["num_attention_heads"] * 4
    shapes = {
        "fc.weight": (16, 16 * 3),
        "hidden_norm.weight": (16,),
        "norm.weight": (16,),
        "embed_tokens.weight": (11, 16),
        "lm_head.weight": (11, 16),
        "layers.0.input_layernorm.weight": (16,),
        "layers.0.post_attention_layernorm.weight": (16,),
        "layers.0.self_attn.q_proj.weight": (inner, 16),
        "layers.0.self_attn.k_proj.weight": (8, 16),
        "layers.0.self_attn.v_proj.weight": (8, 16),
        "layers.0.self_attn.o_proj.weight": (16, inner),
        "layers.0.self_attn.q_norm.weight": (4,),
        "layers.0.self_attn.k_norm.weight": (4,),
        "layers.0.mlp.gate_proj.weight": (24, 16),
        "layers.0.mlp.up_proj.weight": (24, 16),
        "layers.0.mlp.down_proj.weight": (16, 24),
    }
    if config.get("markov_rank"):
        shapes |= {"markov_head.markov_w1.weight": (11, 5), "markov_head.markov_w2.weight": (11, 5)}
        if config["markov_head_type"] == "rnn":
            shapes |= {
                "markov_head.joint_proj.weight": (15, 26),
                "markov_head.joint_proj.bias": (15,),
            }
    if config.get("enable_confidence_head"):
        shapes |= {"confidence_head.proj.weight": (1, 21), "confidence_head.proj.bias": (1,)}
    rng = seeded(4)
    tensors = {name: torch.randn(shape, generator=rng) for name, shape in shapes.items()}
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    names = sorted(tensors)
    for part in (0, 1):  # sharded, as large ones are
        save_file({n: tensors[n] for n in names[part::2]}, folder / f"model-{part}.safetensors")
    return tensors


@pytest.mark.parametrize(
    "changes, kind",
    [
        ({}, "dspark-markov"),
        ({"markov_head_type": "rnn"}, "dspark-rnn"),
        ({"markov_rank": 0, "enable_confidence_head": False}, "dflash"),
    ],
)
def test_deepspec_directories_load(tmp_path, changes, kind):
    target = tiny_target()
    tensors = deepspec(tmp_path / "draft", target, **changes)
    drafter = load_drafter(tmp_path / "draft", target)
    config = drafter.config
    assert (config.kind, config.block_size, config.inputs) == (kind, 3, 3)
    assert config.qk_norm and config.rope_theta == 1_000_000
    logits, confidence = drafts(target, drafter)
    assert logits.shape == (1, 1, 3, 11) and (confidence is None) == (kind == "dflash")
    # its own head is used, not the target's
    h = torch.randn(16, generator=seeded(1)).double()
    assert torch.allclose(drafter.logits(h), tensors["lm_head.weight"].double() @ h)


def test_dflash_directory_counts_the_anchor(tmp_path):
    target = tiny_target()
    deepspec(
        tmp_path / "draft", target, architectures=["DFlashDraftModel"], block_size=4,
        markov_rank=0, enable_confidence_head=False,
        dflash_config={"mask_token_id": 9, "target_layer_ids": [-1, 0, 1]},
    )  # fmt: skip
    config = load_drafter(tmp_path / "draft", target).config
    assert (config.block_size, config.inputs, config.anchor_predicts) == (3, 4, False)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"markov_head_type": "gated"}, "head 'gated' is not supported"),
        ({"vocab_size": 12}, "vocab_size: is 12; the target's is 11"),
        ({"num_target_layers": 36}, "num_target_layers: is 36"),
        ({"target_layer_ids": [0, 1, 2]}, "target_layer_ids: is [0, 1, 2]"),
        ({"target_layer_ids": [1, 0, 1]}, "target_layer_ids: is [1, 0, 1]"),
        ({"target_layer_ids": [0, 1]}, "fc.weight: has shape [16, 48], not [16, 32]"),
        ({"mask_token_id": 11}, "mask_token_id 11"),
        ({"block_size": "seven"}, "block_size"),
        ({"markov_rank": -1}, "markov_rank: has to be a whole number of at least 0"),
        ({"num_hidden_layers": 2}, "layers.1.input_layernorm.weight: the tensor is missing"),
    ],
)
def test_what_does_not_fit_is_one_line(tmp_path, changes, message):
    target = tiny_target()
    deepspec(tmp_path / "draft", target)
    file = tmp_path / "draft" / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    with pytest.raises(InputError) as error:
        load_drafter(tmp_path / "draft", target)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_a_target_is_no_drafter(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "qwen3"}')
    with pytest.raises(InputError, match="block_size: is no drafter's configuration"):
        load_drafter(tmp_path, tiny_target())


def test_the_workbench_without_torch():
    """No command but the drafting ones imports torch."""
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import importlib, workbench\n"
        "from workbench.cli.main import COMMANDS\n"
        "for name, (module, _) in COMMANDS.items():\n"
        "    if name not in ('train', 'record', 'evaluate'): importlib.import_module(module)\n"
        "import workbench.drafting, workbench.drafting.config\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
