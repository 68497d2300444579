"""The files that a command reads, for its result: names, fingerprints, what they say they are."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.arrivals.servegen import lengths_beside
from workbench.schedulers.user_file import file_of

if TYPE_CHECKING:
    from workbench.cli.setup import Setup
    from workbench.profiles import Profile
    from workbench.traces import Trace

_HEADER = ("target", "drafter", "temperature", "coverage", "confidence", "confidence_sees")


def inputs(setup: Setup) -> dict:
    """``traces``, ``profile_file`` and ``files``: everything that is read, with its SHA-256.

    Names are as the user gave them; where files lie is not told.
    """
    given = setup.given
    weights = setup.weights.tolist()
    others = [("planner_table", given["planner_table"], setup.planner_table)]
    named = [("calibration", given["calibration"])]
    if given["arrivals"] != "trace":
        named.append(("arrivals", given["arrivals"]))
    if setup.arrivals is not None:  # read without being named
        named.append(("arrivals", lengths_beside(Path(given["arrivals"]))))
    named += [("scheduler", file_of(arm.scheduler)) for arm in setup.arms]
    others += [(option, path, path) for option, path in named]
    return {
        "traces": [
            {"name": name, "weight": weight, **_trace(trace)}
            for name, weight, trace in zip(setup.names, weights, setup.traces, strict=True)
        ],
        "profile_file": {
            "name": given["profile"],
            "sha256": fingerprint(setup.profile_path),
            **_profile(setup.profile),
        },
        "files": [
            {"option": option, "name": str(name), "sha256": fingerprint(path)}
            for option, name, path in others
            if path
        ],
    }


def fingerprint(path: str | Path) -> str:
    """SHA-256 of a file's bytes, as hex."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _trace(trace: Trace) -> dict:
    header = {name: getattr(trace.header, name) for name in _HEADER}
    domains = list(trace.domain_names)
    counts = {"requests": trace.requests, "block_size": trace.block_size, "domains": domains}
    return {**header, **counts, "sha256": fingerprint(trace.path)}


def _profile(profile: Profile) -> dict:
    """What a profile says of its machine, its models and how well it fits what was measured."""
    measured = profile.document.get("measured") or {}
    error = measured.get("fit_error")
    error = error if isinstance(error, dict) else {}
    numbers = {
        key: error[key]
        for key in ("cells", "median", "p95", "max")
        if isinstance(error.get(key), int | float)
    }
    engine = profile.engine
    return {
        "gpu": profile.hardware.gpu,
        "gpus": profile.hardware.gpus,
        "engine": " ".join(part for part in (engine.name, engine.version) if part) or None,
        "target": profile.target.name,
        "drafter": profile.drafter.kind if profile.drafter else None,
        "measured": measured.get("date") if isinstance(measured.get("date"), str) else None,
        "fit_error": numbers or None,
    }
