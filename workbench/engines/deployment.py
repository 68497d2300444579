"""What is to be deployed, what comes out of it, and what the engines' settings have in common."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from workbench.errors import InputError
from workbench.profiles import StepCost
from workbench.schedulers import create
from workbench.serving import Options

BY_BATCH = "static k by batch size"
TARGET, DRAFTER = "TARGET_MODEL", "DRAFT_MODEL"
PLANNERS = ("topk", "global", "greedy")


@dataclass(frozen=True)
class Config:
    """What to start an engine with. ``files``: by name, to be written beside the command."""

    command: str
    files: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Deployment:
    """A scheduler on a profile, with an engine's limits.

    block_size: γ of the drafter; drafts: of those the ones that are used, None for all; context:
    tokens per request, for tables that have no axis for it; table: vLLM's ranges for ``BY_BATCH``.
    """

    scheduler: str
    cost: StepCost
    block_size: int
    options: Options
    context: float
    drafts: int | None = None
    table: list[list[int]] | None = None

    @property
    def used(self) -> int:
        """Draft tokens proposed per round."""
        return self.block_size if self.drafts is None else self.drafts

    @property
    def kind(self) -> str:
        """The scheduler's name without its parameters."""
        return self.scheduler.partition(":")[0]

    @property
    def plans(self) -> bool:
        """Whether it chooses lengths by expected throughput, which engines' planners do too."""
        return self.kind in PLANNERS

    @property
    def uniform(self) -> int | None:
        """Drafts verified of every request, None where the scheduler chooses."""
        if self.scheduler == BY_BATCH:
            return None
        return create(self.scheduler, self.used).uniform

    @property
    def drafter(self) -> str:
        """The kind of drafter that the profile was measured with."""
        drafter = self.cost.profile.drafter
        return (drafter.kind if drafter else None) or "dspark"

    @property
    def captured(self) -> list[int]:
        """Captured batch tokens, ascending; empty without graphs."""
        graphs = self.cost.profile.graphs
        return list(graphs.batch_tokens) if graphs else []


def no_setting(engine: str, deployment: Deployment, mend: str) -> InputError:
    """The refusal of what an engine cannot do."""
    return InputError(
        f"{engine} has no setting that does this", place=deployment.scheduler, mend=mend
    )


def named(engine: str, deployment: Deployment, names: Mapping[str, str]) -> str:
    """What the engine calls the drafter's kind. Raises InputError for one it does not have."""
    kind = deployment.drafter
    if kind not in names:
        raise InputError(
            f"{engine} has no drafter of kind '{kind}'",
            place=deployment.cost.profile.name,
            mend=f"there are {', '.join(names)}",
        )
    return names[kind]


def models_note(*models: str) -> str:
    """That placeholders stand for the user's own models."""
    return f"Put your model{'s' if len(models) > 1 else ''} for {' and '.join(models)}."


def joined(parts: Iterable[str]) -> str:
    """A shell command, one option a line."""
    return " \\\n  ".join(parts)


def option(name: str, value: object) -> str:
    """``name`` with ``value`` quoted for a shell."""
    return f"{name} {shlex.quote(str(value))}"
