"""Live decoding against the replay of recorded traces: the same prompts, scheduler and load."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec
import numpy as np

from benchmarks.drafters import counting
from benchmarks.drafters.recordings import record
from benchmarks.drafters.replay import RecordedPasses
from benchmarks.drafters.work import Work
from workbench.drafting.decode import Decoder, Request
from workbench.drafting.lanes import StepSeconds
from workbench.drafting.recording import make_trace
from workbench.profiles import StepCost, TruthBelief
from workbench.schedulers import Scheduler, create


class Figure(msgspec.Struct, kw_only=True):
    """One scheduler at one R.

    Accepted lengths are of rounds that do not reach an end and in whose step all R ran.
    """

    scheduler: str
    running: int
    lanes: int
    requests: int
    rounds: int  # live
    live: float
    live_error: float  # standard errors, clustered by request
    replay: float
    replay_error: float
    ratio: float  # live ÷ replay
    ratio_error: float
    simulate: float  # ``workbench simulate`` on the same blocks, one engine, steady window
    verified: float  # ℓ per round, live
    replay_verified: float
    excess: float  # replay: accepted − Σ min(p_d, p_t) of what was verified, per round
    excess_error: float
    seconds: float  # of live decoding


def believed(scheduler: Scheduler, cost: StepCost, gamma: int) -> StepSeconds:
    """What ``scheduler`` believes a step costs, in simulation and live."""
    truth = TruthBelief(cost)

    def step_seconds(requests: int, drafts: int) -> np.ndarray:
        return truth.step_seconds(
            requests, 0, drafts, mean_context=0.0, draft_tokens=gamma, sync=scheduler.synchronous
        )

    return step_seconds


def compare(work: Work, spec: str, running: int) -> Figure:
    """Decode the checked prompts live and replay their recorded blocks, at temperature 1."""
    drafter = work.drafter("dspark")
    gamma = drafter.config.block_size
    spec = spec.replace("γ", str(gamma))
    # domains mixed: otherwise one would be served after the other
    chosen = np.random.default_rng(work.settings.seed).permutation(work.checked)
    width = counting.WIDTH if work.device.type == "cuda" else 64
    if running == 1:
        chosen = chosen[:width]  # a lane each: nobody's successor is waited for
    prompts = [work.prompts[i][1] for i in chosen]
    recorded = record(work, "dspark", 1.0)
    outputs = work.outputs(1.0)
    cost = StepCost(counting.profile())
    running = min(running, len(prompts))
    lanes = max(1, min(width, len(prompts)) // running)
    schedulers = [create(spec, gamma) for _ in range(lanes)]
    options = {
        "temperature": 1.0,
        "max_new_tokens": work.settings.new_tokens,
        "max_running": running,
        "step_seconds": believed(schedulers[0], cost, gamma),
    }
    began = time.perf_counter()
    choices = work.choices(9, running)
    live = Decoder(work.target, drafter, schedulers, choices, **options).decode(prompts)
    seconds = time.perf_counter() - began
    passes = RecordedPasses([outputs[i] for i in chosen], [recorded[i] for i in chosen], gamma)
    fresh = [create(spec, gamma) for _ in range(lanes)]
    replayed = Decoder(
        work.target, drafter, fresh, choices, passes=passes, **options
    ).decode(prompts)  # fmt: skip
    tau, error, pull = accepted(live, running)
    other, other_error, other_pull = accepted(replayed, running)
    ratio, rounds = tau / other, np.array([len(r.verified) for r in replayed])
    excess = passes.excess.sum() / rounds.sum()
    return Figure(
        scheduler=spec,
        running=running,
        lanes=lanes,
        requests=len(prompts),
        rounds=sum(r.running.count(running) for r in live),
        live=tau,
        live_error=error,
        replay=other,
        replay_error=other_error,
        ratio=ratio,
        ratio_error=ratio * float(np.sqrt(((pull / tau - other_pull / other) ** 2).sum())),
        simulate=simulated(work, chosen, recorded, spec, running),
        verified=_verified(live, running),
        replay_verified=_verified(replayed, running),
        excess=float(excess),
        excess_error=float(np.sqrt(((passes.excess - excess * rounds) ** 2).sum()) / rounds.sum()),
        seconds=seconds,
    )


def accepted(requests: Sequence[Request], running: int) -> tuple[float, float, np.ndarray]:
    """Accepted length, its standard error clustered by request, and each request's pull on it."""
    kept = [_steady(r.accepted[: r.inner], r, running) for r in requests]
    sums, rounds = np.array([sum(k) for k in kept], float), np.array([len(k) for k in kept], float)
    mean = sums.sum() / rounds.sum()
    pull = (sums - mean * rounds) / rounds.sum()
    return 1 + float(mean), float(np.sqrt((pull**2).sum())), pull


def _steady(values: list[int], request: Request, running: int) -> list[int]:
    """Of the rounds in whose step all ``running`` requests decoded."""
    return [n for n, r in zip(values, request.running, strict=False) if r == running]


def _verified(requests: Sequence[Request], running: int) -> float:
    return float(np.mean([n for r in requests for n in _steady(r.verified, r, running)]))


def simulated(work: Work, chosen, blocks, spec: str, running: int) -> float:
    """Accepted length that the simulator gives for these blocks: prompts of one token."""
    path = work.folder / "checked.jsonl"
    rows = [(work.prompts[i][0], 1, blocks[i]) for i in chosen]
    trace = make_trace(
        path, rows, "", work.drafter_config("dspark"), temperature=1.0, source="", decimals=7
    )
    return counting.simulated(trace, spec, running)
