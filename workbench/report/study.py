"""A finished sweep as a report shows it, from ``workbench.sweep/1``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec

from workbench.errors import InputError
from workbench.files import not_a_file
from workbench.frontier import GroupFrontier, group_frontier
from workbench.frontier.document import FORMAT
from workbench.validation import explain

_MEND = "name a file that `workbench sweep --json` has written"


class TraceInput(msgspec.Struct, kw_only=True):
    """A recorded trace of a study."""

    name: str
    weight: float
    target: str
    drafter: str
    temperature: float
    coverage: str
    confidence_sees: str
    requests: int
    block_size: int
    domains: list[str]
    sha256: str


class FitErrors(msgspec.Struct, kw_only=True):
    """Relative errors of a profile's step times on rounds that it was not fitted on."""

    cells: int | None = None
    median: float | None = None
    p95: float | None = None
    max: float | None = None


class ProfileInput(msgspec.Struct, kw_only=True):
    """The profile of a study; ``measured``: the date, as the profile gives it."""

    name: str
    sha256: str
    gpu: str | None = None
    gpus: int = 1
    engine: str | None = None
    target: str | None = None
    drafter: str | None = None
    measured: str | None = None
    fit_error: FitErrors | None = None


class OtherInput(msgspec.Struct, kw_only=True):
    """Any other file: ``option`` is where the command names it."""

    option: str
    name: str
    sha256: str


class Inputs(msgspec.Struct, kw_only=True):
    """The inputs of one group."""

    version: str
    traces: list[TraceInput]
    profile_file: ProfileInput
    files: list[OtherInput]
    schedulers: list[str]  # as specified
    stagger: bool = False
    align_tier: bool = False
    slo: dict[str, float] | None = None

    @property
    def temperature(self) -> float:
        """The highest sampling temperature, for which the lossless verdict has to hold."""
        return max((trace.temperature for trace in self.traces), default=0.0)

    @property
    def confidence_sees(self) -> str:
        """``token`` if any trace's confidences depend on the token that they judge."""
        return "token" if any(t.confidence_sees == "token" for t in self.traces) else "prefix"

    @property
    def block_size(self) -> int:
        """γ; 1 without a trace, where nothing is drafted."""
        return self.traces[0].block_size if self.traces else 1


class _Mean(msgspec.Struct):
    mean: float | None


class _P99(msgspec.Struct):
    p99: float | None


class _Run(msgspec.Struct):
    """What is read of a run; it is decoded for its errors."""

    scheduler: str
    lossless: bool
    hindsight: bool
    replay: str
    seed: int
    requests: int
    throughput_tok_s_gpu: float | None
    speed_tok_s_user: _Mean
    ttft_s: _P99
    accepted_length: float | None
    verification_budget: float | None
    concurrency: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | msgspec.UnsetType = (
        msgspec.UNSET
    )
    rate: Annotated[float, msgspec.Meta(gt=0)] | msgspec.UnsetType = msgspec.UNSET


class _Anchor(msgspec.Struct):
    speed_tok_s_user: float


class _Group(msgspec.Struct):
    name: str
    baseline: str
    sla: list[_Anchor]
    runs: list[_Run]


class _Config(msgspec.Struct):
    command: str
    seeds: int
    groups: dict[str, Inputs]


class _Document(msgspec.Struct):
    config: _Config
    groups: list[_Group]
    notes: list[str]
    partial: bool = False


@dataclass(frozen=True)
class StudyGroup:
    """What was compared on one demand and one profile."""

    inputs: Inputs
    runs: list[dict]  # entries of workbench.result/1 with their seed
    frontier: GroupFrontier


@dataclass(frozen=True)
class ReportStudy:
    """All that a report is made of."""

    groups: list[StudyGroup]
    seeds: int
    command: str  # that repeats it
    notes: list[str]
    partial: bool


def read_study(path: str | os.PathLike) -> ReportStudy:
    """Read what ``workbench sweep --json`` wrote. Raises InputError naming file, field and mend."""
    if (problem := not_a_file(path)) is not None:
        raise InputError(problem, file=path, mend=_MEND)
    try:
        document = msgspec.json.decode(Path(path).read_bytes())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"is not JSON ({error})", file=path, mend=_MEND) from error
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", file=path, mend=_MEND) from error
    return study_of(document, path)


def study_of(document: Any, path: str | os.PathLike | None = None) -> ReportStudy:
    """The study in a ``workbench.sweep/1``; ``path``: its file, for errors.

    Raises InputError where a field is absent or of the wrong kind, or nothing was simulated.
    """
    given = document.get("format") if isinstance(document, dict) else None
    if given != FORMAT:
        said = f"is '{given}'" if isinstance(given, str) else "is not there"
        raise InputError(f"{said}, so this is no sweep", file=path, place="format", mend=_MEND)
    try:
        known = msgspec.convert(document, _Document)
    except msgspec.ValidationError as error:
        problem, place, _ = explain(error)
        mend = "sweep again with this version: what is simulated already comes from the cache"
        raise InputError(problem, file=path, place=place or None, mend=mend) from error
    groups = []
    for number, (group, raw) in enumerate(zip(known.groups, document["groups"], strict=True)):
        place = f"groups[{number}]"
        if group.name not in known.config.groups:
            raise InputError(f"'{group.name}' has no inputs in config", file=path, place=place)
        for index, run in enumerate(group.runs):
            if (run.concurrency is msgspec.UNSET) == (run.rate is msgspec.UNSET):
                raise InputError(
                    "needs one load, concurrency or rate",
                    file=path,
                    place=f"{place}.runs[{index}]",
                    mend=_MEND,
                )
        anchors = [anchor.speed_tok_s_user for anchor in group.sla]
        frontier = group_frontier(group.name, raw["runs"], group.baseline, anchors)
        groups.append(StudyGroup(known.config.groups[group.name], raw["runs"], frontier))
    if not any(group.runs for group in groups):
        raise InputError("holds no simulation", file=path, place="groups", mend="sweep again")
    return ReportStudy(
        [group for group in groups if group.runs],
        known.config.seeds,
        known.config.command,
        known.notes,
        known.partial,
    )
