"""Exported settings, read as a shell or a YAML reader would."""

from __future__ import annotations

import json

import numpy as np
import pytest
import yaml

from tests.engines.samples import GAMMA, deployment, flags
from workbench.engines import BY_BATCH, ENGINES, export
from workbench.errors import InputError
from workbench.serving import Options


def speculative(config) -> dict:
    return json.loads(flags(config.command)["--speculative-config"])


def trt(config) -> dict:
    return yaml.safe_load(config.files["config.yaml"])


def test_vllm_limits_graphs_and_adaptive_verification():
    config = export("vLLM", deployment("topk"))
    said = flags(config.command)
    assert said["--max-num-seqs"] == "96" and said["--max-num-batched-tokens"] == "4096"
    graphs = json.loads(said["--compilation-config"])
    assert graphs == {"cudagraph_capture_sizes": [1, 8, 64, 512], "max_cudagraph_capture_size": 512}
    assert speculative(config) == {
        "method": "dspark",
        "model": "DRAFT_MODEL",
        "enable_adaptive_verification": True,
        "num_speculative_tokens": GAMMA,
    }
    assert "--tensor-parallel-size" not in config.command
    assert (
        flags(export("vLLM", deployment("none", gpus=4)).command)["--tensor-parallel-size"] == "4"
    )


def test_vllm_fixed_lengths():
    assert "--speculative-config" not in export("vLLM", deployment("none")).command
    fixed = speculative(export("vLLM", deployment("static:3", "eagle3")))
    assert fixed == {"method": "eagle3", "model": "DRAFT_MODEL", "num_speculative_tokens": 3}
    assert speculative(export("vLLM", deployment("static:2", "mtp"))) == {
        "method": "mtp",
        "num_speculative_tokens": 2,
    }
    rows = [[1, 32, 3], [33, 128, 0]]
    table = speculative(export("vLLM", deployment(BY_BATCH, table=rows)))
    assert table["num_speculative_tokens_per_batch_size"] == rows
    assert table["num_speculative_tokens"] == 3
    off = export("vLLM", deployment(BY_BATCH, table=[[1, 96, 0]]))
    assert "--speculative-config" not in off.command


def test_a_shorter_block_is_drafted_and_what_the_checkpoint_wants_is_said():
    for engine in ENGINES:
        short, whole = (
            export(engine, deployment("topk", drafts=4)),
            export(engine, deployment("topk")),
        )
        assert "4" in short.command + "".join(short.files.values())
        assert short != whole
    vllm = export("vLLM", deployment("topk", drafts=4))
    assert speculative(vllm)["num_speculative_tokens"] == 4
    assert any("refuses fewer drafts" in note for note in vllm.notes)
    assert (
        flags(export("SGLang", deployment("topk", drafts=4)).command)[
            "--speculative-dspark-block-size"
        ]
        == "4"
    )
    assert (
        trt(export("TensorRT-LLM", deployment("topk", drafts=4)))["speculative_config"][
            "max_draft_len"
        ]
        == 4
    )


def test_sglang_topk_and_its_table():
    config = export("SGLang", deployment("topk:lag=3"))
    said = flags(config.command)
    assert said["--max-running-requests"] == "96"  # 48 if it were left out
    assert said["--speculative-num-draft-tokens"] == "8"
    assert said["--speculative-dspark-sps-table-path"] == "sps_table.json"
    assert "SGLANG_DSPARK_CONFIDENCE_RELAY_LAG_STEPS=3" in config.command
    assert "SGLANG_RAGGED_VERIFY_MODE=compact" in config.command
    table = json.loads(config.files["sps_table.json"])
    assert table["bias_seconds"] > 0
    assert table["theta_seconds"][0] == table["alpha_seconds"][0] == 0
    for axis in ("bs_probes", "m_probes"):
        assert (np.diff(table[axis]) > 0).all()
    assert table["m_probes"][-1] == 96 * 8


def test_sglang_fixed_lengths_and_other_drafters():
    fixed = export("SGLang", deployment("static:3"))
    assert "SGLANG_RAGGED_VERIFY_MODE=static" in fixed.command and not fixed.files
    assert flags(fixed.command)["--speculative-dspark-block-size"] == "3"
    heads = export("SGLang", deployment("static:2", "mtp")).command
    assert flags(heads)["--speculative-algorithm"] == "NEXTN"
    assert flags(heads)["--speculative-num-steps"] == "2"
    assert "DRAFT_MODEL" not in heads and "SGLANG_" not in heads
    plain = export("SGLang", deployment("none"))
    assert "speculative" not in plain.command


def test_trtllm():
    config = export("TensorRT-LLM", deployment("topk", gpus=2))
    assert flags(config.command)["--config"] == "config.yaml"
    said = trt(config)
    assert (said["max_batch_size"], said["max_num_tokens"]) == (96, 4096)
    assert said["tensor_parallel_size"] == 2
    assert said["speculative_config"] == {
        "decoding_type": "DSpark",
        "max_draft_len": GAMMA,
        "speculative_model": "DRAFT_MODEL",
        "enable_confidence_scheduling": True,
        "confidence_cost_table_path": "cost_table.json",
    }
    assert json.loads(config.files["cost_table.json"])["token_counts"][-1] == 96 * 8
    fixed = trt(export("TensorRT-LLM", deployment("static:3", "mtp")))
    assert fixed["speculative_config"] == {"decoding_type": "MTP", "max_draft_len": 3}
    assert "speculative_config" not in trt(export("TensorRT-LLM", deployment("none")))


@pytest.mark.parametrize("engine", ENGINES)
def test_what_an_engine_cannot_do_is_said(engine):
    with pytest.raises(InputError, match="no setting"):
        export(engine, deployment("threshold:0.5"))
    with pytest.raises(InputError, match="no drafter of kind 'ngram'"):
        export(engine, deployment("static:2", "ngram"))


@pytest.mark.parametrize("engine", ["SGLang", "TensorRT-LLM"])
def test_planners_without_a_confidence_head_and_tables_by_batch_are_vllms(engine):
    with pytest.raises(InputError, match="no setting"):
        export(engine, deployment("topk", "eagle3"))
    with pytest.raises(InputError, match="choose vLLM"):
        export(engine, deployment(BY_BATCH, table=[[1, 96, 2]]))


def test_prefix_caching_is_as_simulated():
    options = Options(prefix_caching=True)
    assert "--enable-prefix-caching" in export("vLLM", deployment("none", options=options)).command
    assert "radix" not in export("SGLang", deployment("none", options=options)).command
    assert "--disable-radix-cache" in export("SGLang", deployment("none")).command
    said = trt(export("TensorRT-LLM", deployment("none", options=options)))
    assert said["kv_cache_config"]["enable_block_reuse"] is True


def test_an_unknown_engine_is_said():
    with pytest.raises(InputError, match="there are vLLM, SGLang, TensorRT-LLM"):
        export("llama.cpp", deployment("none"))
