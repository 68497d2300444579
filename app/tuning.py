"""A tuning study in a thread of its own: started, watched and ended from a page."""

from __future__ import annotations

import logging
import shlex
import threading

from workbench.errors import InputError
from workbench.frontier import Pool
from workbench.frontier.problem import Found, Problem
from workbench.frontier.space import MEASURED
from workbench.serving import Demand

_log = logging.getLogger("workbench.app")


class Study:
    """``trials`` trials of ``problem``, in memory. ``error``: in one line, if it failed.

    traces, profile: what it was started on, as the command line takes them.
    """

    def __init__(
        self, problem: Problem, demand: Demand, trials: int, traces: list[str], profile: str
    ):
        self.problem, self.trials = problem, trials
        self.traces, self.profile = traces, profile
        self.done, self.error = 0, ""
        self.cancelled = False
        self._demand, self._tuner = demand, None
        self._thread = threading.Thread(target=self._run, name="tune", daemon=True)
        self._thread.start()

    @property
    def finished(self) -> bool:
        """Whether no trial comes any more."""
        return not self._thread.is_alive()

    def cancel(self) -> None:
        """End it after the trial that runs."""
        self.cancelled = True

    def wait(self, seconds: float) -> bool:
        """Wait for the end, not longer; whether it came."""
        self._thread.join(seconds)
        return self.finished

    def found(self) -> list[Found]:
        """The trials that were simulated in full."""
        return self._tuner.found() if self._tuner else []

    def pareto(self) -> list[Found]:
        """Of those the feasible ones that none beats, the best by the first objective first."""
        return self._tuner.pareto() if self._tuner else []

    def counts(self) -> dict[str, int]:
        """Trials by what became of them."""
        return self._tuner.counts() if self._tuner else {}

    def _run(self) -> None:
        try:
            from workbench.frontier.tuner import Tuner  # Optuna takes a second to import

            with Pool(self.problem.demands(self._demand), jobs=1) as pool:
                self._tuner = Tuner(self.problem, pool)
                while self.done < self.trials and not self.cancelled:
                    self._tuner.run(1)
                    self.done += 1
        except InputError as error:
            self.error = str(error)
        except Exception:
            _log.exception("a study failed")
            self.error = "the study failed; the server's log says why"


def command(problem: Problem, one: Found, traces: list[str], profile: str) -> str:
    """``one`` as a command that simulates it again.

    traces: as ``--trace`` takes them, with weights; profile: a file or a shipped name.
    """
    chosen, load = one.chosen, problem.load
    parts = ["workbench", "simulate"]
    for trace in traces:
        parts += ["--trace", trace]
    parts += ["--profile", profile, "--scheduler", chosen.scheduler]
    if load.concurrency:
        parts += ["--concurrency", str(load.concurrency), *(["--stagger"] if load.stagger else [])]
    else:
        parts += ["--rate", f"{load.rate:g}"]
    if chosen.block_size is not None:
        parts += ["--block-size", str(chosen.block_size)]
    parts += ["--requests", str(problem.requests)]
    parts += ["--max-running", str(chosen.max_running), "--token-budget", str(chosen.token_budget)]
    if chosen.graph_sizes != MEASURED:
        parts += ["--graph-sizes", chosen.graph_sizes]
    if problem.seed:
        parts += ["--seed", str(problem.seed)]
    return shlex.join(parts)
