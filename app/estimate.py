"""A closed form for fixed draft lengths: something to look at before anything is simulated."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pandas as pd

from app.scene import Scene
from workbench.schedulers import create
from workbench.serving import Load
from workbench.traces import rounds_of


def accepted_length(scene: Scene, k: int) -> float:
    """τ of verifying k drafts always: 1 + min(k, accepted) over the rounds that this makes."""
    weights, lengths = scene.demand.weights, []
    for trace in scene.traces:
        cut = dataclasses.replace(trace, accepted=np.minimum(trace.accepted, k))
        lengths.append(rounds_of(cut).accepted_length(cut))
    return float(np.average(lengths, weights=weights))


def estimate(scene: Scene, schedulers: Sequence[str], loads: Sequence[Load]) -> pd.DataFrame:
    """Speed (tok/s/user) and throughput (tok/s/GPU) of those that verify a fixed number of drafts.

    A step of R users costs T = step(B) with B = R·(1 + k) + the prompt tokens that come per step;
    a user gets τ/T. No queue, no padding between requests, every step alike.
    """
    population, rows = scene.population, []
    prompt, output = float(population.prompt.mean()), float(population.output.mean())
    for spec in schedulers:
        k = create(spec, scene.gamma).uniform
        if k is None:
            continue
        tau = accepted_length(scene, k)
        for load in loads:
            users = load.concurrency
            if users is None:
                continue
            batch = users * (1 + k) + users * tau * prompt / output
            seconds = scene.cost.step_seconds(
                requests=users,
                batch_tokens=round(batch),
                mean_context=prompt + output / 2,
                draft_tokens=k,
            )
            rows.append(
                {
                    "scheduler": spec,
                    "load": users,
                    "tok/s/user": tau / seconds,
                    "tok/s/GPU": users * tau / seconds / scene.cost.gpus,
                }
            )
    return pd.DataFrame(rows)
