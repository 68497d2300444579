"""Every step of a run as a Chrome trace, which Perfetto and chrome://tracing open."""

from __future__ import annotations

import msgspec

from workbench.serving.simulate import Run

_US = 1e6


def chrome_trace(run: Run) -> bytes:
    """JSON of the run's steps: a row per replica, and counters over time.

    Counters: decoding and waiting requests, verify budget (mean of 1 + ℓ per request), batch
    tokens with and without padding. Needs ``Options.record_steps``.
    """
    events: list[dict] = []
    for index, replica in enumerate(run.replicas):
        events.append(_named("process_name", index, f"replica {index}"))
        events.append(_named("thread_name", index, "steps"))
        for step in replica.steps:
            now, seconds, requests, prefill, verified, batch, padded, waiting, drafts = step
            kind = "mixed" if requests and prefill else "decode" if requests else "prefill"
            events.append(
                {
                    "name": kind,
                    "ph": "X",
                    "pid": index,
                    "tid": 0,
                    "ts": now * _US,
                    "dur": seconds * _US,
                    "args": {
                        "decoding": requests,
                        "prefill_tokens": prefill,
                        "drafts_per_request": drafts,
                        "verified_drafts": verified,
                        "batch_tokens": batch,
                        "padded_tokens": padded,
                    },
                }
            )
            counters = {
                "requests": {"decoding": requests, "waiting": waiting},
                "batch tokens": {"used": batch, "padding": padded - batch},
            }
            if requests:
                counters["verify budget"] = {"1+l": 1 + verified / requests}
            events.extend(
                {"name": name, "ph": "C", "pid": index, "ts": now * _US, "args": values}
                for name, values in counters.items()
            )
    trace = {"displayTimeUnit": "ms", "traceEvents": events}
    return msgspec.json.encode(trace, enc_hook=lambda number: number.item())  # numpy's numbers


def _named(kind: str, index: int, name: str) -> dict:
    return {"name": kind, "ph": "M", "pid": index, "tid": 0, "args": {"name": name}}
