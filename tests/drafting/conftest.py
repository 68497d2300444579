"""Without the extra ``drafting`` most tests here are skipped, and say why."""

import importlib.util
import sys

import pytest


def _missing(name: str) -> bool:
    # a module that is blocked by None has no spec to look for
    return (name in sys.modules and sys.modules[name] is None) or not importlib.util.find_spec(name)


FREE = ("test_prompts", "test_evaluation", "test_results", "test_counting")  # of PyTorch
MISSING = [name for name in ("torch", "safetensors", "tokenizers", "jinja2") if _missing(name)]


class _Skipped(pytest.Module):
    def collect(self):
        pytest.skip(f"{MISSING[0]} is not installed: the extra 'drafting'", allow_module_level=True)


def pytest_pycollect_makemodule(module_path, parent):
    if MISSING and module_path.stem not in FREE:
        return _Skipped.from_parent(parent, path=module_path)


@pytest.fixture(autouse=True)
def _one_thread():
    if MISSING:
        yield
        return
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # tiny matrices: threads would only wait for each other
    yield
    torch.set_num_threads(threads)
