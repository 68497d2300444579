"""Simulations outside the request's thread: first a quick pass, then the full one; can be ended."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace

import streamlit as st

from app.workers import Workers, compile_loops
from workbench.compiled import is_cold
from workbench.errors import InputError
from workbench.frontier import Task
from workbench.serving import Demand, kernels

_log = logging.getLogger("workbench.app")
_KEPT = 20_000  # results


class _Ended(Exception):
    """The sweep was cancelled while a simulation ran."""


class Results:
    """Runs by content key, the same for all sessions: an unchanged point is simulated once."""

    def __init__(self):
        self._lock = threading.Lock()
        self._runs: OrderedDict[str, dict] = OrderedDict()

    def get(self, key: str) -> dict | None:
        """The run kept under ``key``, None if there is none."""
        with self._lock:
            return self._runs.get(key)

    @property
    def empty(self) -> bool:
        """Whether there is none."""
        return not self._runs

    def put(self, key: str, run: dict) -> None:
        """Keep ``run``; the oldest leave first."""
        with self._lock:
            self._runs[key] = run
            while len(self._runs) > _KEPT:
                self._runs.popitem(last=False)


@dataclass(frozen=True)
class Wanted:
    """One point of a sweep: its full simulation and, where that takes long, a shorter one."""

    full: Task
    quick: Task | None = None


@dataclass
class Sweep:
    """A set of points and how far it has come. ``errors``: by scheduler, in one line."""

    demand: Demand
    wanted: Sequence[Wanted]
    results: Results
    errors: dict[str, str] = field(default_factory=dict)
    compiling: bool = False

    def __post_init__(self):
        quick = [w.quick for w in self.wanted if w.quick and self._open(w.full, w.quick)]
        full = [w for w in self.wanted if not self.results.get(w.full.key)]
        self.soon = [*quick, *(w.full for w in full if not w.quick)]
        self.later = [w.full for w in full if w.quick]
        self.steps = [*self.soon, *self.later]
        self.done = 0
        self._cancelled, self._changed = False, threading.Condition()
        self._patient: Executor | None = None  # has not been given ``later`` yet

    def _open(self, full: Task, quick: Task) -> bool:
        return not (self.results.get(full.key) or self.results.get(quick.key))

    @property
    def finished(self) -> bool:
        """Whether nothing more will come."""
        return self._cancelled or self.done == len(self.steps)

    @property
    def cancelled(self) -> bool:
        """Whether it was ended before its time."""
        return self._cancelled

    def cancel(self) -> None:
        """End it; what was simulated stays."""
        with self._changed:
            self._cancelled = True
            self._changed.notify_all()

    @property
    def warm(self) -> bool:
        """Whether this server has simulated already, so that a quick pass is soon over."""
        return not self.results.empty

    def wait_first(self, seconds: float) -> bool:
        """Wait until every load and scheduler has a point to draw, not longer; whether it has."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self.finished or self.done >= len(self.soon or self.later), seconds
            )

    def wait(self, seconds: float) -> bool:
        """Wait for the end, not longer; whether it came."""
        with self._changed:
            return self._changed.wait_for(lambda: self.finished, seconds)

    def runs(self) -> list[dict]:
        """The runs so far, the full one where it is there, each marked ``quick`` or not."""
        found = []
        for wanted in self.wanted:
            run = self.results.get(wanted.full.key)
            quick = run is None and wanted.quick is not None
            if quick:
                run = self.results.get(wanted.quick.key)
            if run is not None:
                task = wanted.full
                found.append({**run, "scheduler": task.name, "seed": task.seed, "quick": quick})
        return found

    def start(self, workers: Workers) -> None:
        """Have ``soon`` simulated and, once that is done, ``later``."""
        self._patient = workers.patient
        for task in self.soon:
            workers.prompt.submit(self.step, task)
        self._go_on()

    def _go_on(self) -> None:
        with self._changed:
            if self.done < len(self.soon) or self._patient is None:
                return
            patient, self._patient = self._patient, None
        for task in self.later:
            patient.submit(self.step, task)

    def step(self, task: Task) -> None:
        """Simulate one of ``steps``, unless it was cancelled or is known. For a worker."""
        try:
            if not self._over and self.results.get(task.key) is None:
                self._simulate(task)
        except _Ended:
            pass
        except InputError as error:
            self.errors[task.name] = str(error)
        except Exception:
            _log.exception("%s failed", task.name)
            self.errors[task.name] = "could not be simulated; the server's log says why"
        finally:
            with self._changed:
                self.done += 1
                self._changed.notify_all()
            self._go_on()

    def _simulate(self, task: Task) -> None:
        if is_cold(kernels.commit_rounds):
            self.compiling = True
            compile_loops()
        demand = replace(self.demand, requests=task.requests)
        run = task.arm.run(demand, task.load, seed=task.seed, on_progress=self._check)
        run.run()
        self.compiling = False
        self.results.put(task.key, run.result())

    @property
    def _over(self) -> bool:
        return self._cancelled or _closing.is_set()

    def _check(self, _: int) -> None:
        if self._over:
            raise _Ended


_closing = threading.Event()


@st.cache_resource(show_spinner=False)
def _shared() -> tuple[Workers, Results]:
    return Workers(), Results()


def close() -> None:
    """End all simulations of this process, which else would finish before it may exit."""
    _closing.set()


def ahead(demand: Demand, wanted: Sequence[Wanted]) -> None:
    """Simulate the quick points of ``wanted`` for whoever comes first."""
    workers, results = _shared()
    Sweep(demand, [Wanted(one.quick) for one in wanted if one.quick], results).start(workers)


def begin(demand: Demand, wanted: Sequence[Wanted]) -> Sweep:
    """This session's sweep over ``wanted``: the one that runs if it is the same, else a new one."""
    signature = tuple(one.full.key for one in wanted)
    known: tuple | None = st.session_state.get("sweep")
    if known is not None:
        before, sweep = known
        if before == signature:
            return sweep
        sweep.cancel()
    workers, results = _shared()
    sweep = Sweep(demand, wanted, results)
    st.session_state["sweep"] = (signature, sweep)
    sweep.start(workers)
    return sweep


def again() -> None:
    """Forget this session's sweep, so that one that was ended begins anew."""
    st.session_state.pop("sweep", None)
