"""Muon for the backbone's matrices, AdamW for the rest; or AdamW for all."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from workbench.drafting.dspark import Drafter
from workbench.errors import InputError

NAMES = ("adamw", "muon")


class Optimisers:
    """One or two optimisers whose learning rates follow one schedule."""

    def __init__(self, drafter: Drafter, name: str, learning_rate: float, muon_rate: float):
        """``muon_rate``: of an update whose singular values are all about 1, times
        √max(1, rows ÷ columns). Raises InputError if PyTorch is too old for Muon.
        """
        self.name, self._named = name, dict(drafter.named_parameters())
        matrices = _backbone_matrices(drafter) if name == "muon" else []
        taken = {id(parameter) for parameter in matrices}
        rest = [p for p in self._named.values() if id(p) not in taken]
        # one kernel for all tensors, on a GPU only: on the CPU its rounding differs
        fused = drafter.device.type == "cuda"
        self.parts: list[torch.optim.Optimizer] = [
            torch.optim.AdamW(
                rest, lr=learning_rate, betas=(0.9, 0.95), weight_decay=0.0, fused=fused
            )
        ]
        if name == "muon":
            if not hasattr(torch.optim, "Muon"):
                raise InputError(
                    f"PyTorch {torch.__version__} has no Muon",
                    place="--optimiser muon",
                    mend="install PyTorch 2.9 or later, or take adamw",
                )
            self.parts.append(
                torch.optim.Muon(matrices, lr=muon_rate, momentum=0.95, weight_decay=0.0)
            )
        self._top = [part.param_groups[0]["lr"] for part in self.parts]

    def step(self, share: float) -> None:
        """One step at ``share`` of the highest learning rates; the gradients are then gone."""
        for part, top in zip(self.parts, self._top, strict=True):
            for group in part.param_groups:
                group["lr"] = share * top
            part.step()
            part.zero_grad(set_to_none=True)

    def state(self) -> Iterator[tuple[str, Tensor]]:
        """Everything that a resumed run needs, as ``quantity/parameter``."""
        for part in self.parts:
            for name, parameter in self._named.items():
                for key, value in part.state.get(parameter, {}).items():
                    yield f"{key}/{name}", value

    def load(self, state: dict[str, dict[str, Tensor]]) -> None:
        """``state``: quantity → parameter's name → tensor."""
        for part in self.parts:
            owned = {id(parameter) for parameter in part.param_groups[0]["params"]}
            for name, parameter in self._named.items():
                if id(parameter) in owned:
                    part.state[parameter] = {
                        # plain AdamW counts its steps on the CPU
                        key: values[name]
                        if key == "step" and not part.defaults.get("fused")
                        else values[name].to(parameter.device)
                        for key, values in state.items()
                        if name in values
                    }


def _backbone_matrices(drafter: Drafter) -> list[Tensor]:
    modules = [drafter.fc, *(m for m in drafter.layers.modules() if isinstance(m, nn.Linear))]
    return [module.weight for module in modules]
