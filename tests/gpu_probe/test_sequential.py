import pytest
import torch

from gpu_probe.batch import make_batch
from gpu_probe.decoder import Decoder
from gpu_probe.errors import ProbeError
from gpu_probe.ladders import capture_sizes
from gpu_probe.sequential import Sequential
from gpu_probe.shapes import DRAFTERS, MODELS

TINY = MODELS["tiny"]


def drafted(kind, tokens, generator, seed=0):
    target = Decoder(TINY, "cpu", torch.float64, positions=128)
    drafter = Sequential(DRAFTERS[kind], target)
    requests = 3
    batches = [make_batch([4] * requests, [20] * requests, 12, 512, "cpu", generator)]
    for i in range(tokens - 1):
        batches.append(make_batch([1] * requests, [24 + i] * requests, 12, 512, "cpu", generator))
    torch.manual_seed(seed)
    model = drafter.model
    cache = torch.randn(
        drafter.cached_layers, 12, 2, model.kv_heads, 16, model.head, dtype=torch.float64
    )
    width = DRAFTERS[kind].target_layers * TINY.hidden
    features = torch.randn(12, width, dtype=torch.float64)
    return drafter.forward(features, batches, cache)


@pytest.mark.parametrize("kind", ["eagle3", "mtp", "draft-model"])
def test_it_drafts_a_token_per_pass_and_request(kind, generator):
    tokens = drafted(kind, 5, generator)
    assert tokens.shape == (5, 3)
    assert int(tokens.min()) >= 0 and int(tokens.max()) < TINY.vocabulary


@pytest.mark.parametrize("kind", ["eagle3", "mtp"])
def test_the_first_token_depends_on_the_targets_hidden_states(kind):
    first = {
        tuple(drafted(kind, 1, torch.Generator().manual_seed(0), seed)[0].tolist())
        for seed in range(5)
    }
    assert len(first) > 1


def test_a_longer_draft_begins_with_the_shorter_one():
    short, long = (drafted("mtp", n, torch.Generator().manual_seed(0)) for n in (2, 5))
    assert short.tolist() == long[:2].tolist()


def test_ladders():
    assert capture_sizes("vllm", 8)[:5] == (1, 2, 4, 8, 16)
    assert capture_sizes("vllm", 8)[-1] == 512
    assert capture_sizes("sglang", 8)[-1] == 2048
    assert capture_sizes("4,1,2", 8) == (1, 2, 4)
    for wrong in ("", "a,b", "0,4", "-3"):
        with pytest.raises(ProbeError, match="--graphs"):
            capture_sizes(wrong, 8)
