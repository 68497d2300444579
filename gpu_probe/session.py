"""One run: the parts in order of importance, a checkpoint after each, a profile per drafter."""

from __future__ import annotations

import datetime
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from gpu_probe import __version__, assemble, parts
from gpu_probe.checks import check_kernels
from gpu_probe.errors import ProbeError
from gpu_probe.files import write
from gpu_probe.grid import Grid
from gpu_probe.measure import Probe, copy_bandwidth
from gpu_probe.rounds import Rounds
from gpu_probe.shapes import DRAFTERS, ModelShape
from gpu_probe.telemetry import Telemetry

LARGEST_ERROR = 2e-2  # bf16 operands; anything above is a wrong kernel, not rounding
UNSTEADY = 0.05  # spread from which on a part is called so
# seconds of each part of a full run on an H200: shares of the time left
_SHARES = {"kernels": 12, "bandwidth": 1, "verify": 28, "beyond": 4, "logits": 1, "attention": 55,
           "whole": 10, "prefill": 7, "mixed": 14, "power": 14, "draft": 20, "host": 12,
           "sequential": 25, "held_out": 42, "memory": 1}  # fmt: skip


class Session:
    """What is measured, where it goes, and what a checkpoint already holds.

    outs: the profile of each drafter, by its key in ``DRAFTERS``. The checkpoint lies beside the
    first of them and is removed when everything is done.
    """

    def __init__(
        self,
        shape: ModelShape,
        outs: dict[str, Path],
        block_sizes: dict[str, int],
        device: str,
        dtype: torch.dtype,
        grid: Grid,
        repeats: int,
        command: str,
        resume: bool = False,
        mixed: bool = False,
    ):
        self.shape, self.outs, self.block_sizes = shape, outs, block_sizes
        self.device, self.dtype, self.grid, self.repeats = device, dtype, grid, repeats
        self.mixed = mixed
        self.telemetry = Telemetry(device)
        self.start = time.monotonic()
        first = next(iter(outs.values()))
        self.checkpoint = first.with_name(f".{first.stem}.checkpoint.json")
        self.measured = {
            "repeats": repeats,
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "command": command,
            "complete": False,
            "before": self.telemetry.reading(),
        }
        self.plan = json.dumps([vars(shape), vars(grid), repeats, str(dtype), device])
        self.drafters = json.loads(
            json.dumps({key: [size, vars(DRAFTERS[key])] for key, size in block_sizes.items()})
        )
        self.parts: dict[str, dict] = {}
        if resume:
            self._resume()
        names = ["kernels"] * (device == "cuda") + ["bandwidth", "verify", "beyond", "attention"]
        self.names = [*names, "logits", "whole", "prefill", "mixed", "power"]
        for key in outs:
            kinds = ["memory", "draft", "host", "held_out"]
            if key == "dspark" and grid.sequential:
                kinds.append("sequential")
            if key == "none":
                kinds = ["memory", "held_out"]
            self.names += [f"{kind} {key}" for kind in kinds]

    def _resume(self) -> None:
        try:
            kept = json.loads(self.checkpoint.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            self.say("no checkpoint to resume from, starting afresh")
            return
        before = kept.get("drafters", {})
        other = any(before[key] != now for key, now in self.drafters.items() if key in before)
        if kept.get("plan") != json.loads(self.plan) or other:
            raise ProbeError(
                f"--resume: {self.checkpoint} belongs to a run with other points; "
                "remove it or give that run's options"
            )
        self.parts, self.measured["before"] = kept["parts"], kept["before"]
        self.say(f"resuming: {', '.join(self.parts)} are measured")

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self.start:6.1f} s] {text}", file=sys.stderr, flush=True)

    def _left(self, before: float) -> str:
        """Time left, from the shares of what is measured and of what is not."""
        shares = {name: _SHARES[name.split()[0]] for name in self.names}
        done = sum(share for name, share in shares.items() if name in self.parts) - before
        left = sum(share for name, share in shares.items() if name not in self.parts)
        elapsed = time.monotonic() - self.start
        return f"about {elapsed / max(done, 1) * left:.0f} s left" if left else "all measured"

    def everything(self) -> dict[str, dict]:
        """All parts; returns the finished profile of every drafter."""
        self.resumed = sum(_SHARES[name.split()[0]] for name in self.parts)
        others = self.telemetry.others()
        if others:
            self.say(f"{others} other processes hold memory of this GPU: times may be off")
        if self.device == "cuda":
            self.part("kernels", self._kernels)
        self.part("bandwidth", self._bandwidth)
        if self.device == "cuda":
            torch.cuda.empty_cache()
        probe = Probe(self.shape, self.device, self.dtype, self.grid, self.repeats)
        self.measured["streamed_weight_bytes"] = probe.decoder.streamed_bytes
        self.measured["target_kv_bytes"] = self.shape.kv_bytes(width=probe.decoder.head.itemsize)
        self.say("weights and page pool filled")
        for name in ("verify", "attention", "beyond", "logits", "whole", "prefill", "mixed"):
            self.part(name, lambda name=name: getattr(parts, name)(probe))
        self.part("power", lambda: parts.power(probe, self.telemetry))
        for i, (key, size) in enumerate(self.block_sizes.items()):
            self._drafter(probe, key, size, i)
        self.measured["after"] = self.telemetry.reading()
        self.measured["complete"] = True
        self.measured["wall_seconds"] = round(time.monotonic() - self.start, 1)
        documents = {key: self.document(key) for key in self.outs}
        for key, document in documents.items():
            write(document, self.outs[key])
        self.checkpoint.unlink(missing_ok=True)
        return documents

    def _drafter(self, probe: Probe, key: str, size: int, number: int) -> None:
        wanted = [name for name in self.names if name.endswith(f" {key}")]
        if all(name in self.parts for name in wanted):
            return
        rounds = Rounds(probe, DRAFTERS[key], size)
        if key != "none":
            self.part(f"draft {key}", lambda: parts.draft(rounds))
            self.part(f"host {key}", lambda: parts.host(rounds))
        self.part(f"held_out {key}", lambda: parts.held_out(rounds, seed=number + 1))
        self.part(f"memory {key}", lambda: parts.memory(rounds, self.telemetry))
        if f"sequential {key}" in self.names:
            self.part(f"sequential {key}", lambda: parts.sequential(rounds))

    def part(self, name: str, work: Callable[[], dict]) -> None:
        """Measure one part unless the checkpoint holds it; keep it; write what can be read."""
        if name in self.parts:
            return
        self.parts[name] = work()
        spread = parts.largest_spread(self.parts[name])
        noted = f", spread up to {spread:.0%}: the clock moves" if spread > UNSTEADY else ""
        slowed = "".join(f", {reason}" for reason in self.telemetry.slowed())
        self.say(f"{name} done{noted}{slowed}; {self._left(self.resumed)}")
        kept = {"plan": json.loads(self.plan), "drafters": self.drafters}
        kept["before"] = self.measured["before"]
        write({**kept, "parts": self.parts}, self.checkpoint)
        if {"verify", "attention"} <= set(self.parts):
            for key in self.outs:
                own = f"draft {key}" in self.parts or key == next(iter(self.outs))
                if own:
                    write(self.document(key), self.outs[key])

    def document(self, key: str) -> dict:
        """The profile of one drafter as far as it is measured."""
        drafter, size = DRAFTERS[key], self.block_sizes[key]
        own = {k: v for k, v in vars(drafter).items() if v or k == "kind"}
        head = {
            "format": "workbench.profile/1",
            "name": self.outs[key].name.removesuffix(".json"),
            "hardware": {**self.telemetry.hardware(), "gpus": self.shape.gpus},
            "engine": {
                "name": "gpu_probe",
                "version": __version__,
                "dtype": str(self.dtype).removeprefix("torch."),
                "torch": torch.__version__,
            },
            "target": {**vars(self.shape)},
            "drafter": {**own, "block_size": size} if key != "none" else {"kind": "none"},
            "measured": self.measured,
        }
        points = self.parts.get("power", {}).get("points") or [{}]
        clock = points[-1].get("sm_clock_mhz")
        if clock:
            head["hardware"]["sm_clock_mhz"] = clock
        return assemble.document(self.parts, self.grid, head, key, self.shape, self.mixed)

    def _kernels(self) -> dict:
        errors = check_kernels(self.shape, self.device, self.dtype, seed=self.repeats)
        wrong = [name for name, error in errors.items() if error > LARGEST_ERROR]
        if wrong:
            raise ProbeError(f"kernel {wrong[0]} is off by {errors[wrong[0]]:.2g} on this card")
        return {name: float(f"{error:.2g}") for name, error in errors.items()}

    def _bandwidth(self) -> dict:
        size = self.grid.copy_bytes
        rate = copy_bandwidth(size, self.device, self.repeats)
        return {"copy_bandwidth": round(rate), "copy_buffer_bytes": size}
