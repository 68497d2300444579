"""A small demand and arms of two schedulers, for tests that simulate."""

from __future__ import annotations

import numpy as np

from tests.serving.samples import cost, recorded
from tests.support import random_requests
from workbench.serving import Arm, Demand

GAMMA = 3


def demand(seed: int = 0, requests: int | None = None) -> Demand:
    """20 random requests."""
    rng = np.random.default_rng(seed)
    return Demand(recorded(random_requests(rng, 20, GAMMA), GAMMA), requests=requests)


def arm(scheduler: str = "static:1", seconds=(0.01, 0.02), **options) -> Arm:
    """A replica whose step costs ``seconds`` at 1 and 64 batch tokens."""
    return Arm(scheduler, cost((1, 64), seconds), **options)
