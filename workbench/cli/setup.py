"""What ``simulate`` runs, made of its options: demand, arms and loads.

No option is ever ignored: one that would change nothing is refused.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import msgspec
import numpy as np

from workbench import __version__
from workbench.arrivals import Arrivals, read_arrivals
from workbench.arrivals.servegen import lengths_beside
from workbench.calibration import read_calibration
from workbench.cli.inputs import inputs
from workbench.cli.values import trace_weights, weighted
from workbench.errors import InputError
from workbench.files import resolve
from workbench.profiles import (
    Profile,
    StepCost,
    ladder,
    read_planner_table,
    read_profile,
    with_graph_sizes,
)
from workbench.profiles.profile import Host
from workbench.schedulers import Scheduler, create, default_schedulers, spelled_out
from workbench.schedulers.user_file import file_of
from workbench.serving import (
    Arm,
    Demand,
    Load,
    Options,
    Population,
    build_population,
    shortened,
    stream,
)
from workbench.traces import Trace, read_trace

DEFAULT_CONCURRENCY = (1, 16, 64, 256)


class Setup:
    """Demand, arms and loads of one command."""

    def __init__(self, given: dict):
        self.given = given
        if not given["traces"] and not given["arrivals"]:
            raise InputError(
                "is missing", place="--trace", mend="name a trace, as in --trace chat.jsonl"
            )
        pairs = [weighted(spec) for spec in given["traces"]]
        self.names = [name for name, _ in pairs]
        self.traces: list[Trace] = [read_trace(name) for name in self.names]
        if given["calibration"] is not None:
            self.traces = [self._calibrated(trace) for trace in self.traces]
        if given["arrivals"] == "trace" and any(weight is not None for _, weight in pairs):
            raise InputError(
                "mixes by chance, and recorded arrivals are replayed as they are",
                place="--trace FILE:WEIGHT",
                mend="leave the weights out",
            )
        self.weights = trace_weights([weight for _, weight in pairs]) if pairs else np.ones(0)
        self.arrivals = self._arrivals()
        self.loads = self._loads()
        self.population = self._population()
        self.profile = self._profile()
        self.cost = StepCost(self.profile)
        self.belief = self._belief()
        self.demand = self._demand()
        self.arms = self._arms()
        self.inputs = inputs(self)  # now: the files may change while they are simulated

    def files(self) -> list[str]:
        """Every file that is read: none of them may be written."""
        given = self.given
        users = [str(path) for spec in given["schedulers"] if (path := file_of(spec))]
        others = [self.planner_table, given["arrivals"], given["calibration"]]
        if self.arrivals is not None and (lengths := lengths_beside(Path(given["arrivals"]))):
            others.append(str(lengths))  # read without being named
        traces = [str(trace.path) for trace in self.traces]
        return [*traces, str(self.profile_path), *users, *(path for path in others if path)]

    @property
    def planner_table(self) -> str | None:
        """The file of ``--planner-table``, which may be named as a profile is."""
        name = self.given["planner_table"]
        return None if name is None else str(resolve(name, "profiles", ("", ".json")))

    def _population(self) -> Population | None:
        block_size = self.given["block_size"]
        if not self.traces:
            if block_size is not None:
                raise InputError(
                    "shortens a trace's blocks", place="--block-size", mend="add a --trace"
                )
            return None
        whole = build_population(self.traces, stream(self.given["seed"], "densify"))
        return whole if block_size is None else shortened(whole, block_size)

    def _calibrated(self, trace: Trace) -> Trace:
        """The trace with the confidences that schedulers see after temperature scaling."""
        calibration = read_calibration(self.given["calibration"])
        calibration.require_block_size(trace.block_size)
        if trace.confidence is None:
            raise InputError(
                "carries no confidences to calibrate", file=trace.name, mend="drop --calibration"
            )
        return dataclasses.replace(trace, confidence=calibration.apply(trace.confidence))

    # Demand --------------------------------------------------------------------------------------

    def _arrivals(self) -> Arrivals | None:
        given, name = self.given, self.given["arrivals"]
        if name is None or name == "trace":
            for option, unset in (("speedup", 1.0), ("start", None), ("stop", None)):
                if given[option] != unset:
                    flag = {"start": "--from", "stop": "--to"}.get(option, "--speedup")
                    raise InputError(
                        "slices a file of arrivals", place=flag, mend="give --arrivals FILE"
                    )
            if name == "trace" and not self.traces:
                raise InputError(
                    "replays the trace's arrival_s", place="--arrivals trace", mend="give --trace"
                )
            return None
        arrivals = read_arrivals(
            name,
            speedup=given["speedup"],
            start=given["start"],
            stop=given["stop"],
            seed=given["seed"],
        )
        lengths = arrivals.output_tokens is not None and arrivals.prompt_tokens is not None
        if not (lengths or self.traces):
            raise InputError(
                "has no lengths", file=name, mend="give a --trace to replay at these times"
            )
        return arrivals

    def _loads(self) -> list[Load]:
        given = self.given
        concurrency, rate, arrivals = given["concurrency"], given["rate"], given["arrivals"]
        untimed = self.arrivals is not None and not self.arrivals.timed
        if untimed and not (concurrency or rate):
            raise InputError(
                "has lengths and no times", file=arrivals, mend="add --rate or --concurrency"
            )
        chosen = [f"--{name}" for name in ("concurrency", "rate", "arrivals") if given[name]]
        if untimed:
            chosen.remove("--arrivals")
        if len(chosen) > 1:
            raise InputError(
                f"{' and '.join(chosen)} exclude each other", mend="give one kind of load"
            )
        for option, flag in (("burstiness", "--burstiness"), ("on_off", "--on-off")):
            if given[option] and not rate:
                raise InputError("shapes random arrivals", place=flag, mend="use it with --rate")
        if given["stagger"] and "--concurrency" not in chosen and chosen:
            raise InputError(
                "spreads the users of a closed loop",
                place="--stagger",
                mend="use it with --concurrency",
            )
        if rate:
            return [Load(rate=value) for value in rate]
        if arrivals and not untimed:
            return [Load(arrivals=arrivals)]
        stagger = given["stagger"]
        return [Load(concurrency=n, stagger=stagger) for n in concurrency or DEFAULT_CONCURRENCY]

    def _demand(self) -> Demand:
        given, population = self.given, self.population
        if given["queue"] == "priority" and not given["priority"]:
            raise InputError(
                "needs priorities", place="--queue priority", mend="add --priority chat=0,code=1"
            )
        if given["priority"]:
            if given["queue"] != "priority":
                raise InputError(
                    "orders the queue", place="--priority", mend="add --queue priority"
                )
            names = population.domain_names if population else ()
            unknown = [name for name in given["priority"] if name not in names]
            if unknown:
                raise InputError(
                    f"no request is of domain '{unknown[0]}'",
                    place="--priority",
                    mend=f"the domains are {', '.join(names) or 'unknown without a trace'}",
                )
        demand = Demand(
            population,
            self.weights,
            self.arrivals,
            given["requests"],
            given["priority"] or {},
            given["burstiness"],
            given["on_off"],
        )
        if given["prefix_caching"]:
            workload = demand.workload(self.loads[0], given["seed"])
            if workload.session is None and workload.cached is None:
                raise InputError(
                    "no request has a session or cached_prompt_tokens",
                    place="--prefix-caching",
                    mend="it would change nothing: leave it out",
                )
        elif given["undrafted_loss"] is not None:
            raise InputError(
                "hurts the rounds after a restored prefix",
                place="--undrafted-loss",
                mend="add --prefix-caching",
            )
        return demand

    # Costs ---------------------------------------------------------------------------------------

    def _profile(self) -> Profile:
        given = self.given
        self.profile_path = resolve(given["profile"], "profiles", ("", ".json"))
        profile = read_profile(given["profile"])
        if given["graph_sizes"] is not None:
            drafts = self.gamma if self.traces else 0
            profile = with_graph_sizes(profile, ladder(given["graph_sizes"], drafts))
        changes = {
            field: given[option]
            for option, field in (("host_sync", "sync_seconds"), ("host_async", "async_seconds"))
            if given[option] is not None
        }
        if changes:
            host = msgspec.structs.replace(profile.host or Host(), **changes)
            profile = msgspec.structs.replace(profile, host=host)
        return profile

    def _belief(self):
        given = self.given
        if given["planner_table"] is not None:
            return read_planner_table(given["planner_table"], lookup=given["planner_lookup"])
        if given["planner_lookup"]:
            raise InputError(
                "has no table to read", place="--planner-lookup", mend="give --planner-table"
            )
        return None

    # Arms ----------------------------------------------------------------------------------------

    def _arms(self) -> list[Arm]:
        given = self.given
        options = Options(
            max_running=given["max_running"],
            token_budget=given["token_budget"],
            prefill_first=given["prefill"] == "first",
            synchronous={"auto": None, "sync": True, "async": False}[given["pipeline"]],
            kv_tokens=given["kv_tokens"],
            queue=given["queue"],
            prefix_caching=given["prefix_caching"],
            undrafted_loss=given["undrafted_loss"] or 0.0,
            uniform_width=given["uniform_width"],
            align=given["align_tier"],
            record_steps=bool(given["timeline"]),
        )
        if given["router"] and given["replicas"] == 1:
            raise InputError(
                "has one replica to choose from", place="--router", mend="add --replicas N"
            )
        arms = [
            Arm(
                spec,
                self.cost,
                self.belief,
                options,
                given["lag"],
                given["new_survival"],
                given["replicas"],
                given["router"] or "round-robin",
            )
            for spec in self._specs()
        ]
        made = [arm.new_scheduler(self.gamma) for arm in arms]  # a wrong name is said right here
        self._check_effect(made)
        return arms

    @property
    def gamma(self) -> int:
        """γ, the drafts of a round; 1 without a trace, where nothing is drafted."""
        return self.population.block_size if self.population else 1

    def _specs(self) -> list[str]:
        given = spelled_out(self.given["schedulers"])
        if self.population is None:
            other = [spec for spec in given if create(spec, 1).drafter]
            if other:
                raise InputError(
                    f"{other[0]} drafts, and arrivals alone say nothing of acceptance",
                    place="--scheduler",
                    mend="add a --trace",
                )
            return ["none"]
        if given:
            return given
        specs = default_schedulers(self.gamma)
        if self.population.confidence is None:
            specs = [spec for spec in specs if not create(spec, self.gamma).needs_confidence]
        return specs

    def _check_effect(self, schedulers: list[Scheduler]) -> None:
        """Refuse options that none of the schedulers, or no request, would notice."""
        given = self.given
        pipeline = given["pipeline"]
        sync = [
            pipeline == "sync" or (pipeline == "auto" and scheduler.synchronous)
            for scheduler in schedulers
        ]
        chosen = [scheduler for scheduler in schedulers if scheduler.uniform is None]
        looks_back = any(scheduler.lag for scheduler in schedulers)
        drafts = any(scheduler.drafter for scheduler in schedulers)
        reads = any(scheduler.needs_confidence for scheduler in schedulers)
        prices = any(scheduler.prices for scheduler in schedulers)
        for option, noticed, problem, mend in (
            ("lag", looks_back, "no scheduler here looks back", "compare topk with it"),
            ("new_survival", looks_back, "no scheduler here looks back", "compare topk with it"),
            ("host_sync", any(sync), "no step here is synchronous", "add --pipeline sync"),
            ("host_async", not all(sync), "no step here is overlapped", "add --pipeline async"),
            ("planner_table", prices, "no scheduler here asks for costs", "compare topk with it"),
            ("calibration", reads, "no scheduler here reads confidences", "compare topk with it"),
            (
                "block_size",
                chosen,
                "no scheduler here drafts a whole block",
                "compare topk with it",
            ),
            ("align_tier", chosen, "no scheduler here chooses lengths", "compare topk with it"),
            ("uniform_width", chosen, "no scheduler here trims", "compare topk with it"),
            ("undrafted_loss", drafts, "no scheduler here drafts", "compare topk with it"),
        ):
            if given[option] not in (None, False) and not noticed:
                raise InputError(problem, place=f"--{option.replace('_', '-')}", mend=mend)
        if given["align_tier"] and self.cost.last_captured is None:
            raise InputError(
                "the profile has no graphs to fill", place="--align-tier", mend="add --graph-sizes"
            )
        if given["router"] == "session" and not self._sessions():
            raise InputError(
                "no request has a session", place="--router session", mend="choose another router"
            )

    def _sessions(self) -> bool:
        arrivals, population = self.arrivals, self.population
        if arrivals is not None and arrivals.output_tokens is not None:
            return arrivals.session is not None
        return population is not None and population.session is not None

    # What to say ---------------------------------------------------------------------------------

    def config(self) -> dict:
        """The inputs of the command, for the result file."""
        outputs = ("json_path", "requests_out", "timeline", "traces", "schedulers")
        settings = {key: value for key, value in self.given.items() if key not in outputs}
        return {
            "version": __version__,
            **self.inputs,
            "schedulers": [arm.scheduler for arm in self.arms],
            **settings,
            "profile": self.profile.name,
        }
