"""The serving simulator: requests in, figures out. Start at ``simulate.Run``."""

from workbench.serving.population import Population, build_population, request_order
from workbench.serving.replica import Options, Replica
from workbench.serving.simulate import Load, Run, stream

__all__ = [
    "Load",
    "Options",
    "Population",
    "Replica",
    "Run",
    "build_population",
    "request_order",
    "stream",
]
