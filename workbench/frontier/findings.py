"""What the trials of an Optuna study found."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import optuna
from optuna.trial import FrozenTrial, TrialState

from workbench.frontier.objectives import OBJECTIVES, pareto_set
from workbench.frontier.problem import Found, Problem
from workbench.frontier.space import Configuration

CONSTRAINTS = "constraints"  # the attribute of a trial that holds its violations


class Findings:
    """The finished trials of ``study``, whoever ran them, as answers to ``problem``."""

    problem: Problem
    study: optuna.Study

    def found(self) -> list[Found]:
        """All finished trials of the study, whoever ran them."""
        return [
            Found(
                trial.number,
                configuration_of(trial),
                tuple(trial.values),
                tuple(constraints(trial)),
                trial.user_attrs["figures"],
                trial.params,
            )
            for trial in self.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        ]

    def counts(self) -> dict[str, int]:
        """Trials by what became of them."""
        states = [trial.state for trial in self.study.get_trials(deepcopy=False)]
        return {
            state.name.lower(): states.count(state)
            for state in (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)
        }

    def pareto(self) -> list[Found]:
        """The feasible trials that none beats, the best by the first objective first.

        Of trials with the same values (the same configuration again, or a limit that was never
        met) the one with the lowest limits, which cost an engine least. Empty if no trial keeps
        all limits.
        """
        lowest: dict[tuple, Found] = {}
        for one in sorted(self.feasible(), key=_limits):
            lowest.setdefault(one.values, one)
        able = list(lowest.values())
        if not able:
            return []
        values = np.array([self.signed(one.values) for one in able])
        kept = [able[index] for index in pareto_set(values)]
        return sorted(kept, key=self.rank, reverse=True)

    def promising(self, count: int = 3) -> list[Found]:
        """Where to look next: the Pareto set and the ``count`` best, then of each kind of scheduler
        the trial that keeps all limits, or misses them least, with the best first objective.
        """
        best = sorted(self.feasible(), key=self.rank, reverse=True)[:count]
        kinds: dict[str, Found] = {}
        for one in sorted(self.found(), key=lambda one: (-one.missed, self.rank(one))):
            kinds[family_of(one.chosen)] = one
        others = sorted(kinds.values(), key=lambda one: (-one.missed, self.rank(one)), reverse=True)
        return list({one.number: one for one in [*self.pareto(), *best, *others]}.values())

    def feasible(self) -> list[Found]:
        """The finished trials that keep all limits."""
        return [one for one in self.found() if one.feasible]

    def rank(self, one: Found) -> tuple:
        """What trials are ordered by: objectives, the first first; of equal ones the earlier."""
        return (self.signed(one.values), -one.number)

    def values(self, run: dict) -> list[float] | None:
        """A run's objectives; None if it lacks one."""
        values = [OBJECTIVES[one].value(run) for one in self.problem.objectives]
        return None if any(value is None for value in values) else values

    def signed(self, values: Sequence[float]) -> list[float]:
        """Objectives with higher better."""
        pairs = zip(self.problem.objectives, values, strict=True)
        return [OBJECTIVES[one].sign * value for one, value in pairs]


def configuration_of(trial: FrozenTrial) -> Configuration:
    """A trial's configuration."""
    return Configuration(**trial.user_attrs["configuration"])


def family_of(chosen: Configuration) -> str:
    """The kind of a configuration's scheduler."""
    return chosen.scheduler.partition(":")[0]


def constraints(trial: FrozenTrial) -> Sequence[float]:
    """How far a trial misses each limit."""
    return trial.user_attrs.get(CONSTRAINTS, ())


def _limits(one: Found) -> tuple:
    return (one.chosen.max_running, one.chosen.token_budget, one.number)


def figures_of(run: dict) -> dict:
    """What is kept of a run beside its objectives."""
    return {
        "throughput_tok_s_gpu": run["throughput_tok_s_gpu"],
        "speed_tok_s_user": run["speed_tok_s_user"]["mean"],
        "ttft_p99_s": run["ttft_s"]["p99"],
        "tpot_p99_s": run["tpot_s"]["p99"],
        "accepted_length": run["accepted_length"],
        "verification_budget": run["verification_budget"],
        "energy_j_token": run.get("energy_j_token"),
        "usd_per_million_tokens": run.get("usd_per_million_tokens"),
        "lossless": run["lossless"],
        "replay": run["replay"],
    }
