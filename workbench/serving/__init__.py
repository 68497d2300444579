"""The serving simulator: requests in, figures out. Start at ``arm.Arm`` and ``simulate.Run``."""

from workbench.serving.arm import Arm, Demand
from workbench.serving.load import Load, stream
from workbench.serving.options import Options
from workbench.serving.population import (
    Population,
    build_population,
    request_order,
    require_confidence,
    shortened,
)
from workbench.serving.replica import Replica
from workbench.serving.router import ROUTERS
from workbench.serving.simulate import Run
from workbench.serving.workload import Workload, from_arrivals, from_recordings

__all__ = [
    "ROUTERS",
    "Arm",
    "Demand",
    "Load",
    "Options",
    "Population",
    "Replica",
    "Run",
    "Workload",
    "build_population",
    "from_arrivals",
    "from_recordings",
    "request_order",
    "require_confidence",
    "shortened",
    "stream",
]
