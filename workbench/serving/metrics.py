"""What is counted in a run, over which window, and the figures made of it (design §2, §6)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

COUNTERS = (
    "tokens",  # output tokens emitted
    "steps",
    "rounds",  # decode rounds: one per decoding request and step
    "verified",  # drafts sent to the target
    "rejected",  # of those, not accepted
    "batch_tokens",  # anchors + verified drafts + prompt tokens
    "padded_tokens",  # batch tokens after padding to a captured graph
    "inner_rounds",  # rounds that do not reach their request's end …
    "inner_verified",  # … their verified …
    "inner_kept",  # … and accepted drafts
    "drawn_rounds",  # rounds whose outcome was partly drawn, not recorded
)


@dataclass(slots=True)
class Counters:
    """Running sums since the start of a run."""

    tokens: int = 0
    steps: int = 0
    rounds: int = 0
    verified: int = 0
    rejected: int = 0
    batch_tokens: int = 0
    padded_tokens: int = 0
    inner_rounds: int = 0
    inner_verified: int = 0
    inner_kept: int = 0
    drawn_rounds: int = 0

    def snapshot(self) -> np.ndarray:
        """The sums as int64 [len(COUNTERS)]."""
        return np.array([getattr(self, name) for name in COUNTERS], np.int64)


@dataclass
class Recorder:
    """Times of every request, running sums, and the steady window."""

    requests: int
    counters: Counters = field(default_factory=Counters)
    opened: tuple[float, np.ndarray] | None = None  # time and sums when the window opened
    closed: tuple[float, np.ndarray] | None = None

    def __post_init__(self):
        self.issued = np.full(self.requests, np.nan)  # s, when the user sent the request
        self.first = np.full(self.requests, np.nan)  # s, first output token
        self.last = np.full(self.requests, np.nan)  # s, last output token
        self.emitted = np.zeros(self.requests, np.int64)

    def open(self, now: float) -> None:
        """Begin the steady window."""
        self.opened = (now, self.counters.snapshot())

    def close(self, now: float) -> None:
        """End the steady window."""
        self.closed = (now, self.counters.snapshot())


def _spread(values: np.ndarray, quantiles: dict[str, float]) -> dict[str, float | None]:
    """Mean and named quantiles; None where there is nothing to average."""
    if len(values) == 0:
        return dict.fromkeys(("mean", *quantiles))
    cuts = np.quantile(values, list(quantiles.values()))
    return {"mean": float(values.mean()), **{k: float(v) for k, v in zip(quantiles, cuts, strict=True)}}


def _ratio(part: float, whole: float) -> float | None:
    return float(part / whole) if whole else None


def summarise(recorder: Recorder, gpus: int, end: float) -> dict:
    """Figures of a run that ended at ``end`` seconds; the window is the whole run if it is empty.

    Throughput and the shares come from steps inside the window; speed, TTFT and TPOT from the
    requests issued inside it. Totals (requests, tokens, steps, seconds) are of the whole run.
    """
    total = recorder.counters.snapshot()
    zero = np.zeros_like(total)
    opened, closed = recorder.opened, recorder.closed
    steady = opened is not None and closed is not None and closed[0] > opened[0]
    if steady:
        steady = closed[1][COUNTERS.index("tokens")] > opened[1][COUNTERS.index("tokens")]
    start, stop = (opened, closed) if steady else ((0.0, zero), (end, total))
    inside = dict(zip(COUNTERS, (stop[1] - start[1]).tolist(), strict=True))
    seconds = stop[0] - start[0]

    mine = (recorder.issued >= start[0]) & (recorder.issued <= stop[0]) & ~np.isnan(recorder.last)
    timed = mine & (recorder.emitted > 1)
    tpot = (recorder.last[timed] - recorder.first[timed]) / (recorder.emitted[timed] - 1)
    ttft = recorder.first[mine] - recorder.issued[mine]
    result = {
        "throughput_tok_s_gpu": _ratio(inside["tokens"], seconds * gpus),
        "speed_tok_s_user": _spread(1.0 / tpot, {"p50": 0.5, "p10": 0.1}),
        "ttft_s": _spread(ttft, {"p50": 0.5, "p99": 0.99}),
        "tpot_s": _spread(tpot, {"p50": 0.5, "p99": 0.99}),
        "accepted_length": _ratio(
            inside["inner_rounds"] + inside["inner_kept"], inside["inner_rounds"]
        ),
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
    }
    counted = dict(zip(COUNTERS, total.tolist(), strict=True))
    result |= {
        "steps": counted["steps"],
        "rounds": counted["rounds"],
        "simulated_s": end,
        "requests_completed": int((~np.isnan(recorder.last)).sum()),
        "output_tokens": counted["tokens"],
        "drawn_rounds": counted["drawn_rounds"],
    }
    return result
