"""What is tuned for, what has to hold, and which trials are worth a full simulation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Objective:
    """A figure of a run that is to be high or low."""

    name: str
    unit: str
    direction: str  # maximize or minimize
    value: Callable[[dict], float | None]

    @property
    def sign(self) -> int:
        """1 where more is better, else −1."""
        return 1 if self.direction == "maximize" else -1


OBJECTIVES = {
    one.name: one
    for one in (
        Objective("throughput", "tok/s/GPU", "maximize", lambda run: run["throughput_tok_s_gpu"]),
        Objective("speed", "tok/s/user", "maximize", lambda run: run["speed_tok_s_user"]["mean"]),
        Objective("ttft_p99", "s", "minimize", lambda run: run["ttft_s"]["p99"]),
        Objective("energy", "J/token", "minimize", lambda run: run.get("energy_j_token")),
        Objective("usd", "$/M tokens", "minimize", lambda run: run.get("usd_per_million_tokens")),
    )
}
LIMITS = ("ttft", "tpot", "speed")


def violations(run: dict, slo: dict[str, float]) -> list[float]:
    """How far each limit is missed, relative to it; ≤ 0 where it holds.

    slo: ``ttft`` and ``tpot`` in seconds, met by the 99th percentile; ``speed`` in tok/s/user, met
    by the mean. One more for an open loop: a configuration that does not keep up is no answer.
    """
    figures = {
        "ttft": run["ttft_s"]["p99"],
        "tpot": run["tpot_s"]["p99"],
        "speed": run["speed_tok_s_user"]["mean"],
    }
    missed = []
    for name, limit in slo.items():
        value = figures[name]
        if value is None:
            missed.append(1.0)
        else:
            missed.append((limit - value if name == "speed" else value - limit) / limit)
    if "overloaded" in run:
        missed.append(1.0 if run["overloaded"] else -1.0)
    return missed


def pareto_set(values: np.ndarray) -> np.ndarray:
    """Indices of the rows that no other row beats; values [n, objectives], higher is better.

    Of equal rows all are kept.
    """
    values = np.asarray(values, float)
    at_least = (values[:, None] >= values[None]).all(axis=2)
    better = (values[:, None] > values[None]).any(axis=2)
    return np.flatnonzero(~(at_least & better).any(axis=0))


def hopeless(short: Sequence[float], others: Sequence[Sequence[float]], margin: float) -> bool:
    """Whether some other trial's short simulation beats this one's in every objective.

    short, others: objective values with higher better; ``margin``: by at least this share of the
    value to be beaten, so that the noise of a short run ends no near miss.
    """
    mine = np.asarray(short, float)
    bar = mine + margin * np.abs(mine)
    return any((np.asarray(other, float) > bar).all() for other in others)
