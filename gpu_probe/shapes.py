"""Dimensions of the models that the probe can build. Weights are random, only shapes matter."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelShape:
    """A decoder with grouped-query attention, QK-norm, RoPE and SwiGLU (Qwen3's layout).

    ``mlp`` is one expert's width where ``experts`` > 0; every token goes to ``active`` of them.
    ``tied``: the output layer is the embedding. ``gpus`` > 1: the dimensions are one card's shard
    of a tensor-parallel model, whose all-reduces are not part of the step.
    """

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
    experts: int = 0
    active: int = 0
    tied: bool = False
    gpus: int = 1

    @property
    def qkv(self) -> int:
        """Output features of the fused query, key and value projection."""
        return (self.heads + 2 * self.kv_heads) * self.head

    @property
    def layer_weights(self) -> int:
        """Parameters of one layer, norms included."""
        mlp = 3 * self.mlp * max(1, self.experts) + self.experts
        matrices = self.hidden * (self.qkv + self.heads * self.head + mlp)
        return matrices + 2 * self.hidden + 2 * self.head

    @property
    def parameters(self) -> int:
        """All parameters of one card; a tied output layer is counted once."""
        tables = (1 if self.tied else 2) * self.vocabulary * self.hidden
        return self.layers * self.layer_weights + tables + self.hidden

    def kv_bytes(self, layers: int | None = None, width: int = 2) -> int:
        """Bytes of keys and values that one token keeps in ``layers`` layers (default: all)."""
        return 2 * self.kv_heads * self.head * width * (self.layers if layers is None else layers)


@dataclass(frozen=True)
class DrafterShape:
    """A drafter; ``kind`` names how it drafts.

    dspark, dflash: ``layers`` of the target's dimensions over a whole block at once, from
    ``target_layers`` hidden states (arXiv 2602.06036); DSpark's sequential head of rank
    ``markov_rank`` on top, ``head`` markov or rnn (2607.05147 §3.1). eagle3: one layer whose input
    is an embedding beside a hidden state, with ``vocabulary`` of its own (2503.01840). mtp: one
    target layer behind a projection of the two, the target's output layer (DeepSeek-V3).
    draft-model: the decoder ``model``. The last three draft token by token.
    """

    kind: str
    layers: int = 5
    target_layers: int = 5
    markov_rank: int = 0
    head: str | None = None
    vocabulary: int = 0
    model: str | None = None

    @property
    def parallel(self) -> bool:
        """Whether one pass drafts the whole block."""
        return self.kind in ("dspark", "dflash")


MODELS = {
    shape.name.lower(): shape
    for shape in (
        ModelShape("Qwen3-8B", 36, 4096, 32, 8, 128, 12288, 151936),
        ModelShape("Qwen3-4B", 36, 2560, 32, 8, 128, 9728, 151936, tied=True),
        ModelShape("Qwen3-14B", 40, 5120, 40, 8, 128, 17408, 151936),
        ModelShape("Qwen3-0.6B", 28, 1024, 16, 8, 128, 3072, 151936, tied=True),
        ModelShape("Qwen3-30B-A3B", 48, 2048, 32, 4, 128, 768, 151936, experts=128, active=8),
        ModelShape("Llama-3.1-8B", 32, 4096, 32, 8, 128, 14336, 128256, 5e5, 1e-5),
        ModelShape("Llama-3.1-70B-TP8", 80, 8192, 8, 1, 128, 3584, 16032, 5e5, 1e-5, gpus=8),
        ModelShape("tiny", 2, 64, 4, 2, 16, 96, 512),
        ModelShape("tiny-moe", 2, 64, 4, 2, 16, 32, 512, experts=4, active=2),
    )
}
DRAFTERS = {
    "none": DrafterShape("none", layers=0, target_layers=0),
    "dspark": DrafterShape("dspark", markov_rank=256, head="markov"),
    "dspark-rnn": DrafterShape("dspark", markov_rank=256, head="rnn"),
    "dflash": DrafterShape("dflash"),
    "eagle3": DrafterShape("eagle3", layers=1, target_layers=3, vocabulary=32000),
    "mtp": DrafterShape("mtp", layers=1, target_layers=1),
    "draft-model": DrafterShape("draft-model", layers=0, target_layers=0, model="qwen3-0.6b"),
}
