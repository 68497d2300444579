"""Small scenarios of known order: requests by their lengths, steps of known seconds."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

import msgspec
import numpy as np

from tests.support import write_profile, write_trace
from workbench.arrivals import Arrivals
from workbench.profiles import StepCost, read_profile
from workbench.serving import Arm, Demand, Load, Options, Population, Run, build_population
from workbench.serving.timeline import chrome_trace
from workbench.traces import read_trace

_number = itertools.count()


def cost(batch_tokens=(1,), seconds=(1.0,), **parts) -> StepCost:
    """The cost of a profile; by default every step takes one second."""
    with tempfile.TemporaryDirectory() as folder:
        path = write_profile(Path(folder) / "p.json", batch_tokens, seconds, **parts)
        return StepCost(read_profile(str(path)))


def recorded(requests: list[dict], block_size: int = 3, **header) -> Population:
    """A population of recorded requests, as ``tests.support.write_trace`` describes them."""
    with tempfile.TemporaryDirectory() as folder:
        path = write_trace(
            Path(folder) / f"{next(_number)}.jsonl", requests, block_size=block_size, **header
        )
        return build_population([read_trace(str(path))], np.random.default_rng(0))


def arrivals(requests: list[tuple], at=None, session=None, cached=None) -> Arrivals:
    """Requests (prompt tokens, output tokens) in this very order, by default all at 0 s."""
    prompt, output = np.array(requests, np.int32).reshape(-1, 2).T

    def column(values):
        return None if values is None else np.array(values, np.int32)

    return Arrivals(
        "made by a test",
        np.zeros(len(prompt)) if at is None else np.array(at, float),
        prompt,
        output,
        session=column(session),
        cached_prompt_tokens=column(cached),
    )


def serve(
    come: Arrivals,
    scheduler: str = "none",
    *,
    price: StepCost | None = None,
    population: Population | None = None,
    load: Load | None = None,
    replicas: int = 1,
    router: str = "round-robin",
    seed: int = 0,
    **options,
) -> tuple[Run, dict]:
    """A finished run of these requests and its result; ``options`` are those of ``Options``."""
    run = Arm(
        scheduler,
        price or cost(),
        options=Options(**options),
        replicas=replicas,
        router=router,
    ).run(Demand(population, arrivals=come), load or Load(arrivals=come.name), seed=seed)
    run.run()
    return run, run.result()


def steps(run: Run, replica: int = 0) -> list[dict]:
    """Every step of a run with ``record_steps``: ``start``, ``seconds``, ``kind`` and its args."""
    events = msgspec.json.decode(chrome_trace(run))["traceEvents"]
    return [
        {"start": event["ts"] / 1e6, "seconds": event["dur"] / 1e6, "kind": event["name"]}
        | event["args"]
        for event in events
        if event["ph"] == "X" and event["pid"] == replica
    ]
