"""From single runs to a frontier: many simulations at once, kept by content, compared by SLA."""

from workbench.frontier.bands import GroupFrontier, SchedulerFrontier, group_frontier
from workbench.frontier.cache import Cache, default_folder
from workbench.frontier.pareto import Curve, Reach, non_dominated
from workbench.frontier.pool import Pool, Task
from workbench.frontier.sla import SlaRow, sla_rows
from workbench.frontier.study import Group, Study

__all__ = [
    "Cache",
    "Curve",
    "Group",
    "GroupFrontier",
    "Pool",
    "Reach",
    "SchedulerFrontier",
    "SlaRow",
    "Study",
    "Task",
    "default_folder",
    "group_frontier",
    "non_dominated",
    "sla_rows",
]
