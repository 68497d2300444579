"""Readings of the card that torch runs on, from a made-up driver library."""

import sys
from types import SimpleNamespace

import pytest
import torch

from gpu_probe.errors import ProbeError
from gpu_probe.telemetry import Telemetry

CARDS = {"GPU-aaa": {"power": 100, "bits": 0}, "GPU-bbb": {"power": 650_000, "bits": 0x4 | 0x20}}


class NVMLError(Exception):
    pass


def library(**more):
    """NVML of a machine with two cards."""
    return SimpleNamespace(
        NVMLError=NVMLError,
        NVML_CLOCK_SM=1,
        NVML_CLOCK_MEM=2,
        NVML_TEMPERATURE_GPU=0,
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByUUID=CARDS.__getitem__,
        nvmlDeviceGetPowerUsage=lambda card: card["power"],
        nvmlDeviceGetClockInfo=lambda card, kind: 1500 * kind,
        nvmlDeviceGetTemperature=lambda card, kind: 60,
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda card: card["bits"],
        nvmlDeviceGetTotalEnergyConsumption=refuse,
        **more,
    )


def refuse(*_):
    raise NVMLError("not supported")


@pytest.fixture
def second_card_only(monkeypatch):
    """As under CUDA_VISIBLE_DEVICES=1: torch's card 0 is the machine's second."""
    monkeypatch.setitem(sys.modules, "pynvml", library())
    seen = SimpleNamespace(uuid="bbb")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: seen)


def test_the_card_is_the_one_that_torch_sees(second_card_only):
    reading = Telemetry("cuda").reading()
    assert reading["power_w"] == 650 and reading["sm_clock_mhz"] == 1500


def test_heat_is_said_and_the_power_limit_is_not(second_card_only):
    assert Telemetry("cuda").slowed() == ["the card is too hot"]
    assert Telemetry("cpu").slowed() == []


def test_a_reading_that_the_card_lacks_is_left_out(second_card_only):
    assert Telemetry("cuda").joules() is None


def test_a_library_without_a_driver_is_one_error(monkeypatch, second_card_only):
    monkeypatch.setattr(sys.modules["pynvml"], "nvmlInit", refuse)
    with pytest.raises(ProbeError, match="is the driver installed"):
        Telemetry("cuda")
