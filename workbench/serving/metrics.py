"""The figures of a run, made of counters, the window and the times of requests (design §2, §6)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.serving.state import COUNTERS, TOKENS


@dataclass
class Recorder:
    """Times of every request, running sums of all replicas, and the steady window."""

    output: np.ndarray  # int64 [N] output tokens of each request
    opened: tuple[float, np.ndarray] | None = None  # time and sums when the window opened
    closed: tuple[float, np.ndarray] | None = None

    def __post_init__(self):
        requests = len(self.output)
        self.issued = np.full(requests, np.nan)  # s, when the user sent the request
        self.first = np.full(requests, np.nan)  # s, first output token
        self.last = np.full(requests, np.nan)  # s, last output token
        self.replicas: list[np.ndarray] = []  # int64 [len(COUNTERS)] each

    def counters(self) -> np.ndarray:
        """A new array of sums for one replica."""
        self.replicas.append(np.zeros(len(COUNTERS), np.int64))
        return self.replicas[-1]

    def total(self) -> np.ndarray:
        """Sums of all replicas so far, int64 [len(COUNTERS)]."""
        return np.sum(self.replicas, axis=0)

    def open(self, now: float) -> None:
        """Begin the steady window."""
        self.opened = (now, self.total())

    def close(self, now: float) -> None:
        """End the steady window."""
        self.closed = (now, self.total())


def named(sums: np.ndarray) -> dict[str, int]:
    """Counters by name."""
    return dict(zip(COUNTERS, sums.tolist(), strict=True))


def spread(values: np.ndarray, **quantiles: float) -> dict[str, float | None]:
    """Mean and named quantiles; None where there is nothing to average."""
    if len(values) == 0:
        return dict.fromkeys(("mean", *quantiles))
    cuts = np.quantile(values, list(quantiles.values())).tolist()
    return {"mean": float(values.mean()), **dict(zip(quantiles, cuts, strict=True))}


def _ratio(part: float, whole: float) -> float | None:
    return float(part / whole) if whole else None


def summarise(recorder: Recorder, gpus: int, end: float) -> dict:
    """Figures of a run that ended at ``end`` seconds; the window is the whole run if it is empty.

    Throughput and the shares come from steps inside the window; speed, TTFT and TPOT from the
    requests issued inside it. Totals (requests, tokens, steps, seconds) are of the whole run.
    """
    total = recorder.total()
    opened, closed = recorder.opened, recorder.closed
    steady = bool(
        opened and closed and closed[0] > opened[0] and closed[1][TOKENS] > opened[1][TOKENS]
    )
    start, stop = (opened, closed) if steady else ((0.0, np.zeros_like(total)), (end, total))
    inside, counted = named(stop[1] - start[1]), named(total)

    done = ~np.isnan(recorder.last)
    mine = (recorder.issued >= start[0]) & (recorder.issued <= stop[0]) & done
    timed = mine & (recorder.output > 1)
    tpot = (recorder.last[timed] - recorder.first[timed]) / (recorder.output[timed] - 1)
    ttft = recorder.first[mine] - recorder.issued[mine]
    rounds = inside["inner_rounds"]
    return {
        "throughput_tok_s_gpu": _ratio(inside["tokens"], (stop[0] - start[0]) * gpus),
        "speed_tok_s_user": spread(1.0 / tpot, p50=0.5, p10=0.1),
        "ttft_s": spread(ttft, p50=0.5, p99=0.99),
        "tpot_s": spread(tpot, p50=0.5, p99=0.99),
        "accepted_length": _ratio(rounds + inside["inner_kept"], rounds),
        "acceptance_rate": _ratio(inside["inner_kept"], inside["inner_verified"]),
        "verification_budget": _ratio(inside["rounds"] + inside["verified"], inside["rounds"]),
        "rejected_share": _ratio(inside["rejected"], inside["batch_tokens"]),
        "padded_share": _ratio(
            inside["padded_tokens"] - inside["batch_tokens"], inside["padded_tokens"]
        ),
        "window": {
            "kind": "steady" if steady else "whole",
            "from_s": start[0],
            "to_s": stop[0],
            "steps": inside["steps"],
            "rounds": inside["rounds"],
            "output_tokens": inside["tokens"],
            "requests": int(mine.sum()),
        },
        "steps": counted["steps"],
        "rounds": counted["rounds"],
        "simulated_s": end,
        "requests_completed": int(done.sum()),
        "output_tokens": counted["tokens"],
        "drawn_rounds": counted["drawn_rounds"],
    }
