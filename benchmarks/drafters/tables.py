"""Tables of three pages, from the shipped traces and the results of the run behind them.

    python -m benchmarks.drafters.tables

fills the blocks ``<!-- numbers: NAME -->`` … ``<!-- end -->`` of these pages anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np

from benchmarks.drafters import counting
from benchmarks.drafters.calibrated import calibrated
from benchmarks.drafters.settings import DOMAINS, RECORDED, RUNNING, TO_BEAT, trace_name
from benchmarks.drafters.summary import worst
from workbench.drafting.evaluation import evaluate
from workbench.files import atomic_write
from workbench.report.figures.writing import with_tables
from workbench.traces import Trace, read_trace
from workbench.traces.rounds import judged

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "drafters" / "results" / "h200.json"
KINDS = {"dspark": "DSpark", "dflash": "DFlash"}
Row = tuple[str, ...]


def results() -> dict:
    """The run's ``summary.json``."""
    return msgspec.json.decode(RESULTS.read_bytes())


def shipped() -> Iterator[Row]:
    """traces/README.md: what each file holds."""
    yield ("file", "drafter", "T", "requests", "anchors",
           "accepted length, replayed rounds", "mean accepted + 1, all anchors")  # fmt: skip
    for kind, temperature in RECORDED:
        for domain in DOMAINS:
            name = trace_name(domain, kind, temperature)
            [group] = evaluate(read_trace(name)).domains
            yield (f"{name}.jsonl.gz", KINDS[kind], f"{temperature:g}", f"{group.requests}",
                   f"{group.anchors:,}", f"{group.accepted_length:.2f}",
                   f"{group.all_anchors:.2f}")  # fmt: skip


def prompts() -> Iterator[Row]:
    """traces/README.md: where prompts come from."""
    yield "domain", "requests by benchmark"
    for domain in DOMAINS:
        groups = evaluate(read_trace(domain)).benchmarks
        yield domain, ", ".join(f"{group.name} {group.requests}" for group in groups)


def accepted() -> Iterator[Row]:
    """Accepted length by domain and benchmark, ± one standard error."""
    names = [f"{KINDS[kind]}, T = {temperature:g}" for kind, temperature in RECORDED]
    yield ("", "requests", *names, "prototype DSpark", "prototype DFlash")
    for place, domain in enumerate(DOMAINS):
        found = [evaluate(read_trace(trace_name(domain, *setting))) for setting in RECORDED]
        by_name = [{g.name: g for g in (*one.domains, *one.benchmarks)} for one in found]
        for name, group in by_name[0].items():
            before = [f"{TO_BEAT[k][place]}" if name == domain else "" for k in KINDS]
            label = f"**{name}**" if name == domain else name
            lengths = [f"{g[name].accepted_length:.2f} ± {g[name].standard_error:.2f}"
                       for g in by_name]  # fmt: skip
            yield (label, f"{group.requests}", *lengths, *before)


def conditional() -> Iterator[Row]:
    """P(draft k passes | 1..k − 1 passed) over all anchors, and how much of it is lost."""
    yield ("", *(f"k = {k}" for k in range(1, 8)), "P(7) ÷ P(1)")
    for domain in DOMAINS:
        for kind, temperature in RECORDED:
            [group] = evaluate(read_trace(trace_name(domain, kind, temperature))).domains
            shares = group.conditional
            yield (f"{domain}, {KINDS[kind]}, T = {temperature:g}", *(f"{p:.3f}" for p in shares),
                   f"{shares[-1] / shares[0]:.2f}")  # fmt: skip


def heavy(trace: Trace, share: float = 0.1) -> np.ndarray:
    """Bool [requests]: the ``share`` of them with the most accepted drafts per anchor."""
    request = trace.row_request()
    mean = np.bincount(request, trace.accepted, trace.requests)
    mean /= np.maximum(np.bincount(request, minlength=trace.requests), 1)
    chosen = np.zeros(trace.requests, bool)
    chosen[np.argsort(mean, kind="stable")[::-1][: round(share * trace.requests)]] = True
    return chosen


def composition() -> Iterator[Row]:
    """Of which requests the blocks are that get as far as position k."""
    yield ("", *(f"k = {k}" for k in range(1, 8)))
    for domain in DOMAINS:
        for kind in KINDS:
            trace = read_trace(trace_name(domain, kind, 1.0))
            best = heavy(trace)[trace.row_request()]
            seen = [judged(trace, k) for k in range(1, 8)]
            passed = [trace.accepted >= k for k in range(1, 8)]
            label = f"{domain}, {KINDS[kind]}"
            yield (f"{label}: share of the easiest tenth", *(f"{best[s].mean():.0%}" for s in seen))
            for which, mine in (("the others", ~best), ("the easiest tenth", best)):
                yield (f"{label}: P(k) of {which}",
                       *(f"{p[s & mine].mean():.2f}"
                         for s, p in zip(seen, passed, strict=True)))  # fmt: skip


def sweep() -> Iterator[Row]:
    """Thresholds: accepted length, verification budget, acceptance rate."""
    yield ("threshold", *(f"{d}: {what}" for d in DOMAINS for what in ("τ", "budget", "rate")))
    found = [next(iter(evaluate(read_trace(domain)).sweep.values())) for domain in DOMAINS]
    for row in zip(*found, strict=True):
        cells = [
            text
            for one in row
            for text in (
                f"{one.accepted_length:.2f}",
                f"{one.verification_budget:.2f}",
                f"{one.acceptance_rate:.1%}",
            )
        ]
        yield (f"{row[0].threshold:.1f}", *cells)


def unbiased() -> Iterator[Row]:
    """(accepted − Σ min(p_d, p_t)) ÷ its standard error, by position."""
    yield ("recording", "anchors", *(f"k = {k}" for k in range(1, 8)), "worst")
    for name, positions in results()["unbiased"].items():
        kind, temperature = name.split("-")
        cells = [f"{p['excess'] / p['standard_error']:+.2f}" if p["standard_error"] else "0"
                 for p in positions]  # fmt: skip
        yield (f"{KINDS[kind]}, T = {temperature}", f"{positions[0]['judged']:,}", *cells,
               f"{worst(positions):.2f}")  # fmt: skip


def live() -> Iterator[Row]:
    """Live decoding beside the replay of recorded blocks."""
    yield ("scheduler", "R", "rounds", "live", "replay", "live ÷ replay ± s.e.", "ℓ live",
           "ℓ replay", "replay's excess ± s.e.", "simulate")  # fmt: skip
    rows = results()["live"]
    for name in dict.fromkeys(row["scheduler"] for row in rows):
        for running in RUNNING:
            [r] = [r for r in rows if r["scheduler"] == name and r["running"] == running]
            yield (f"`{name}`", f"{running}", f"{r['rounds']:,}", f"{r['live']:.3f}",
                   f"{r['replay']:.3f}", f"{r['ratio']:.4f} ± {r['ratio_error']:.4f}",
                   f"{r['verified']:.2f}", f"{r['replay_verified']:.2f}",
                   f"{r['excess']:+.4f} ± {r['excess_error']:.4f}",
                   f"{r['simulate']:.3f}")  # fmt: skip


def counted() -> Iterator[Row]:
    """The shipped traces' replay by which of its rounds are counted."""
    yield ("verified", "R", "all rounds", "lanes: rounds counted", "lanes", "simulate",
           "lanes ÷ all", "simulate ÷ all")  # fmt: skip
    trace = counting.pooled([read_trace(domain) for domain in DOMAINS])
    # domains mixed, as live
    order = np.random.default_rng(0).permutation(trace.requests)
    for spec in ("static:2", "static:7", "threshold:0.5"):
        rounds = counting.rounds_by_request(trace, counting.lengths(trace, spec))
        rounds = [rounds[i] for i in order]
        every = counting.accepted_length(rounds)
        for running in RUNNING[1:]:
            counts = [len(one.emitted) for one in rounds]
            first = counting.in_full_lanes(counts, counting.WIDTH // running, running)
            lanes = counting.accepted_length(rounds, first)
            simulate = counting.simulated(trace, spec, running)
            yield (f"`{spec}`", f"{running}", f"{every:.3f}", f"{first.sum() / sum(counts):.0%}",
                   f"{lanes:.3f}", f"{simulate:.3f}", f"{lanes / every:.3f}",
                   f"{simulate / every:.3f}")  # fmt: skip


def latency() -> Iterator[Row]:
    """Microseconds of a round's parts."""
    found = results()["latency"]
    yield ("µs", *(f"R = {running}" for running in found["running"]))
    for part, seconds in found["seconds"].items():
        yield (part, *(f"{1e6 * s:,.0f}" for s in seconds))


PAGES: dict[str, dict[str, Callable[[], Iterator[Row]]]] = {
    "traces/README.md": {"shipped": shipped, "prompts": prompts},
    "docs/calibration.md": {"calibrated": calibrated},
    "docs/drafters-results.md": {
        f.__name__: f
        for f in (accepted, conditional, composition, sweep, unbiased, live, counted, latency)
    },
}  # fmt: skip


def rendered(page: str) -> str:
    """The page's text with its tables as they have to be."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return with_tables(text, {name: list(make()) for name, make in PAGES[page].items()})


def main() -> None:
    for page in PAGES:
        text = rendered(page)
        with atomic_write(ROOT / page, "w") as file:
            file.write(text)


if __name__ == "__main__":
    main()
