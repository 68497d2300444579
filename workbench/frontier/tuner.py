"""An Optuna study over configurations: asked in batches, simulated by the pool, told in order.

Several processes and machines may work on one study through its storage; each asks for itself.
"""

from __future__ import annotations

import itertools
import secrets
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict

import numpy as np
import optuna
from optuna.trial import FrozenTrial, TrialState

from workbench.errors import InputError
from workbench.frontier.digest import arm_digest, demand_digest, point_key
from workbench.frontier.findings import (
    CONSTRAINTS,
    Findings,
    configuration_of,
    constraints,
    family_of,
    figures_of,
)
from workbench.frontier.interrupts import held_interrupts
from workbench.frontier.objectives import OBJECTIVES, hopeless, violations
from workbench.frontier.pool import Pool, Task
from workbench.frontier.problem import Found, Problem
from workbench.frontier.space import Configuration

MARGIN = 0.05  # of a short run's figures, see ``objectives.hopeless``
LAST = 1 / 3  # share of a run's trials that look around the best instead of far and wide


class Tuner(Findings):
    """Runs trials of one study.

    pool: over ``problem.demands``; storage: an Optuna storage or its URL, None: in memory; name:
    the study's, made or joined; search_seed: of the search, by default the simulations' own.
    Raises InputError if a study of that name asks another question or the storage refuses.
    """

    def __init__(
        self,
        problem: Problem,
        pool: Pool,
        *,
        storage=None,
        name: str | None = None,
        search_seed: int | None = None,
    ):
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.problem, self.pool = problem, pool
        self._let_in = nullcontext  # where Ctrl-C may come
        self._demands = [demand_digest(demand) for demand in pool.demands]
        fingerprint = problem.fingerprint(self._demands[0])
        self.name = name or f"tune-{fingerprint[:12]}"
        self.study = optuna.create_study(
            storage=storage,
            study_name=self.name,
            directions=[OBJECTIVES[one].direction for one in problem.objectives],
            load_if_exists=True,
        )
        self._check(fingerprint)
        trials = self.study.get_trials(deepcopy=False)
        entropy = [problem.seed if search_seed is None else search_seed, len(trials)]
        if any(trial.state == TrialState.RUNNING for trial in trials) or _on_server(storage):
            entropy.append(secrets.randbits(64))  # others draw too, and must not draw the same
        self.study.sampler = _sampler(entropy)
        if not trials:
            for parameters in problem.space.defaults():
                self.study.enqueue_trial(parameters, skip_if_exists=True)

    def _check(self, fingerprint: str) -> None:
        theirs = self.study.user_attrs.get("fingerprint")
        if theirs is None:
            self.study.set_user_attr("fingerprint", fingerprint)
        elif theirs != fingerprint:
            raise InputError(
                "asks another question: other inputs, limits, choices or version",
                place=f"--study {self.name}",
                mend="name another study",
            )

    def run(self, trials: int, *, on_trial: Callable[[], None] = lambda: None) -> None:
        """Ask, simulate and tell ``trials`` more trials, as many at once as the pool has jobs.

        On Ctrl-C the trials under way are told as failed, and KeyboardInterrupt is raised.
        """
        with held_interrupts() as self._let_in:
            self._run(trials, on_trial)

    def _run(self, trials: int, on_trial: Callable[[], None]) -> None:
        left = trials
        while left > 0:
            batch = [self.study.ask() for _ in range(min(left, self.pool.jobs))]
            left -= len(batch)
            tried = self._tried()
            open_trials = {trial.number for trial in batch}
            try:
                self._batch(batch, open_trials, on_trial)
            finally:
                for number in open_trials:
                    self.study.tell(number, state=TrialState.FAIL)
            repeats = sum(one in tried for one in self._tried(since=batch[0].number))
            last = left <= LAST * trials
            self._step_aside(min(left, self.pool.jobs) if last else repeats)

    def _tried(self, since: int = 0) -> list[dict]:
        """Configurations that trials had, as dicts, from trial ``since`` on."""
        states = (TrialState.COMPLETE, TrialState.PRUNED)
        trials = self.study.get_trials(deepcopy=False, states=states)
        return [trial.user_attrs["configuration"] for trial in trials if trial.number >= since]

    def _step_aside(self, count: int) -> None:
        """Of the next trials ``count`` are steps from the best ones, as far as these are new."""
        if not count:
            return
        known = [trial.params for trial in self.study.get_trials(deepcopy=False)]
        space, promising = self.problem.space, self.promising()
        first, *others = [space.neighbours(one.parameters) for one in promising] or [[]]
        rivals = [rival for one in promising[:1] for rival in space.rivals(one.parameters)]
        turns = itertools.chain.from_iterable(itertools.zip_longest(*others))  # one of each a turn
        by_turns = itertools.chain.from_iterable(itertools.zip_longest(first, rivals, turns))
        near = (one for one in by_turns if one is not None and one not in known)
        for parameters in itertools.islice(near, count):
            self.study.enqueue_trial(parameters, skip_if_exists=True)

    def _batch(self, batch: list[optuna.Trial], open_trials: set[int], on_trial) -> None:
        problem = self.problem
        chosen = [problem.space.suggest(trial) for trial in batch]
        for trial, configuration in zip(batch, chosen, strict=True):
            trial.set_user_attr("configuration", asdict(configuration))
        lost: set[int] = set()
        if problem.short_requests is not None:
            runs = self._simulate(chosen, range(len(batch)), problem.short_requests)
            others = self._short_values()
            for index, trial in enumerate(batch):
                short = self.values(runs[index])
                if short is None:
                    continue
                trial.set_user_attr("short", short)
                trial.set_user_attr(CONSTRAINTS, violations(runs[index], problem.slo))
                if hopeless(self.signed(short), others, MARGIN):
                    lost.add(index)
        kept = [index for index in range(len(batch)) if index not in lost]
        runs = self._simulate(chosen, kept, None)
        for index, trial in enumerate(batch):
            if index in lost:
                self.study.tell(trial, state=TrialState.PRUNED)
            else:
                self._tell(trial, runs[index])
            open_trials.discard(trial.number)
            on_trial()

    def _tell(self, trial: optuna.Trial, run: dict) -> None:
        values = self.values(run)
        if values is None:
            self.study.tell(trial, state=TrialState.FAIL)
            return
        trial.set_user_attr(CONSTRAINTS, violations(run, self.problem.slo))
        trial.set_user_attr("figures", figures_of(run))
        self.study.tell(trial, values)

    def _simulate(
        self, chosen: Sequence[Configuration], which: Sequence[int], requests: int | None
    ) -> dict[int, dict]:
        """Runs by index; ``requests``: None for all."""
        problem = self.problem
        requests = problem.requests if requests is None else requests
        metrics = {"slo": None, "gpu_hour_usd": problem.gpu_hour_usd}
        tasks = []
        for index in which:
            arm, demand = problem.deployments.arm(chosen[index]), problem.demand_of(chosen[index])
            key = point_key(
                arm_digest(arm),
                self._demands[demand],
                problem.load,
                problem.seed,
                requests,
                metrics,
            )
            tasks.append(
                Task(
                    key,
                    arm,
                    demand,
                    problem.load,
                    problem.seed,
                    requests=requests,
                    gpu_hour_usd=problem.gpu_hour_usd,
                )
            )
        with self._let_in():
            return {which[position]: run for position, run in self.pool.results(tasks)}

    def _short_values(self) -> list[list[float]]:
        """Short figures, higher better, of the finished trials that keep all limits."""
        trials = self.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        return [
            self.signed(trial.user_attrs["short"])
            for trial in trials
            if "short" in trial.user_attrs and max(constraints(trial), default=0.0) <= 0
        ]

    def by_family(self) -> list[Found]:
        """Of each kind of scheduler the best by the first objective, best first.

        A kind may have lost all its trials but odd ones to short simulations: the best of these
        is simulated in full here. Kinds without a feasible trial are left out.
        """
        with held_interrupts() as self._let_in:
            return self._by_family()

    def _by_family(self) -> list[Found]:
        best = {family_of(one.chosen): one for one in sorted(self.feasible(), key=self.rank)}
        lost: dict[str, FrozenTrial] = {}
        pruned = self.study.get_trials(deepcopy=False, states=(TrialState.PRUNED,))
        for trial in sorted(pruned, key=lambda one: self.signed(one.user_attrs["short"])):
            if max(constraints(trial), default=0.0) <= 0:
                lost[family_of(configuration_of(trial))] = trial
        trials = list(lost.values())
        runs = self._simulate([configuration_of(one) for one in trials], range(len(trials)), None)
        for index, trial in enumerate(trials):
            if self.values(runs[index]) is None:
                continue
            one = self._finished(trial, runs[index])
            family = family_of(one.chosen)
            if one.feasible and (family not in best or self.rank(one) > self.rank(best[family])):
                best[family] = one
        return sorted(best.values(), key=self.rank, reverse=True)

    def _finished(self, trial: FrozenTrial, run: dict) -> Found:
        return Found(
            trial.number,
            configuration_of(trial),
            tuple(self.values(run)),
            tuple(violations(run, self.problem.slo)),
            figures_of(run),
            trial.params,
        )


def _on_server(storage) -> bool:
    return isinstance(storage, str) and not storage.startswith("sqlite:")


def _sampler(entropy: Sequence[int]) -> optuna.samplers.BaseSampler:
    """Conditional parameters are modelled per scheduler."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return optuna.samplers.TPESampler(
            seed=int(np.random.SeedSequence(entropy).generate_state(1)[0]),
            multivariate=True,
            group=True,
            constant_liar=True,
            constraints_func=constraints,
            n_startup_trials=12,
        )
