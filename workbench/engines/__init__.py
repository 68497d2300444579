"""A choice of scheduler and limits as an engine's own settings: vLLM, SGLang, TensorRT-LLM."""

from workbench.engines.config import BY_BATCH, ENGINES, Config, Deployment, export
from workbench.engines.tables import additive_table, batch_table

__all__ = [
    "BY_BATCH",
    "ENGINES",
    "Config",
    "Deployment",
    "additive_table",
    "batch_table",
    "export",
]
