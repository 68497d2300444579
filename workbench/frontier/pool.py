"""Many simulations at once: a process per core, results as they come, nothing done twice."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path

from workbench.compiled import is_cold
from workbench.errors import InputError
from workbench.frontier.cache import Cache
from workbench.schedulers.user_file import is_file_spec
from workbench.serving import Arm, Demand, Load, kernels


@dataclass(frozen=True)
class Task:
    """One simulation: an arm under a load, with the requests of a demand."""

    key: str  # content key, ``digest.point_key``
    arm: Arm
    demand: int  # index into the pool's demands
    load: Load
    seed: int
    name: str = ""  # what its results are called
    requests: int | None = None  # overrides the demand's own
    slo: dict | None = None
    gpu_hour_usd: float | None = None


class Cancelled(Exception):
    """The simulation was told to stop."""


class Pool:
    """Simulates tasks over shared demands, in ``jobs`` processes or, for one, in this process.

    Processes are started when the first simulation is needed. Each result is kept in ``cache``
    by the process that made it, so that nothing finished is lost whatever ends the program.
    """

    def __init__(self, demands: Sequence[Demand], *, jobs: int, cache: Cache | None = None):
        self.demands, self.jobs, self.cache = list(demands), jobs, cache
        self.cached = self.simulated = 0  # results handed out so far
        self._executor: ProcessPoolExecutor | None = None
        self._cancel = None

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, kind, error, trace) -> None:
        self.close(at_once=kind is not None)

    def close(self, at_once: bool = False) -> None:
        """End the processes; ``at_once``: simulations that run are given up."""
        if self._executor is None:
            return
        if at_once:
            self._cancel.set()
        with contextlib.suppress(BrokenProcessPool):
            self._executor.shutdown(wait=True, cancel_futures=True)
        self._executor = None

    def results(self, tasks: Sequence[Task]) -> Iterator[tuple[int, dict]]:
        """(index into ``tasks``, run) of each as it is known: first what the cache has.

        Raises InputError as simulations do, or if a process dies.
        """
        missing = []
        for index, task in enumerate(tasks):
            run = self.cache.get(task.key) if self.cache else None
            if run is None:
                missing.append(index)
                continue
            self.cached += 1
            yield index, run
        made = self._inline if self.jobs == 1 or len(missing) <= 1 else self._spread
        for index, run in made(tasks, missing):
            self.simulated += 1
            yield index, run

    def _inline(self, tasks: Sequence[Task], missing: list[int]) -> Iterator[tuple[int, dict]]:
        for index in missing:
            task = tasks[index]
            yield index, _simulate(self.demands[task.demand], task, self.cache)

    def _spread(self, tasks: Sequence[Task], missing: list[int]) -> Iterator[tuple[int, dict]]:
        if self._executor is None:
            self._start([tasks[index] for index in missing])
        with _interrupts_ignored():  # by the processes that are started here
            futures = {self._executor.submit(_work, tasks[index]): index for index in missing}
        pending = set(futures)
        while pending:
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            for future in done:
                try:
                    run = future.result()
                except BrokenProcessPool as error:
                    raise InputError(
                        "a process that simulates was ended from outside, often for want of memory",
                        place=f"--jobs {self.jobs}",
                        mend="give fewer --jobs",
                    ) from error
                yield futures[future], run

    def _start(self, tasks: Sequence[Task]) -> None:
        method = _start_method()
        if method == "fork" or is_cold(kernels.commit_rounds):
            self._warm(tasks)
        context = multiprocessing.get_context(method)
        self._cancel = context.Event()
        folder = str(self.cache.folder) if self.cache else None
        self._executor = ProcessPoolExecutor(
            self.jobs,
            mp_context=context,
            initializer=_begin,
            initargs=(self.demands, folder, self._cancel),
        )

    def _warm(self, tasks: Sequence[Task]) -> None:
        """Load or compile machine code here, once for all processes.

        Not by a user's own scheduler: what it does wrong must not end this process.
        """
        for task in {task.arm.scheduler: task for task in tasks}.values():
            if not is_file_spec(task.arm.scheduler):
                # what is wrong with it is said when it is simulated
                with contextlib.suppress(InputError):
                    _simulate(self.demands[task.demand], replace(task, requests=2), None)


def _start_method() -> str:
    """``fork`` where it is safe: processes then have imports, inputs and machine code at once."""
    alone = threading.active_count() == 1  # a copy of a thread's locks could stay locked
    return "fork" if sys.platform == "linux" and alone else "spawn"


@contextlib.contextmanager
def _interrupts_ignored():
    """Ctrl-C reaches this process's children too; they inherit what is ignored when they start."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# In the processes --------------------------------------------------------------------------------

_demands: list[Demand] = []
_cache: Cache | None = None
_cancelled = None


def _begin(demands: list[Demand], folder: str | None, cancelled) -> None:
    global _demands, _cache, _cancelled
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _demands, _cancelled = demands, cancelled
    _cache = Cache(Path(folder)) if folder else None
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    multiprocessing.parent_process().join()
    os._exit(1)


def _work(task: Task) -> dict:
    return _simulate(_demands[task.demand], task, _cache, _check_cancelled)


def _check_cancelled(_: int) -> None:
    if _cancelled.is_set():
        raise Cancelled


def _simulate(demand: Demand, task: Task, cache: Cache | None, on_progress=None) -> dict:
    if task.requests is not None:
        demand = replace(demand, requests=task.requests)
    workload = demand.workload(task.load, task.seed)
    run = task.arm.run(
        demand, task.load, seed=task.seed, workload=workload, on_progress=on_progress
    )
    run.run()
    result = run.result(slo=task.slo, gpu_hour_usd=task.gpu_hour_usd)
    result["notes"] = list(workload.notes)
    if cache is not None:
        cache.put(task.key, result)
    return result
