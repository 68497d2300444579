"""Recorded traces of a drafter: reading, writing, filling gaps, statistics. Format: design §3."""

from workbench.traces.dense import Dense, densify, fill_gaps
from workbench.traces.model import Header, Trace
from workbench.traces.reading import read_trace
from workbench.traces.rounds import Rounds, rounds_of
from workbench.traces.statistics import TraceStatistics, trace_statistics
from workbench.traces.writing import write_trace

__all__ = [
    "Dense",
    "Header",
    "Rounds",
    "Trace",
    "TraceStatistics",
    "densify",
    "fill_gaps",
    "read_trace",
    "rounds_of",
    "trace_statistics",
    "write_trace",
]
