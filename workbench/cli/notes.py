"""What a reader must know before believing a comparison."""

from __future__ import annotations

from workbench.cli.setup import Setup
from workbench.report.comparison import load_name


def notes(setup: Setup, runs: list[dict]) -> list[str]:
    """The sentences below the table; takes the runs' own notes out of them."""
    timed = setup.arrivals is not None and setup.arrivals.timed
    notes = [*_about_models(setup), *(setup.arrivals.notes if timed else [])]
    measured = setup.profile.measured
    if measured is not None and measured.complete is False:
        notes.append("the profile's measurement was interrupted, parts of it may be missing")
    if setup.cost.missing:
        parts = ", ".join(setup.cost.missing)
        notes.append(f"absent from the profile, so it costs nothing: {parts}")
    if setup.profile.draft is None and any(run["scheduler"] != "none" for run in runs):
        notes.append("the profile has no draft pass: whatever drafts comes out too well")
    if setup.belief is not None:
        notes += [f"planner table: {warning}" for warning in setup.belief.warnings]
    notes += dict.fromkeys(note for run in runs for note in run.pop("notes", []))
    notes += [*_about_windows(runs), *_about_replay(runs), *_about_overload(runs)]
    notes += _about_memory(setup, runs)
    return notes


def _about_memory(setup: Setup, runs: list[dict]) -> list[str]:
    notes = [
        f"{run['scheduler']} ran out of KV cache at {load_name(run)}: {run['preemptions']:,} "
        "preemptions, each recomputed"
        for run in runs
        if run["preemptions"]
    ]
    cached = setup.population is not None and setup.population.cached is not None
    if cached and not setup.given["prefix_caching"]:
        notes.append("cached_prompt_tokens of the trace are not used without --prefix-caching")
    return notes


def _about_models(setup: Setup) -> list[str]:
    notes = []
    targets = sorted({trace.header.target for trace in setup.traces if trace.header.target})
    priced = setup.profile.target.name if setup.profile.target else None
    if targets and priced and targets != [priced]:
        notes.append(
            f"acceptance was recorded on {', '.join(targets)}, costs were measured on "
            f"{priced}: a comparison of schedulers, not a forecast of this deployment"
        )
    drafters = sorted({trace.header.drafter for trace in setup.traces if trace.header.drafter})
    kind = setup.profile.drafter.kind if setup.profile.drafter else None
    others = [name for name in drafters if kind and not name.lower().startswith(kind.lower())]
    if others and kind != "none":
        notes.append(
            f"the drafts are of {', '.join(others)}, the draft pass costs what {kind}'s does"
        )
    drafted = setup.profile.drafter.block_size if setup.profile.drafter else None
    recorded = setup.traces[0].block_size if setup.traces else drafted
    if drafted and drafted != recorded:
        notes.append(
            f"the traces draft {recorded} tokens a block, the profile was measured with {drafted}"
        )
    return notes


def _about_windows(runs: list[dict]) -> list[str]:
    whole = [run for run in runs if run["window"]["kind"] == "whole" and not run.get("partial")]
    if not whole:
        return []
    return [
        f"{len(whole)} of {len(runs)} runs have no steady window and count from start to end: more "
        "--requests would settle them"
    ]


def _about_replay(runs: list[dict]) -> list[str]:
    notes = []
    loose = dict.fromkeys(run["scheduler"] for run in runs if run["replay"] == "approximate")
    exact = dict.fromkeys(run["scheduler"] for run in runs if run["replay"] == "exact")
    if loose:
        rest = f", exact for {', '.join(exact)}" if exact else ""
        notes.append(f"replay is approximate for {', '.join(loose)}{rest}")
    drawn = sum(run["drawn_rounds"] for run in runs)
    if drawn:
        notes.append(
            f"{drawn:,} of {sum(run['rounds'] for run in runs):,} rounds had an outcome that the "
            "engine did not record; it was drawn from the trace's own statistics"
        )
    return notes


def _about_overload(runs: list[dict]) -> list[str]:
    loaded = [run for run in runs if run.get("overloaded")]
    filling = [
        f"{run['scheduler']} at {load_name(run)}: requests in the system went from {before} to "
        f"{after} inside the window, which is too short to tell whether it keeps up; simulate more "
        "--requests"
        for run in runs
        if "overloaded" in run and run["overloaded"] is None
        for before, after in [run["window"]["in_system"]]
        if after > 2 * before + 10
    ]
    return filling + [
        f"{run['scheduler']} does not keep up at {load_name(run)}: requests in the system grew "
        f"from {run['window']['in_system'][0]} to {run['window']['in_system'][1]} inside the "
        "window, so its TTFT says how long was simulated, not how it serves"
        for run in loaded
    ]
