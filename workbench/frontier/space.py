"""What ``tune`` may choose: schedulers, their parameters, drafts, an engine's limits and graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from workbench.errors import InputError
from workbench.profiles import Profile, StepCost, ladder, with_graph_sizes
from workbench.schedulers import Scheduler, create, lossless
from workbench.serving import Arm

MEASURED = "profile"  # the capture sizes that the profile was measured with
_STEP = 0.02  # of threshold's h
MOST_LAG = 4  # steps that topk looks back
_LIMITS = ("max_running", "token_budget", "graph_sizes")
_FREE = {
    "static": "static:1",
    "threshold": "threshold:0.5",
    "topk": "topk",
}  # and an example of each


@dataclass(frozen=True)
class Configuration:
    """One choice of everything that is tuned."""

    scheduler: str
    max_running: int
    token_budget: int
    graph_sizes: str
    block_size: int | None = None  # drafts used of each block; None: all

    def flags(self) -> dict:
        """As options of ``simulate``, by parameter name."""
        return {
            "schedulers": (self.scheduler,),
            "max_running": self.max_running,
            "token_budget": self.token_budget,
            "graph_sizes": None if self.graph_sizes == MEASURED else self.graph_sizes,
            "block_size": self.block_size,
        }


@dataclass(frozen=True)
class Space:
    """The choices. families: specifications; bare ``static``, ``threshold``, ``topk`` are tuned.

    blocks: drafts per round, for schedulers that draft whole blocks; empty: always all.
    """

    families: tuple[str, ...]
    block_size: int  # γ
    max_running: tuple[int, ...]
    token_budget: tuple[int, ...]
    graph_sizes: tuple[str, ...]
    blocks: tuple[int, ...] = ()

    @property
    def shorter(self) -> tuple[int, ...]:
        """The choices of ``blocks`` below γ."""
        return tuple(length for length in self.blocks if length < self.block_size)

    def examples(self) -> tuple[str, ...]:
        """A scheduler of each family."""
        return tuple(_FREE.get(family, family) for family in self.families)

    def suggest(self, trial) -> Configuration:
        """A configuration from an Optuna trial (or any object with its suggest methods)."""
        family = _choice(trial, "scheduler", self.families)
        if family == "static":
            scheduler = f"static:{trial.suggest_int('static_k', 1, self.block_size)}"
        elif family == "threshold":
            scheduler = (
                f"threshold:{trial.suggest_float('threshold_h', _STEP, 1 - _STEP, step=_STEP):g}"
            )
        elif family == "topk":
            scheduler = f"topk:{trial.suggest_int('topk_lag', 1, MOST_LAG)}"
        else:
            scheduler = family
        drafts = None
        if self.blocks and drafts_blocks(family):
            drafts = _choice(trial, "block_size", self.blocks)
        return Configuration(
            scheduler,
            _choice(trial, "max_running", self.max_running),
            _choice(trial, "token_budget", self.token_budget),
            _choice(trial, "graph_sizes", self.graph_sizes),
            None if drafts == self.block_size else drafts,
        )

    def defaults(self) -> list[dict]:
        """Parameters to try first: each family as it is by default, with generous limits."""
        shared = {
            name: choices[-1] if name != "graph_sizes" else choices[0]
            for name in _LIMITS
            if len(choices := getattr(self, name)) > 1
        }
        return [self._default(family) | shared for family in self.families]

    def _default(self, family: str, drafts: int = 3) -> dict:
        """A family's own parameters; drafts: of the static one."""
        own = {
            "static": {"static_k": min(drafts, self.block_size)},
            "threshold": {"threshold_h": 0.5},
            "topk": {"topk_lag": 2},
        }
        many = len(self.families) > 1
        whole = {"block_size": max(self.blocks)} if len(self.blocks) > 1 else {}
        return (
            ({"scheduler": family} if many else {})
            | own.get(family, {})
            | (whole if drafts_blocks(family) else {})
        )

    def neighbours(self, parameters: dict) -> list[dict]:
        """Parameters of a trial with one of them a step up or down its choices, or whole blocks."""
        ranges = {
            "static_k": list(range(1, self.block_size + 1)),
            "threshold_h": [round(step * _STEP, 2) for step in range(1, round(1 / _STEP))],
            "topk_lag": list(range(1, MOST_LAG + 1)),
            "block_size": list(self.blocks),
            **{name: list(getattr(self, name)) for name in ("max_running", "token_budget")},
        }
        near = []
        for name, choices in ranges.items():
            if name not in parameters:
                continue
            place = min(range(len(choices)), key=lambda i: abs(choices[i] - parameters[name]))
            near += [
                parameters | {name: choices[other]}
                for other in (place - 1, place + 1)
                if 0 <= other < len(choices)
            ]
        if parameters.get("block_size", self.block_size) < self.block_size - 1:
            near.append(parameters | {"block_size": max(self.blocks)})
        return near

    def rivals(self, parameters: dict) -> list[dict]:
        """The other families, static with one draft, with a step more running and with as many.

        Where a scheduler keeps a limit on latency but no more at a step more, another may.
        """
        limits = {name: parameters[name] for name in _LIMITS if name in parameters}
        running = parameters.get("max_running")
        more = [limits | {"max_running": n} for n in self.max_running if n > (running or n)][:1]
        others = [one for one in self.families if one != parameters.get("scheduler", one)]
        return [self._default(one, drafts=1) | own for own in (*more, limits) for one in others]


def _choice(trial, name: str, choices: Sequence):
    return choices[0] if len(choices) == 1 else trial.suggest_categorical(name, list(choices))


def drafts_blocks(family: str) -> bool:
    """Whether a scheduler drafts the whole block, and not a number of its own."""
    return family.partition(":")[0] not in ("none", "static")


def default_families(
    confidence: bool, sees: str = "prefix", temperature: float = 1.0
) -> tuple[str, ...]:
    """Schedulers that can be deployed and keep the output unbiased.

    confidence: whether the traces have any; sees, temperature: as ``schedulers.lossless`` has them.
    """
    able = ("none", "static", "threshold", "greedy", "topk") if confidence else ("none", "static")
    return tuple(one for one in able if lossless(create(_FREE.get(one, one), 1), sees, temperature))


def check_families(families: Sequence[str], block_size: int) -> list[Scheduler]:
    """An example of each. Raises InputError for a name that is none or sees the outcome."""
    made = []
    for family in families:
        scheduler = create(_FREE.get(family, family), block_size)
        if scheduler.reads == "outcomes":
            raise InputError(
                "knows what will be accepted, so it cannot be deployed",
                place=f"--scheduler {family}",
                mend="leave it out",
            )
        made.append(scheduler)
    return made


class Deployments:
    """Arms by configuration; step costs of each ladder are made once."""

    def __init__(self, base: Arm, profile: Profile, block_size: int):
        self._base, self._profile, self._block_size = base, profile, block_size
        self._costs: dict[tuple, StepCost] = {}

    def arm(self, chosen: Configuration) -> Arm:
        """What is deployed under ``chosen``."""
        return replace(
            self._base,
            scheduler=chosen.scheduler,
            cost=self._cost(chosen.graph_sizes, chosen.block_size or self._block_size),
            options=replace(
                self._base.options,
                max_running=chosen.max_running,
                token_budget=chosen.token_budget,
            ),
        )

    def _cost(self, sizes: str, drafts: int) -> StepCost:
        if sizes == MEASURED:
            return self._base.cost
        if (sizes, drafts) not in self._costs:
            rungs = ladder(sizes, drafts)
            self._costs[sizes, drafts] = StepCost(with_graph_sizes(self._profile, rungs))
        return self._costs[sizes, drafts]
