"""Dimensions of the models that the probe can build. Weights are random, only shapes matter."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelShape:
    """A dense decoder with grouped-query attention, QK-norm, RoPE and SwiGLU (Qwen3's layout)."""

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head: int
    mlp: int
    vocabulary: int
    rope_theta: float = 1e6
    norm_eps: float = 1e-6

    @property
    def qkv(self) -> int:
        """Output features of the fused query, key and value projection."""
        return (self.heads + 2 * self.kv_heads) * self.head

    @property
    def layer_weights(self) -> int:
        """Parameters of one layer, norms included."""
        matrices = self.hidden * (self.qkv + self.heads * self.head + 3 * self.mlp)
        return matrices + 2 * self.hidden + 2 * self.head

    @property
    def parameters(self) -> int:
        """All parameters, with an output layer of its own (untied embedding)."""
        tables = 2 * self.vocabulary * self.hidden
        return self.layers * self.layer_weights + tables + self.hidden

    def kv_bytes(self, layers: int | None = None, width: int = 2) -> int:
        """Bytes of keys and values that one token keeps in ``layers`` layers (default: all)."""
        return 2 * self.kv_heads * self.head * width * (self.layers if layers is None else layers)


@dataclass(frozen=True)
class DrafterShape:
    """A DFlash-shaped parallel drafter; with ``markov_rank`` > 0 DSpark's sequential head on top.

    Its layers have the target's dimensions; embedding and output layer are the target's
    (arXiv 2602.06036; 2607.05147 §3.1). ``target_layers`` is how many of the target's hidden
    states are concatenated into the context features.
    """

    kind: str
    layers: int = 5
    target_layers: int = 5
    markov_rank: int = 256


MODELS = {
    shape.name.lower(): shape
    for shape in (
        ModelShape("Qwen3-8B", 36, 4096, 32, 8, 128, 12288, 151936),
        ModelShape("tiny", 2, 64, 4, 2, 16, 96, 512),
    )
}
DRAFTERS = {
    "dspark": DrafterShape("dspark"),
    "dflash": DrafterShape("dflash", markov_rank=0),
}
