"""Decode steps of a real engine, for the probe's to be held against: vLLM with random weights.

    python benchmarks/vllm_steps.py --model qwen3-30b-a3b --context 1024 --out steps.json

Needs a GPU and vLLM (0.26 was used). Requests with distinct random prompts of ``context`` tokens,
all in the cache, decode together; a step is the time between two outputs of the engine core, which
leaves out detokenising and HTTP. Tokens are sampled at temperature 1: random weights choose alike
at 0, and a Mixture-of-Experts model's tokens would then share their experts.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.kernel_times import kernel_times
from gpu_probe.shapes import MODELS, ModelShape

WARM_UP = 15  # decode steps before the measured ones


def config(shape: ModelShape) -> dict:
    """A Hugging Face config.json of the shape, in Qwen3's layout."""
    document = {
        "architectures": ["Qwen3MoeForCausalLM" if shape.experts else "Qwen3ForCausalLM"],
        "model_type": "qwen3_moe" if shape.experts else "qwen3",
        "attention_bias": False,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "head_dim": shape.head,
        "hidden_act": "silu",
        "hidden_size": shape.hidden,
        "intermediate_size": shape.mlp,
        "max_position_embeddings": 40960,
        "num_attention_heads": shape.heads,
        "num_hidden_layers": shape.layers,
        "num_key_value_heads": shape.kv_heads,
        "rms_norm_eps": shape.norm_eps,
        "rope_theta": shape.rope_theta,
        "tie_word_embeddings": shape.tied,
        "torch_dtype": "bfloat16",
        "vocab_size": shape.vocabulary,
    }
    if shape.experts:
        document |= {
            "decoder_sparse_step": 1,
            "mlp_only_layers": [],
            "moe_intermediate_size": shape.mlp,
            "norm_topk_prob": True,
            "num_experts": shape.experts,
            "num_experts_per_tok": shape.active,
        }
    return document


def make_engine(folder: str, requests: int, context: int, cache_gib: float):
    """vLLM's engine in this process, its weights random."""
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    os.environ.setdefault("VLLM_USE_FLASHINFER_SAMPLER", "0")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from vllm.engine.arg_utils import EngineArgs
    from vllm.v1.engine.llm_engine import LLMEngine

    return LLMEngine.from_engine_args(
        EngineArgs(
            model=folder,
            load_format="dummy",
            skip_tokenizer_init=True,
            dtype="bfloat16",
            max_num_seqs=requests,
            max_num_batched_tokens=8192,
            max_model_len=context + 1024,
            kv_cache_memory_bytes=int(cache_gib * 2**30),
        )
    )


def decode_steps(
    engine, requests: int, context: int, steps: int, draw: random.Random, profiled: bool
) -> dict:
    """Seconds between outputs while all requests decode; afterwards they are aborted.

    profiled: with what the kernels of a step take, by kind.
    """
    from vllm import SamplingParams

    params = SamplingParams(max_tokens=900, ignore_eos=True, temperature=1.0, detokenize=False)
    for i in range(requests):
        prompt = {"prompt_token_ids": [draw.randrange(2, 100_000) for _ in range(context)]}
        engine.add_request(f"{requests}-{i}", prompt, params)
    core = engine.engine_core

    def one_step() -> list:
        while True:
            outputs = core.get_output().outputs
            if outputs:  # else a batch was queued and none has ended
                return outputs

    started: set[str] = set()
    seconds, distinct, warm = [], [], 0
    last = time.perf_counter()
    while len(seconds) < steps:
        outputs = one_step()
        now = time.perf_counter()
        if len(started) == requests and len(outputs) == requests:
            warm += 1
            if warm > WARM_UP:
                seconds.append(now - last)
                distinct.append(len({one.new_token_ids[0] for one in outputs}))
        started.update(one.request_id for one in outputs)
        last = now
    kernels = kernel_times(one_step, 6) if profiled else None
    core.abort_requests(sorted(started))
    for _ in range(4):  # empties the queue of batches under way
        core.get_output()
    tenths = statistics.quantiles(seconds, n=10, method="inclusive")
    return {
        "requests": requests,
        "context": context,
        "step_ms": round(1e3 * statistics.median(seconds), 4),
        "p10": round(1e3 * tenths[0], 4),
        "p90": round(1e3 * tenths[-1], 4),
        "distinct_tokens": min(distinct),
        **({"kernels_ms": kernels} if kernels else {}),
    }


@click.command(help=__doc__)
@click.option("--model", type=click.Choice(sorted(MODELS)), default="qwen3-8b", show_default=True)
@click.option("--context", default=1024, show_default=True)
@click.option("--requests", default="1,8,32,64,128,256", show_default=True)
@click.option("--steps", default=60, show_default=True)
@click.option("--cache-gib", default=50.0, show_default=True)
@click.option("--kernels", is_flag=True, help="profile six steps of each kind of batch")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True)
def main(
    model: str, context: int, requests: str, steps: int, cache_gib: float, kernels: bool, out: Path
) -> None:
    counts = [int(one) for one in requests.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(config(MODELS[model])))
        engine = make_engine(folder, max(counts), context, cache_gib)
        import torch
        import vllm

        document = {
            "engine": f"vLLM {vllm.__version__}",
            "torch": torch.__version__,
            "gpu": torch.cuda.get_device_name(),
            "target": MODELS[model].name,
            "rows": [],
        }
        draw = random.Random(0)
        for count in counts:
            row = decode_steps(engine, count, context, steps, draw, kernels)
            click.echo(json.dumps(row))
            document["rows"].append(row)
            out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
