"""Every Triton kernel against the float64 reference, where there is a GPU to run it."""

import pytest
import torch

from gpu_probe.checks import LARGEST_ERROR, check_kernels, relative_error
from gpu_probe.shapes import MODELS, ModelShape

NAMES = {"add_rmsnorm", "residual", "swiglu", "norm_rope", "append", "attention", "prefill"}


def test_relative_error_of_known_vectors():
    assert relative_error(torch.tensor([3.0, 4.4]), torch.tensor([3.0, 4.0])) == pytest.approx(0.08)
    assert relative_error(torch.tensor([float("nan")]), torch.tensor([1.0])) == float("inf")


def test_the_check_itself_runs_and_float32_lies_far_under_the_limit():
    errors = check_kernels(MODELS["tiny-moe"], "cpu", torch.float32, seed=3)
    assert set(errors) == {*NAMES, "experts"}
    assert max(errors.values()) < 1e-5


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "shape",
    [MODELS["qwen3-8b"], MODELS["qwen3-30b-a3b"], ModelShape("odd", 1, 1000, 12, 6, 64, 520, 100)],
    ids=lambda shape: shape.name,
)
def test_kernels_agree_with_float64(shape, seed):
    errors = check_kernels(shape, "cuda", torch.bfloat16, seed)
    assert set(errors) == NAMES | ({"experts"} if shape.experts else set())
    assert max(errors.values()) < LARGEST_ERROR
