"""The compiled loop of a replica: what it takes, and handing state to it and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from workbench.compiled import why_slow
from workbench.profiles import StepCost, TableBelief, TruthBelief
from workbench.profiles.packed import PackedCost
from workbench.schedulers.global_search import GlobalSearch
from workbench.schedulers.greedy import Greedy
from workbench.schedulers.threshold import Threshold
from workbench.schedulers.topk import TopK
from workbench.serving import loop
from workbench.serving.state import FINISHED

if TYPE_CHECKING:
    from workbench.serving.replica import Replica

_RULES = {
    Threshold: loop.THRESHOLD,
    Greedy: loop.GREEDY,
    TopK: loop.TOPK,
    GlobalSearch: loop.GLOBAL,
}
_EMPTY = np.empty(0)
_NO_CONFIDENCE = np.zeros((0, 1), np.float32)
_NO_CONFIDENCE.setflags(write=False)


def supported(replica: Replica) -> bool:
    """Whether the compiled loop does all that this replica's options, scheduler and costs ask."""
    options, scheduler, belief = replica.options, replica.scheduler, replica.belief
    if why_slow() or options.compiled is False:
        return False
    special = options.prefix_caching or options.uniform_width or options.align
    if special or options.record_steps or options.queue != "fcfs":
        return False
    if replica.cost.admission_lag_steps:
        return False
    if scheduler.uniform is None and type(scheduler) not in _RULES:
        return False
    if isinstance(belief, TableBelief):
        return belief.by_batch.rule != "cells"
    return isinstance(belief, TruthBelief) and belief.cost is replica.cost


class FastPath:
    """Runs many steps of a replica in one call."""

    def __init__(self, replica: Replica, stop_on_finish: bool):
        self.replica = replica
        cost, scheduler, options = replica.cost, replica.scheduler, replica.options
        slots, gamma, history = options.slots, replica.gamma, replica.history
        uniform = scheduler.uniform
        drafts = gamma if uniform is None else max(uniform, 0)
        self.registers = np.zeros(len(loop.REGISTERS), np.int64)
        self.clock = np.zeros(6)
        self.clock[loop.CUT] = np.float32(scheduler.h) if isinstance(scheduler, Threshold) else 0.0
        self.clock[loop.NEW_SURVIVAL] = scheduler.new_survival
        belief = replica.belief
        parts = belief.cost if isinstance(belief, TruthBelief) else belief.parts
        settings = {
            "gamma": gamma,
            "rule": loop.UNIFORM if uniform is not None else _RULES[type(scheduler)],
            "k": uniform or 0,
            "lag": scheduler.lag,
            "depth": history.depth,
            "token_budget": options.token_budget,
            "prefill_first": options.prefill_first,
            "block": replica.kv.block,
            "lookahead": replica.lookahead,
            "limited": replica.kv.capacity is not None,
            "stop_on_finish": stop_on_finish,
            "sync": replica.synchronous,
            "drafter": scheduler.drafter,
            "belief_parts": parts is not None,
            "belief_truth": isinstance(belief, TruthBelief),
            "gpus": cost.gpus,
            "metered": cost.watts(1) is not None,
        }
        self.settings = np.array([settings[name] for name in loop.SETTINGS], np.int64)
        confidence = replica.population.confidence if replica.population else None
        budget = options.token_budget
        packed = _packed(cost, slots, drafts)
        workload = replica.workload
        self._before = (
            replica.slots,
            replica.lists,
        )
        self._after = (
            workload.lengths,
            workload.segment_start,
            workload.segments,
            replica.recorder.times,
            replica.counters,
            replica._accepted,
            replica._drawn,
            _NO_CONFIDENCE if confidence is None else confidence,
            history.stamp,
            history.survivals,
            history.counts,
            history.seconds,
            np.zeros((slots, gamma)),
            np.zeros((3, slots * gamma + 1)),
            *_by_batch(cost, budget),
            packed.prefill,
            _parts(packed),
            _believed(belief, packed, budget, slots, drafts),
        )

        self.advance(0.0, 0.0)  # nothing to do yet: loads the machine code before a clock runs

    @property
    def pending(self) -> bool:
        """Whether a step is planned and not committed."""
        return bool(self.registers[loop.PENDING])

    def advance(self, now: float, until: float) -> tuple[int, float]:
        """See ``loop.advance``; returns its status and the time that goes with it."""
        replica, registers, clock = self.replica, self.registers, self.clock
        waiting, kv, recorder = replica.waiting, replica.kv, replica.recorder
        registers[:10] = (
            replica.decoding_count, replica.prefilling_count, replica.free_count, waiting.head,
            waiting.count, replica.admissions, kv.free, replica.history.step,
            replica.outstanding_tokens, 0,
        )  # fmt: skip
        clock[loop.JOULES] = 0.0
        status = loop.advance(
            now, until, registers, clock, self.settings, *self._before, waiting.ring, *self._after
        )
        (
            replica.decoding_count, replica.prefilling_count, replica.free_count, waiting.head,
            waiting.count, replica.admissions, kv.free, replica.history.step,
            replica.outstanding_tokens, completed,
        ) = registers[:10].tolist()  # fmt: skip
        recorder.joules += float(clock[loop.JOULES])
        replica.completed = completed
        if status == loop.FINISHED_SOME:
            count = registers[loop.FINISHED_COUNT]
            replica.finished = replica.lists[FINISHED, :count].tolist()
        return status, float(clock[loop.END if status == loop.WAIT else loop.NOW])


def _by_batch(cost: StepCost, budget: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """verify seconds, padded tokens and watts by 0..budget batch tokens; kept with the cost."""
    cache = cost.__dict__.setdefault("_by_batch_cache", {})
    if budget not in cache:
        tokens = np.arange(budget + 1)
        watts = np.zeros(1)
        if cost.watts(1) is not None:
            watts = np.array([cost.watts(int(count)) for count in tokens])
        cache[budget] = (
            np.array(cost.verify_table(budget)),
            np.asarray(cost.padded(tokens), np.int64),
            watts,
        )
    return cache[budget]


def _packed(cost: StepCost, slots: int, drafts: int) -> PackedCost:
    """``StepCost.packed``, kept with the cost."""
    cache = cost.__dict__.setdefault("_packed_cache", {})
    if (slots, drafts) not in cache:
        cache[slots, drafts] = cost.packed(slots, drafts)
    return cache[slots, drafts]


def _parts(packed: PackedCost) -> tuple[np.ndarray, ...]:
    return (
        packed.attention, packed.attention_mixed, packed.mixed, packed.draft,
        packed.draft_contexts, packed.rates,
    )  # fmt: skip


def _believed(belief, packed: PackedCost, budget: int, slots: int, drafts: int) -> tuple:
    """Believed seconds by batch tokens, by requests, and the parts that a belief adds."""
    if isinstance(belief, TruthBelief):
        return np.array(belief.cost.verify_table(budget)), np.zeros(slots + 1), _parts(packed)
    by_batch = np.array(belief.by_batch.span(0, budget))
    alpha = np.array([belief.by_request_count(count) for count in range(slots + 1)])
    parts = _packed(belief.parts, slots, drafts) if belief.parts else _no_parts(slots, drafts)
    return by_batch, alpha, _parts(parts)


def _no_parts(slots: int, drafts: int) -> PackedCost:
    return PackedCost(
        _EMPTY, _EMPTY, _EMPTY, _EMPTY, np.zeros((1, drafts + 1, slots + 1)), _EMPTY, np.zeros(9)
    )
