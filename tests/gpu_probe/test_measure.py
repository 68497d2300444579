from types import SimpleNamespace

from gpu_probe import measure
from gpu_probe.grid import FULL
from gpu_probe.load import Load
from gpu_probe.measure import POWER_LIMITED, Probe


def test_steps_that_may_reach_the_power_limit_are_loaded_first_and_timed_longer(monkeypatch):
    asked = []
    monkeypatch.setattr(measure, "timed_in_order", lambda *args: asked.append(args[3:]))
    monkeypatch.setattr(measure.time, "perf_counter", lambda: 10.0)
    probe = SimpleNamespace(grid=FULL, device="cpu", repeats=5, load=Load(FULL.load_seconds))
    Probe.timed_in_order(probe, [], POWER_LIMITED - 1)
    Probe.timed_in_order(probe, [], POWER_LIMITED, settle=0.5)
    settle = FULL.settle_seconds
    assert asked == [(settle, 0, 0), (settle / 2, FULL.load_seconds, FULL.swing_seconds)]
