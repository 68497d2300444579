"""The figures of a run, made of counters, the window and the times of requests (design §2, §6)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from workbench.serving.state import COUNTERS, TOKENS


class Mark(NamedTuple):
    """The running sums at one moment."""

    time: float  # s
    sums: np.ndarray  # int64 [len(COUNTERS)], all replicas
    joules: float
    in_system: int  # requests that were issued and not completed


@dataclass
class Recorder:
    """Times of every request, running sums of all replicas, and the steady window."""

    output: np.ndarray  # int64 [N] output tokens of each request
    opened: Mark | None = None
    closed: Mark | None = None
    cached_tokens: int = 0  # prompt tokens that a prefix cache restored
    joules: float = 0.0
    issued_count: int = 0
    completed_count: int = 0
    replicas: list[np.ndarray] = field(default_factory=list)  # int64 [len(COUNTERS)] each

    def __post_init__(self):
        requests = len(self.output)
        # s: when the user sent the request, its first output token, its last
        self.times = np.full((3, requests), np.nan)
        self.issued, self.first, self.last = self.times
        self.replica = np.zeros(requests, np.int16)  # where it was served

    def counters(self) -> np.ndarray:
        """A new array of sums for one replica."""
        self.replicas.append(np.zeros(len(COUNTERS), np.int64))
        return self.replicas[-1]

    def mark(self, now: float) -> Mark:
        """The sums of all replicas so far."""
        in_system = self.issued_count - self.completed_count
        return Mark(now, np.sum(self.replicas, axis=0), self.joules, in_system)

    def open(self, now: float) -> None:
        """Begin the steady window."""
        self.opened = self.mark(now)

    def close(self, now: float) -> None:
        """End the steady window."""
        self.closed = self.mark(now)

    def window(self, end: float) -> tuple[Mark, Mark, bool]:
        """Start and end of what is measured, and whether it is the steady window.

        The whole run, up to ``end``, where the steady window is empty.
        """
        opened, closed = self.opened, self.closed
        lasted = opened and closed and closed.time > opened.time
        if lasted and closed.sums[TOKENS] > opened.sums[TOKENS]:
            return opened, closed, True
        return Mark(0.0, np.zeros(len(COUNTERS), np.int64), 0.0, 0), self.mark(end), False


def named(sums: np.ndarray) -> dict[str, int]:
    """Counters by name."""
    return dict(zip(COUNTERS, sums.tolist(), strict=True))


def spread(values: np.ndarray, **quantiles: float) -> dict[str, float | None]:
    """Mean and named quantiles; None where there is nothing to average."""
    if len(values) == 0:
        return dict.fromkeys(("mean", *quantiles))
    cuts = np.quantile(values, list(quantiles.values())).tolist()
    return {"mean": float(values.mean()), **dict(zip(quantiles, cuts, strict=True))}


def ratio(part: float, whole: float) -> float | None:
    """part ÷ whole, None where there is no whole."""
    return float(part / whole) if whole else None


def tpot(recorder: Recorder, which: np.ndarray) -> np.ndarray:
    """Seconds per token after the first, of the requests ``which`` that have more than one."""
    return (recorder.last[which] - recorder.first[which]) / (recorder.output[which] - 1)


def summarise(
    recorder: Recorder,
    gpus: int,
    end: float,
    *,
    slo: dict[str, float] | None = None,
    gpu_hour_usd: float | None = None,
) -> dict:
    """Figures of a run that ended at ``end`` seconds; the window is the whole run if it is empty.

    Throughput and the shares come from steps inside the window; speed, TTFT and TPOT from the
    requests issued inside it. Totals (requests, tokens, steps, seconds) are of the whole run.
    slo: most seconds of ``ttft`` and ``tpot``; gpu_hour_usd: price of one GPU's hour.
    """
    start, stop, steady = recorder.window(end)
    inside, counted = named(stop.sums - start.sums), named(recorder.mark(end).sums)
    seconds = stop.time - start.time

    done = ~np.isnan(recorder.last)
    mine = (recorder.issued >= start.time) & (recorder.issued <= stop.time) & done
    timed = mine & (recorder.output > 1)
    pace = tpot(recorder, timed)
    ttft = recorder.first[mine] - recorder.issued[mine]
    rounds = inside["inner_rounds"]
    figures = {
        "throughput_tok_s_gpu": ratio(inside["tokens"], seconds * gpus),
        "speed_tok_s_user": spread(1.0 / pace, p50=0.5, p10=0.1),
        "ttft_s": spread(ttft, p50=0.5, p99=0.99),
        "tpot_s": spread(pace, p50=0.5, p99=0.99),
        "accepted_length": ratio(rounds + inside["inner_kept"], rounds),
        "acceptance_rate": ratio(inside["inner_kept"], inside["inner_verified"]),
        "verification_budget": ratio(inside["rounds"] + inside["verified"], inside["rounds"]),
        "rejected_share": ratio(inside["rejected"], inside["batch_tokens"]),
        "padded_share": ratio(
            inside["padded_tokens"] - inside["batch_tokens"], inside["padded_tokens"]
        ),
        "window": {
            "kind": "steady" if steady else "whole",
            "from_s": start.time,
            "to_s": stop.time,
            "steps": inside["steps"],
            "rounds": inside["rounds"],
            "output_tokens": inside["tokens"],
            "requests": int(mine.sum()),
            "in_system": [start.in_system, stop.in_system],
        },
        "steps": counted["steps"],
        "rounds": counted["rounds"],
        "simulated_s": end,
        "requests_completed": int(done.sum()),
        "output_tokens": counted["tokens"],
        "prefill_tokens": counted["prefill_tokens"],
        "cached_tokens": recorder.cached_tokens,
        "preemptions": counted["preemptions"],
        "drawn_rounds": counted["drawn_rounds"],
    }
    if slo:
        met = np.ones(int(mine.sum()), bool)
        if "ttft" in slo:
            met &= ttft <= slo["ttft"]
        if "tpot" in slo:
            met[timed[mine]] &= pace <= slo["tpot"]
        figures["goodput"] = {
            "slo": slo,
            "attainment": ratio(int(met.sum()), len(met)),
            "requests_per_s": ratio(int(met.sum()), seconds),
            "tok_s_gpu": ratio(int(recorder.output[mine][met].sum()), seconds * gpus),
        }
    if recorder.joules:
        joules = stop.joules - start.joules
        figures["energy_j_token"] = ratio(joules, inside["tokens"])
    if gpu_hour_usd is not None:
        dollars = gpus * seconds / 3600 * gpu_hour_usd
        figures["usd_per_million_tokens"] = ratio(dollars * 1e6, inside["tokens"])
    return figures
