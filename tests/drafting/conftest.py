"""Nothing here runs without PyTorch."""

import pytest

pytest.importorskip("torch", reason="drafting needs torch: the extra 'drafting'")
pytest.importorskip("safetensors", reason="drafting needs safetensors: the extra 'drafting'")


@pytest.fixture(autouse=True)
def _one_thread():
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # tiny matrices: threads would only wait for each other
    yield
    torch.set_num_threads(threads)
