"""FlashAttention out of vLLM: what it is called with, and its results where it is installed."""

import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch

from gpu_probe import cli, flash, options, reference
from gpu_probe.batch import PAGE_TOKENS, make_batch
from gpu_probe.checks import relative_error
from gpu_probe.errors import ProbeError


class Library:
    """The two functions of vllm.vllm_flash_attn, in plain torch, that note their calls."""

    def __init__(self):
        self.schedules, self.calls = [], []

    def get_scheduler_metadata(self, **given):
        self.schedules.append(given)
        return len(self.schedules)

    def flash_attn_varlen_func(self, q, k, v, **given):
        self.calls.append(given)
        starts = given["cu_seqlens_q"].tolist()
        for r, length in enumerate(given["seqused_k"].tolist()):
            rows, pages = slice(starts[r], starts[r + 1]), given["block_table"][r].long()
            # [KV heads, tokens, head] of a request, each KV head for its group of query heads
            own = [t[pages].flatten(0, 1)[:length].transpose(0, 1) for t in (k, v)]
            own = [t.repeat_interleave(q.shape[1] // t.shape[0], 0) for t in own]
            queries = q[rows].transpose(0, 1)
            seen = torch.ones(queries.shape[1], length, dtype=torch.bool)
            if given["causal"]:
                seen = seen.tril(length - queries.shape[1])
            y = torch.nn.functional.scaled_dot_product_attention(queries, *own, attn_mask=seen)
            given["out"][rows] = y.transpose(0, 1)


@pytest.fixture
def made(generator):
    """Two layers' pages, a ragged batch with fillers, and its queries."""
    batch = make_batch([3, 1, 8], [40, 0, 100], 40, 100, "cpu", generator, padded=16)
    pages = torch.randn(2, 40, 2, 2, PAGE_TOKENS, 8, dtype=torch.float64)
    return batch, pages, torch.randn(16, 4, 8, dtype=torch.float64)


@pytest.mark.parametrize("causal", [True, False])
def test_it_gets_the_pages_as_it_wants_them(made, causal):
    batch, pages, q = made
    found = flash.Flash(Library(), "made up")(q, pages[0], batch, causal)
    assert torch.equal(found[batch.live :], torch.zeros(4, 4, 8))
    truth = reference.attention(q, pages[0], batch, causal)
    assert relative_error(found, truth) < 1e-12


def test_a_batch_is_scheduled_once_for_all_layers(made):
    batch, pages, q = made
    kernel = flash.Flash(Library(), "made up")
    out = torch.full_like(q, 7.0)
    for layer in pages:
        assert kernel(q, layer, batch, out=out) is out
    kernel(q, pages[0], batch, causal=False)
    schedules, calls = kernel.library.schedules, kernel.library.calls
    assert [one["causal"] for one in schedules] == [True, False]
    assert [one["scheduler_metadata"] for one in calls] == [1, 1, 2]
    same = ("max_seqlen_q", "max_seqlen_k", "causal", "num_splits")
    for call in calls:
        schedule = schedules[call["scheduler_metadata"] - 1]
        assert {key: call[key] for key in same} == {key: schedule[key] for key in same}
        assert call["num_splits"] == flash.SPLITS and call["max_seqlen_q"] == 8


def test_steps_too_large_for_a_graph_leave_the_splits_to_the_library(generator):
    tokens = flash.SPLIT_TOKENS + 1
    batch = make_batch([tokens], [0], 200, 100, "cpu", generator)
    kernel = flash.Flash(Library(), "made up")
    kernel(torch.randn(tokens, 1, 8), torch.randn(200, 2, 1, PAGE_TOKENS, 8), batch)
    assert kernel.library.calls[0]["num_splits"] == 0


def vllm(supported):
    """A package that says so, or why not."""
    library = SimpleNamespace(
        is_fa_version_supported=lambda version: supported,
        fa_version_unsupported_reason=lambda version: "FA3 is for Hopper",
    )
    package = ModuleType("vllm")
    package.__version__, package.vllm_flash_attn = "0.26.0", library
    return package


def test_it_is_named_or_the_reason_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", vllm(True))
    assert flash.load().name == "FlashAttention 3 of vLLM 0.26.0"
    monkeypatch.setitem(sys.modules, "vllm", vllm(False))
    with pytest.raises(ProbeError, match=r"vLLM 0.26.0: FA3 is for Hopper"):
        flash.load()
    monkeypatch.setitem(sys.modules, "vllm", None)  # as if it were not there
    with pytest.raises(ProbeError, match="cannot be loaded: ModuleNotFoundError"):
        flash.load()


@pytest.mark.parametrize(
    ("attention", "found"), [("auto", None), ("triton", None), ("flash", ProbeError)]
)
def test_without_the_library_our_own_kernel_is_measured(monkeypatch, capsys, attention, found):
    monkeypatch.setitem(sys.modules, "vllm", None)
    args = cli.parser().parse_args(["--out", "x.json", "--attention", attention])
    if found is None:
        assert options.library(args) is None
        assert ("own attention kernel" in capsys.readouterr().err) == (attention == "auto")
    else:
        with pytest.raises(found, match="--attention: FlashAttention 3"):
            options.library(args)


def test_a_cpu_has_no_library(capsys, tmp_path):
    options = ["--device", "cpu", "--model", "tiny", "--out", str(tmp_path / "x.json")]
    assert cli.main([*options, "--attention", "flash"]) == 2
    assert "--attention: flash needs a GPU" in capsys.readouterr().err


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU")
@pytest.mark.parametrize("heads", [(32, 8), (32, 4), (8, 1)])
@pytest.mark.parametrize("causal", [True, False])
def test_it_agrees_with_float64(heads, causal):
    try:
        kernel = flash.load()
    except ProbeError as error:
        pytest.skip(str(error))
    cpu = torch.Generator().manual_seed(0)
    for queries, contexts in (([8, 1, 3, 5, 8], [0, 700, 31, 1023, 3000]), ([1] * 64, [900] * 64)):
        tokens = sum(queries) + 3
        batch = make_batch(queries, contexts, 6000, 100, "cuda", cpu, tokens)
        pages = torch.randn(6000, 2, heads[1], PAGE_TOKENS, 128, device="cuda").bfloat16()
        q = torch.randn(tokens, heads[0], 128, device="cuda").bfloat16()
        truth = reference.attention(q.double(), pages.double(), batch, causal)
        for _ in range(2):  # the schedule is used again
            found = kernel(q, pages, batch, causal)
        assert relative_error(found, truth) < 1e-2
        assert not found[batch.live :].any()
