"""What the sidebar chose, loaded: costs, recorded requests and their content's digest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import streamlit as st

from app.files import Choice, Library
from workbench.errors import InputError
from workbench.frontier.digest import demand_digest
from workbench.profiles import Profile, StepCost, ladder, read_profile, with_graph_sizes
from workbench.serving import Demand, Population, build_population, stream
from workbench.traces import Trace, TraceStatistics, read_trace, trace_statistics


@dataclass(frozen=True, eq=False)
class Scene:
    """The inputs that all pages share; the same object as long as they are chosen."""

    profile: Profile
    cost: StepCost
    traces: tuple[Trace, ...]
    labels: tuple[str, ...]  # of the traces
    demand: Demand
    digest: str  # of the demand

    @property
    def population(self) -> Population:
        """The recorded requests of all traces."""
        return self.demand.population

    @property
    def gamma(self) -> int:
        """γ of the traces."""
        return self.population.block_size

    def notes(self) -> list[str]:
        """What a reader must know before believing a figure."""
        said = []
        targets = sorted({trace.header.target for trace in self.traces if trace.header.target})
        priced = self.profile.target.name
        if targets and priced and targets != [priced]:
            said.append(
                f"Acceptance was recorded on {', '.join(targets)}, costs were measured on "
                f"{priced}: this compares schedulers and does not forecast a deployment."
            )
        if self.cost.missing:
            said.append(f"Absent from the profile, so free: {', '.join(self.cost.missing)}.")
        drafted = self.profile.drafter.block_size if self.profile.drafter else None
        if drafted and drafted != self.gamma:
            said.append(
                f"The traces draft {self.gamma} tokens a block, the profile was measured with "
                f"{drafted}."
            )
        return said


@st.cache_resource(show_spinner=False)
def library(kind: str) -> Library:
    """The one library of this server for ``traces`` or ``profiles``."""
    return Library(kind)


@st.cache_resource(show_spinner=False, max_entries=24)
def _trace(label: str, path: str, version: int) -> Trace:
    return read_trace(path)


@st.cache_resource(show_spinner=False, max_entries=24)
def _profile(path: str, version: int) -> Profile:
    return read_profile(path)


def trace_of(choice: Choice) -> Trace:
    """The trace, read once per content."""
    return _trace(choice.label, str(choice.path), choice.version)


def profile_of(choice: Choice) -> Profile:
    """The profile, read once per content."""
    return _profile(str(choice.path), choice.version)


@st.cache_data(show_spinner=False, max_entries=24)
def _statistics(path: str, version: int, label: str) -> TraceStatistics:
    return trace_statistics(_trace(label, path, version))


def statistics_of(choice: Choice) -> TraceStatistics:
    """The trace's statistics, computed once per content."""
    return _statistics(str(choice.path), choice.version, choice.label)


def usual_scene() -> Scene:
    """What the app opens on."""
    profile = next(iter(library("profiles").choices().values()))
    trace = next(iter(library("traces").choices().values()))
    return scene(profile, (trace,), (1.0,))


def scene(
    profile: Choice, traces: tuple[Choice, ...], weights: tuple[float, ...], graphs: str = ""
) -> Scene:
    """The scene, made once per choice.

    weights [traces]: relative shares; graphs: a ladder of captured sizes as ``--graph-sizes`` has
    it, "" for the profile's own. Raises InputError as the command line does.
    """
    keys = tuple((choice.label, str(choice.path), choice.version) for choice in traces)
    return _scene(str(profile.path), profile.version, keys, weights, graphs)


@st.cache_resource(show_spinner=False, max_entries=12)
def _scene(path: str, version: int, keys: tuple, weights: tuple, graphs: str) -> Scene:
    traces = tuple(_trace(*key) for key in keys)
    population = build_population(traces, stream(0, "densify"))
    profile = _profile(path, version)
    if graphs:
        try:
            profile = with_graph_sizes(profile, ladder(graphs, population.block_size))
        except InputError as error:
            raise error.at("Captured graph sizes") from error
    shares = np.array(weights, float)
    demand = Demand(population, shares / shares.sum())
    labels = tuple(key[0] for key in keys)
    return Scene(profile, StepCost(profile), traces, labels, demand, demand_digest(demand))
