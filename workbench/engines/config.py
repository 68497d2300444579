"""One entry for all engines."""

from __future__ import annotations

from workbench.engines import sglang, trtllm, vllm
from workbench.engines.deployment import BY_BATCH, Config, Deployment
from workbench.errors import InputError

__all__ = ["BY_BATCH", "ENGINES", "Config", "Deployment", "export"]

_ENGINES = {"vLLM": vllm.export, "SGLang": sglang.export, "TensorRT-LLM": trtllm.export}
ENGINES = tuple(_ENGINES)


def export(engine: str, deployment: Deployment) -> Config:
    """The settings that make ``engine`` do what ``deployment`` says, as nearly as it can.

    engine: one of ``ENGINES``. Raises InputError for what the engine has no setting for.
    """
    if engine not in _ENGINES:
        raise InputError(f"no engine '{engine}'", mend=f"there are {', '.join(ENGINES)}")
    return _ENGINES[engine](deployment)
