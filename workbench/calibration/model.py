"""A calibration: one temperature per draft position, and what it does to confidences."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

import numpy as np

from workbench.errors import InputError

_LEAST = np.finfo(np.float32).smallest_subnormal
_MOST = np.nextafter(np.float32(1), np.float32(0))
_AT_ONCE = 2**18  # confidences in float64 at a time


@dataclass(frozen=True, slots=True)
class Calibration:
    """Temperatures T_k [γ]: the calibrated c_k is σ(logit(c_k) / T_k).

    T > 1 takes confidence away from a drafter that has too much, T < 1 gives it more.
    Source: DSpark (arXiv 2607.05147), sequential temperature scaling; SGLang applies it likewise.
    """

    temperatures: tuple[float, ...]  # [γ], finite, > 0
    path: str | os.PathLike | None = None  # the file it was read from, for messages
    fitted_on: str = ""  # names of the traces or the data set

    def __post_init__(self) -> None:
        if not self.temperatures:
            raise self._error("temperatures", "is empty", "give one temperature per draft position")
        for i, temperature in enumerate(self.temperatures):
            if not (math.isfinite(temperature) and temperature > 0):
                problem = f"is {temperature:g}"
                raise self._error(f"temperatures[{i}]", problem, "give a number more than 0")

    @property
    def block_size(self) -> int:
        """γ, the number of positions that have a temperature."""
        return len(self.temperatures)

    def require_block_size(self, block_size: int) -> None:
        """Raise InputError unless there is one temperature for each of ``block_size`` drafts."""
        if self.block_size != block_size:
            problem = f"has {self.block_size} values, the draft blocks have γ = {block_size}"
            raise self._error("temperatures", problem, "fit it on traces of this drafter")

    def apply(self, confidence: np.ndarray) -> np.ndarray:
        """Calibrated conditional confidences, float32 [A, γ], of c_k in [0, 1], float32 [A, γ].

        Within a position the order of rows never turns round (float32 may merge the last steps
        below 1). 0 and 1 stay, and nothing else becomes them. Raises InputError for another γ.
        """
        self.require_block_size(confidence.shape[1])
        temperatures = np.array(self.temperatures)
        calibrated = np.empty(confidence.shape, np.float32)
        step = max(1, _AT_ONCE // self.block_size)
        for start in range(0, len(confidence), step):
            rows = slice(start, start + step)
            calibrated[rows] = _inside(
                scaled(logit(confidence[rows]), temperatures), confidence[rows]
            )
        return calibrated

    def _error(self, place: str, problem: str, mend: str) -> InputError:
        return InputError(problem, file=self.path, place=place, mend=mend)


def logit(confidence: np.ndarray) -> np.ndarray:
    """log(c / (1 − c)), float64 in the shape given; −inf at 0 and inf at 1."""
    wide = confidence.astype(np.float64)
    with np.errstate(divide="ignore"):
        return np.log(wide) - np.log1p(-wide)


def scaled(logits: np.ndarray, temperature: float | np.ndarray) -> np.ndarray:
    """σ(logits / temperature), float64; ``temperature`` is one number or broadcasts."""
    with np.errstate(over="ignore"):  # far below 0, exp is inf and the result 0
        return 1.0 / (1.0 + np.exp(-(logits / temperature)))


def _inside(calibrated: np.ndarray, confidence: np.ndarray) -> np.ndarray:
    """Keep what is neither impossible nor certain so in float32 too: planners drop a_k = 0."""
    between = (confidence > 0) & (confidence < 1)
    return np.clip(calibrated, _LEAST, _MOST, out=calibrated, where=between)
