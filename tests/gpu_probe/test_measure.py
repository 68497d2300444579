import dataclasses
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gpu_probe import measure
from gpu_probe.batch import PAGE_TOKENS, pages_needed
from gpu_probe.grid import FULL, QUICK, TINY
from gpu_probe.held_out import random_cells
from gpu_probe.load import Load
from gpu_probe.measure import POWER_LIMITED, Probe
from gpu_probe.shapes import MODELS


def test_steps_that_may_reach_the_power_limit_are_loaded_first_and_timed_longer(monkeypatch):
    asked = []
    monkeypatch.setattr(measure, "timed_in_order", lambda *args: asked.append(args[3:]))
    monkeypatch.setattr(measure.time, "perf_counter", lambda: 10.0)
    probe = SimpleNamespace(grid=FULL, device="cpu", repeats=5, load=Load(FULL.load_seconds))
    Probe.timed_in_order(probe, [], POWER_LIMITED - 1)
    Probe.timed_in_order(probe, [], POWER_LIMITED, settle=0.5)
    settle = FULL.settle_seconds
    assert asked == [(settle, 0, 0), (settle / 2, FULL.load_seconds, FULL.swing_seconds)]


def test_every_context_of_the_grid_has_its_positions():
    grid = dataclasses.replace(TINY, whole=((2, 1, 900),)).limited(contexts=(32,))
    probe = Probe(MODELS["tiny"], "cpu", torch.float32, grid, 2)
    assert len(probe.step([1, 1], [900, 900])()) == 2


@given(st.integers(1, 4096), st.integers(1, 1 << 15), st.booleans())
def test_any_limits_leave_something_of_every_part(largest, tokens, quick):
    grid = (QUICK if quick else FULL).limited(max_tokens=largest, contexts=(tokens,))
    assert grid.whole and grid.power and grid.captured and grid.loop_contexts
    assert all(grid.mixed) and max(grid.mixed[0]) <= max(grid.mixed[1])
    last = grid.captured[-1]
    assert last < grid.beyond[0] <= 2 * last + 1 and len(set(grid.beyond)) == len(grid.beyond)


@pytest.mark.parametrize("ragged", [False, True])
def test_attention_is_timed_over_one_context_or_many_of_that_mean(monkeypatch, ragged):
    probe = Probe(MODELS["tiny"], "cpu", torch.float32, TINY, 2)
    asked = []
    real = probe.batch
    monkeypatch.setattr(probe, "batch", lambda q, c, *more: asked.append(c) or real(q, c, *more))
    assert probe.attention(4, 64, 2, ragged).median > 0
    (contexts,) = asked
    assert sum(contexts) == 4 * 64
    assert (len(set(contexts)) == 4) == ragged
    assert min(contexts) >= 32 and max(contexts) <= 96


def test_whole_steps_are_timed_after_the_context_asked_for(monkeypatch):
    probe = Probe(MODELS["tiny"], "cpu", torch.float32, TINY, 2)
    asked = []
    real = probe.batch
    monkeypatch.setattr(probe, "batch", lambda q, c, *more: asked.append(c) or real(q, c, *more))
    for context in TINY.curve_contexts:
        probe.verify(8, context)
        probe.beyond(48, context)
        probe.mixed(16, 8, context)
    decodes = [[context] * 4 for context in TINY.curve_contexts]
    assert asked == [c for four in decodes for c in (four, four, [*four, 0])]


@given(st.integers(20, 1 << 16), st.integers(0, 99))
def test_random_rounds_fit_into_the_pool(longest, seed):
    grid = FULL.limited(contexts=(longest,))
    room = grid.cached_tokens // PAGE_TOKENS
    for cell in random_cells(grid, 7, 8, seed):
        totals = [q + c for q, c in zip(cell.queries, cell.contexts, strict=True)]
        totals += [cell.chunk + cell.before] * (cell.chunk > 0)
        assert sum(pages_needed(1, total) for total in totals) + 1 <= room
