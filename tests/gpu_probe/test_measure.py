from types import SimpleNamespace

from gpu_probe.grid import FULL
from gpu_probe.measure import POWER_LIMITED, Probe


def test_steps_that_may_reach_the_power_limit_are_loaded_for_a_while_first():
    probe = SimpleNamespace(grid=FULL)
    assert Probe.settling(probe, POWER_LIMITED - 1) == (FULL.settle_seconds, 0)
    most, least = Probe.settling(probe, POWER_LIMITED)
    assert most == FULL.settle_seconds and 0.25 <= least < most
    assert Probe.settling(probe, 2048, 0.5) == (most / 2, least / 2)
