"""What a report says of a scheduler's output: the verdict by rule and by enumeration."""

from __future__ import annotations

from workbench.frontier import SchedulerFrontier
from workbench.report.study import Inputs
from workbench.schedulers import create
from workbench.schedulers.audit import audit
from workbench.schedulers.user_file import is_file_spec


def audited(one: SchedulerFrontier, inputs: Inputs, baseline: str, run_files: bool) -> str:
    """The audit's finding on a scheduler of a study, in words.

    run_files: whether a scheduler in a file may be loaded, which runs that file. It may not
    where its name comes out of a results file. Raises InputError where it cannot be loaded.
    """
    if one.hindsight:
        return "knows the outcome, so it cannot be deployed: not audited"
    if not inputs.traces:
        return "nothing is drafted"
    if inputs.temperature == 0:
        return "at temperature 0 the output is fixed and nothing can bias it"
    spec = _spec(one.scheduler, [*inputs.schedulers, baseline], inputs.block_size, run_files)
    if spec is None:
        return "not audited: name its file with --scheduler, or run workbench audit"
    verdict = audit(spec, confidence_sees=inputs.confidence_sees)
    if verdict.verdict == "lossless":
        return f"output equal to the target's in all of {verdict.cases} enumerated cases"
    if verdict.verdict == "not exercised":
        return f"not exercised: no draft changed a decision in {verdict.cases} cases"
    return (
        f"refuted: the output's distribution is off by up to {verdict.distance:.3f} "
        f"(total variation) in {verdict.cases} enumerated cases"
    )


def _spec(name: str, specs: list[str], block_size: int, run_files: bool) -> str | None:
    """The specification of the scheduler that a study calls ``name``; None if it may not be run."""
    for spec in specs:
        if is_file_spec(spec) and not run_files:
            continue
        if name in (spec, create(spec, block_size).name):
            return spec
    return None
