"""What a study was made of, as a report lists it: traces, profile, other files, fingerprints."""

from __future__ import annotations

from workbench.report.sheet import Section, Sheet
from workbench.report.study import Inputs


def inputs_sheet(inputs: Inputs) -> Sheet:
    """A row per file: what it is, what it says of itself, its SHA-256."""
    rows = []
    for trace in inputs.traces:
        facts = [
            f"{trace.requests:,} requests",
            ", ".join(trace.domains),
            f"target {trace.target or 'not named'}",
            f"drafter {trace.drafter or 'not named'}, γ = {trace.block_size}",
            f"temperature {trace.temperature:g}",
            f"coverage {trace.coverage}",
        ]
        if len(inputs.traces) > 1:
            facts.append(f"weight {trace.weight:.3g}")
        rows.append(("trace", trace.name, "; ".join(facts), trace.sha256))
    profile = inputs.profile_file
    gpus = f"{profile.gpus} × " if profile.gpus != 1 else ""
    facts = [
        f"GPU {gpus}{profile.gpu or 'not named'}",
        f"target {profile.target or 'not named'}",
        f"drafter {profile.drafter or 'not named'}",
        f"measured {profile.measured or 'at a date not given'}",
        f"by {profile.engine or 'an engine not named'}",
    ]
    rows.append(("profile", profile.name, "; ".join(facts), profile.sha256))
    rows += [
        (other.option.replace("_", " "), other.name, "", other.sha256) for other in inputs.files
    ]
    return Sheet(("input", "name", "what it says", "SHA-256"), [Section("", rows)])


def fit_words(inputs: Inputs) -> str:
    """How far the profile's step times are from steps measured whole, as it states it."""
    error, name = inputs.profile_file.fit_error, inputs.profile_file.name
    known = {
        "median": error and error.median,
        "95th percentile": error and error.p95,
        "largest": error and error.max,
    }
    said = ", ".join(f"{key} {value:.1%}" for key, value in known.items() if value is not None)
    if not said:
        return f"{name} does not say how far its step times are from steps measured whole."
    cells = f" on {error.cells} held-out rounds" if error.cells else ""
    return f"Error of {name} in a round's time{cells}: {said}. Leads below that are not certain."
