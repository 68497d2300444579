"""What the driver's management library (NVML) says of the card. Reads only, never sets."""

from __future__ import annotations

import os

import torch

from gpu_probe.errors import ProbeError

# NVML's clocks event reasons that slow a card down for good; its power limit is not among them,
# since large steps on a card that serves always run there
_SLOWED = {
    0x8: "the driver slows the card down",
    0x20: "the card is too hot",
    0x40: "the card is too hot",
    0x80: "the power supply slows the card down",
}


class Telemetry:
    """Readings of one GPU; on a CPU every reading is empty."""

    def __init__(self, device: str):
        self._nvml = None
        if device != "cuda":
            return
        try:
            import pynvml
        except ImportError as error:
            raise ProbeError("pynvml is missing; pip install nvidia-ml-py") from error
        try:
            pynvml.nvmlInit()
            # NVML counts cards that CUDA_VISIBLE_DEVICES hides, so the card is found by its UUID
            uuid = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
            self._card = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        except pynvml.NVMLError as error:
            raise ProbeError(f"NVML does not answer ({error}); is the driver installed?") from error
        self._nvml = pynvml

    def _read(self, name: str, *args):
        try:
            return getattr(self._nvml, name)(self._card, *args)
        except self._nvml.NVMLError:  # some readings are not there in virtual machines
            return None

    def hardware(self) -> dict:
        """What does not change: name, driver, power limit (W), memory (bytes), top SM clock."""
        if self._nvml is None:
            return {"gpu": "cpu", "gpus": 1}
        limit = self._read("nvmlDeviceGetPowerManagementLimit")
        memory = self._read("nvmlDeviceGetMemoryInfo")
        top = self._read("nvmlDeviceGetMaxClockInfo", self._nvml.NVML_CLOCK_SM)
        return {
            "gpu": torch.cuda.get_device_name(0),
            "gpus": 1,
            "driver": self._nvml.nvmlSystemGetDriverVersion(),
            "cuda": torch.version.cuda,
            "power_limit_w": None if limit is None else limit / 1e3,
            "memory_bytes": None if memory is None else memory.total,
            "max_sm_clock_mhz": top,
        }

    def reading(self) -> dict:
        """What does change: clocks (MHz), power (W), temperature (°C), throttle reasons (bits)."""
        if self._nvml is None:
            return {}
        power = self._read("nvmlDeviceGetPowerUsage")
        return {
            "sm_clock_mhz": self._read("nvmlDeviceGetClockInfo", self._nvml.NVML_CLOCK_SM),
            "memory_clock_mhz": self._read("nvmlDeviceGetClockInfo", self._nvml.NVML_CLOCK_MEM),
            "power_w": None if power is None else power / 1e3,
            "temperature_c": self._read(
                "nvmlDeviceGetTemperature", self._nvml.NVML_TEMPERATURE_GPU
            ),
            "throttle_reasons": self._read("nvmlDeviceGetCurrentClocksThrottleReasons"),
        }

    def slowed(self) -> list[str]:
        """Why the card runs below its clock, but for its power limit; empty where it does not."""
        bits = self.reading().get("throttle_reasons") or 0
        return list(dict.fromkeys(said for bit, said in _SLOWED.items() if bits & bit))

    def joules(self) -> float | None:
        """Energy that the card has used since the driver was loaded; None where not counted."""
        if self._nvml is None:
            return None
        millijoules = self._read("nvmlDeviceGetTotalEnergyConsumption")
        return None if millijoules is None else millijoules / 1e3

    def others(self) -> int:
        """How many other processes hold memory of the card."""
        if self._nvml is None:
            return 0
        found = self._read("nvmlDeviceGetComputeRunningProcesses") or []
        return len([process for process in found if process.pid != os.getpid()])
