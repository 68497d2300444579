"""``workbench.engines`` as the pages call it."""

from __future__ import annotations

from workbench import engines
from workbench.engines import BY_BATCH, ENGINES, Config, Deployment, batch_table
from workbench.profiles import StepCost
from workbench.serving import Options

__all__ = ["BY_BATCH", "ENGINES", "Config", "batch_table", "export"]


def export(
    engine: str,
    scheduler: str,
    cost: StepCost,
    gamma: int,
    options: Options,
    *,
    context: float,
    table: list[list[int]] | None = None,
) -> Config:
    """The settings that make ``engine`` do what ``scheduler`` does, as nearly as it can.

    context: tokens per request, for tables that have no axis for it; table: for ``BY_BATCH``.
    Raises InputError for what the engine has no setting for.
    """
    deployment = Deployment(scheduler, cost, gamma, options, context, table=table)
    return engines.export(engine, deployment)
