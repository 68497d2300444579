"""Deployments on a small profile, and the flags of a printed command."""

from __future__ import annotations

import shlex
from itertools import pairwise

from tests.serving.samples import cost as make_cost
from workbench.engines import Deployment
from workbench.serving import Options

GAMMA = 7
GRAPHS = {"batch_tokens": [1, 8, 64, 512], "beyond": {"batch_tokens": [513], "seconds": [0.1]}}


def priced(kind: str = "dspark", gpus: int = 1, attention: dict | None = None):
    """Step costs with every part that an export reads."""
    return make_cost(
        (1, 8, 64, 512),
        (0.005, 0.006, 0.008, 0.02),
        graphs=GRAPHS,
        drafter={"kind": kind, "block_size": GAMMA},
        draft={"requests": [1, 64], "tokens": [7], "seconds": [[0.001], [0.002]]},
        attention=attention
        or {
            "requests": [1, 64],
            "context_tokens": [0, 4096],
            "seconds": [[0.0, 0.001], [0.0, 0.01]],
        },
        host={"sync_seconds": 0.0004, "async_seconds": 0.0001},
        hardware={"gpus": gpus},
    )


def deployment(scheduler: str, kind: str = "dspark", gpus: int = 1, **more) -> Deployment:
    """That scheduler on ``priced`` costs."""
    values = {"options": Options(max_running=96, token_budget=4096), "context": 500.0, **more}
    return Deployment(scheduler, priced(kind, gpus), GAMMA, **values)


def flags(command: str) -> dict[str, str]:
    """Options of a command by name, as a shell reads them."""
    words = shlex.split(command)
    return {a: b for a, b in pairwise(words) if a.startswith("--")}
