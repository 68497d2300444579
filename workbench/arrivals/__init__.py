"""When requests come and how long they are: processes, public traces, lengths. docs/arrivals.md."""

from workbench.arrivals.choice import process
from workbench.arrivals.lengths import Segments, fit_outputs
from workbench.arrivals.model import Arrivals
from workbench.arrivals.processes import gamma, on_off, poisson, weibull
from workbench.arrivals.reading import read_arrivals
from workbench.arrivals.reshaping import retime, stretch

__all__ = [
    "Arrivals",
    "Segments",
    "fit_outputs",
    "gamma",
    "on_off",
    "poisson",
    "process",
    "read_arrivals",
    "retime",
    "stretch",
    "weibull",
]
