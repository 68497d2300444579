"""Published acceptance by draft position, as parameters of synthetic traces.

Source: DSpark (arXiv 2607.05147), figure 2, digitised: P(token k accepted | tokens 1..k−1
accepted) of three drafters on Qwen3-4B, block size 7, temperature 1. 1 + Σ Π p agrees with the
accepted lengths of its table 1, averaged over each domain's benchmarks, within 1 %.
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.errors import InputError

FIGURE = "DSpark, arXiv 2607.05147, figure 2, digitised"


@dataclass(frozen=True, slots=True)
class Preset:
    """Conditional acceptance p_k [γ] of one drafter on one domain's prompts."""

    name: str
    target: str
    drafter: str
    domain: str
    conditional: tuple[float, ...]
    temperature: float = 1.0
    origin: str = FIGURE


_QWEN3_4B = {
    ("dspark", "math"): (0.9053, 0.8899, 0.8878, 0.8854, 0.8872, 0.8906, 0.8824),
    ("dspark", "code"): (0.8857, 0.8719, 0.8598, 0.8608, 0.8579, 0.8594, 0.8510),
    ("dspark", "chat"): (0.7353, 0.7376, 0.7402, 0.7441, 0.7583, 0.7656, 0.7609),
    ("dflash", "math"): (0.8850, 0.8270, 0.8198, 0.8338, 0.8414, 0.8390, 0.8277),
    ("dflash", "code"): (0.8654, 0.8145, 0.7971, 0.8013, 0.8098, 0.8014, 0.7770),
    ("dflash", "chat"): (0.7181, 0.6479, 0.6382, 0.6606, 0.6820, 0.6919, 0.6877),
    ("eagle3", "math"): (0.8106, 0.8231, 0.8382, 0.8442, 0.8508, 0.8557, 0.8502),
    ("eagle3", "code"): (0.7710, 0.7737, 0.7812, 0.7913, 0.7870, 0.7939, 0.7840),
    ("eagle3", "chat"): (0.5336, 0.5894, 0.6421, 0.6782, 0.7086, 0.7289, 0.7325),
}

PRESETS = {
    preset.name: preset
    for preset in (
        Preset(f"qwen3-4b-{drafter}-{domain}", "Qwen3-4B", drafter, domain, conditional)
        for (drafter, domain), conditional in _QWEN3_4B.items()
    )
}


def find_preset(name: str) -> Preset:
    """The preset of that name. Raises InputError listing all of them."""
    if name not in PRESETS:
        raise InputError(
            f"no preset '{name}'", place="--preset", mend=f"there are {', '.join(PRESETS)}"
        )
    return PRESETS[name]
