"""The figures of a run in one file and as short tables on stdout."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from benchmarks.drafters.settings import DOMAINS, RECORDED, TO_BEAT, trace_name
from workbench.drafting.evaluation import evaluate
from workbench.traces import read_trace

if TYPE_CHECKING:
    from benchmarks.drafters.work import Work


def write(work: Work) -> None:
    """``summary.json`` of whatever stages are done, and its tables."""
    found = {
        "traces": _traces(work),
        "unbiased": {
            name: report["positions"] for name, report in (_maybe(work, "unbiased") or {}).items()
        },
        "live": [work.load(path.stem) for path in sorted(work.folder.glob("live-*.json"))],
        "greedy": _maybe(work, "greedy"),
        "latency": _maybe(work, "latency"),
    }
    work.save("summary", found)
    for line in _lines(found):
        print(line, flush=True)


def _maybe(work: Work, name: str) -> dict | None:
    return work.load(name) if (work.folder / f"{name}.json").is_file() else None


def _traces(work: Work) -> list[dict]:
    rows = []
    for domain in DOMAINS:
        for kind, temperature in RECORDED:
            path = work.folder / "traces" / f"{trace_name(domain, kind, temperature)}.jsonl.gz"
            if not path.is_file():
                continue
            trace = read_trace(path)
            [group] = evaluate(trace).domains
            rows.append(
                {
                    "file": path.name,
                    "bytes": path.stat().st_size,
                    "requests": group.requests,
                    "anchors": group.anchors,
                    "accepted_length": group.accepted_length,
                    "standard_error": group.standard_error,
                    "all_anchors": group.all_anchors,
                    "conditional": group.conditional,
                }
            )
    return rows


def worst(positions: list[dict]) -> float:
    """The largest |accepted − expected| over positions, in standard errors; 0 where it is exact."""
    return max(
        (abs(p["excess"]) / p["standard_error"] for p in positions if p["standard_error"]),
        default=0.0,
    )


def _lines(found: dict):
    beat = {trace_name(d, k, 1.0): x for k, row in TO_BEAT.items()
            for d, x in zip(DOMAINS, row, strict=True)}  # fmt: skip
    yield "trace                   kB requests anchors  accepted (s.e.)  to beat  P(1)..P(γ)"
    for row in found["traces"]:
        name = row["file"].partition(".jsonl")[0]
        conditional = " ".join(f"{p:.2f}" for p in row["conditional"] if not _missing(p))
        yield (
            f"{name:20} {row['bytes'] / 1e3:6.0f} {row['requests']:7} {row['anchors']:8}"
            f"  {_number(row['accepted_length'])} ({_number(row['standard_error'], 3)})"
            f"  {beat.get(name, ''):>7}  {conditional}"
        )
    for name, positions in found["unbiased"].items():
        yield f"unbiased {name}: worst position {worst(positions):.2f} standard errors"
    for row in found["live"]:
        yield (
            f"live {row['scheduler']:13} R={row['running']:<3} {row['live']:.3f} replay "
            f"{row['replay']:.3f} ratio {row['ratio']:.4f} ± {row['ratio_error']:.4f} simulate "
            f"{_number(row['simulate'], 3)} ℓ {row['verified']:.2f}/{row['replay_verified']:.2f} "
            f"excess {row['excess']:+.4f} ± {row['excess_error']:.4f} ({row['seconds']:.1f} s)"
        )
    if equal := found["greedy"]:
        gaps = ", ".join(f"{flip['gap']:.1e}" for flip in equal["flips"])
        yield (
            f"greedy: {equal['equal']} of {equal['prompts']} equal, {equal['faults']} faults, "
            f"accepted length {_number(equal['accepted_length'])}; gaps at flips: {gaps or 'none'}"
        )
    if times := found["latency"]:
        yield f"latency, µs ({times['dtype']}, context {times['context']}): R {times['running']}"
        for part, seconds in times["seconds"].items():
            yield f"  {part:18} " + " ".join(f"{s * 1e6:9.1f}" for s in seconds)


def _missing(x: float | None) -> bool:
    return x is None or math.isnan(x)


def _number(x: float | None, places: int = 2) -> str:
    return "–" if _missing(x) else f"{x:.{places}f}"
