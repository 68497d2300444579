"""A few recorded requests, as lists and as a trace."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.support import random_requests, write_trace
from workbench.traces import Trace, read_trace

GAMMA = 3


def recorded(folder: Path, name: str = "t", seed: int = 0, count: int = 40, **header):
    """The requests as dictionaries, and the trace of them."""
    requests = random_requests(np.random.default_rng(seed), count, GAMMA)
    for request in requests:  # as recorders write it: nothing is accepted past the end
        rows = len(request["accepted"])
        request["accepted"] = [min(n, rows - i) for i, n in enumerate(request["accepted"])]
    path = write_trace(folder / f"{name}.jsonl", requests, block_size=GAMMA, **header)
    trace: Trace = read_trace(str(path))
    return requests, trace
