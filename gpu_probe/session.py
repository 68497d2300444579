"""One run: the parts in order of importance, a checkpoint after each, a profile per drafter."""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from gpu_probe import __version__, assemble, autotune, autotune_experts, parts
from gpu_probe.checkpoint import Checkpoint
from gpu_probe.checks import LARGEST_ERROR, check_kernels
from gpu_probe.errors import ProbeError
from gpu_probe.files import write
from gpu_probe.flash import Flash
from gpu_probe.grid import Grid
from gpu_probe.held_out import random_cells
from gpu_probe.measure import Probe, copy_bandwidth
from gpu_probe.progress import Progress
from gpu_probe.rounds import Rounds
from gpu_probe.shapes import DRAFTERS, DrafterShape, ModelShape
from gpu_probe.telemetry import Telemetry

UNSTEADY = 0.05  # spread from which on a part is called so
HELD_OUT_AT_ONCE = 16  # rounds between two checkpoints
# what no drafter changes: before the drafters' own parts, and what a planner needs least
_FIRST = ("verify", "attention", "beyond", "prefill", "logits")


def _complete(out: Path) -> bool:
    """Whether a profile of a run that ended lies there."""
    try:
        return json.loads(out.read_text(encoding="utf-8"))["measured"]["complete"] is True
    except (OSError, ValueError, KeyError, TypeError):
        return False


class Session:
    """What is measured, where it goes, and what a checkpoint already holds.

    outs: the profile of each drafter, by its key in ``drafters``; library: whose attention is
    measured (none: our own). The checkpoint is removed when everything is done.
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
        drafters: Mapping[str, DrafterShape] = DRAFTERS,
        library: Flash | None = None,
    ):
        self.shape, self.outs, self.block_sizes = shape, outs, block_sizes
        self.device, self.dtype, self.grid, self.repeats = device, dtype, grid, repeats
        self.mixed, self.drafters, self.library = mixed, drafters, library
        self.telemetry = Telemetry(device)
        self.measured = {
            "repeats": repeats,
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "command": command,
            "complete": False,
            "before": self.telemetry.reading(),
        }
        if library is not None:
            self.measured["attention_library"] = library.name
        machine = {k: v for k, v in self.telemetry.hardware().items() if k in ("gpu", "driver")}
        plan = [vars(shape), vars(grid), repeats, str(dtype), machine, torch.__version__]
        plan.append(library.name if library else None)
        own = {key: [size, vars(drafters[key])] for key, size in block_sizes.items()}
        self.checkpoint = Checkpoint(outs.values(), [*plan, __version__], own, resume)
        self.parts: dict[str, dict] = {}
        self.written: dict[Path, None] = {}  # profiles, in order
        self.kept_back = {out for out in outs.values() if _complete(out)}
        self.names = self._in_order()
        self.progress = Progress(self.names, grid.held_out)
        self._begin(resume)

    def _in_order(self) -> list[str]:
        """Parts, the most useful first: what cuts a run off costs it the last ones."""
        drafting = [key for key in self.outs if key != "none"]
        names = ["bandwidth"]
        if self.device == "cuda":
            experts = ["experts_kernel"] * bool(self.shape.experts)
            own = ["attention_kernel"] * (self.library is None)
            names += [*own, *experts, "kernels"]
        names += _FIRST
        names += [f"draft {key}" for key in drafting]
        names += [f"memory {key}" for key in self.outs] + ["whole"]
        names += [f"held_out {key}" for key in self.outs]
        names += [f"host {key}" for key in drafting] + ["mixed"]
        names += ["sequential dspark"] * ("dspark" in self.outs and bool(self.grid.sequential))
        return [*names, "power"]

    def _begin(self, resume: bool) -> None:
        """Take over the checkpoint, or say that there is none or that one is left alone."""
        if not resume:
            if self.checkpoint.path.exists():
                self.say("starting afresh; --resume would go on from an interrupted run's parts")
            return
        kept = self.checkpoint.load()
        if kept is None:
            self.say("no checkpoint to resume from, starting afresh")
            return
        self.parts, self.measured["before"] = kept
        self.say(f"resuming; measured already: {', '.join(self.parts)}")

    def say(self, text: str) -> None:
        print(f"[{self.progress.seconds:6.1f} s] {text}", file=sys.stderr, flush=True)

    def everything(self) -> dict[str, dict]:
        """All parts; returns the finished profile of every drafter."""
        self.progress.resumed(self.parts)
        others = self.telemetry.others()
        if others:
            self.say(f"{others} other processes hold memory of this GPU: times may be off")
        self.part("bandwidth", self._bandwidth)
        if self.device == "cuda":
            torch.cuda.empty_cache()
        shapes = [self.drafters[key] for key in self.outs]
        deepest = max((one.layers for one in shapes if one.parallel), default=0)
        probe = Probe(self.shape, self.device, self.dtype, self.grid, self.repeats, deepest)
        self.measured["streamed_weight_bytes"] = probe.decoder.streamed_bytes
        self.measured["target_kv_bytes"] = self.shape.kv_bytes(width=probe.decoder.head.itemsize)
        rounds = {key: Rounds(probe, self.drafters[key], n) for key, n in self.block_sizes.items()}
        if self.device == "cuda":
            probe.decoder.kernels.attention.library = self.library
        self.say("weights and page pool filled")
        for name in self.names[1:]:
            self._measure(name, probe, rounds)
        self.measured["after"] = self.telemetry.reading()
        self.measured["complete"] = True
        self.measured["wall_seconds"] = round(self.progress.seconds, 1)
        documents = {key: self._write(key) for key in self.outs}
        self.checkpoint.remove()
        return documents

    def _measure(self, name: str, probe: Probe, rounds: dict[str, Rounds]) -> None:
        """One named part, of the target or of a drafter."""
        kind, _, key = name.partition(" ")
        if kind == "held_out":
            self._held_out(rounds)
        elif kind == "kernels":
            self.part(name, self._kernels)
        elif kind == "attention_kernel":
            self.part(name, lambda: self._attention_kernel(probe))
            autotune.use(probe.decoder.kernels, self.parts[name])
        elif kind == "experts_kernel":
            self.part(name, lambda: autotune_experts.expert_tiles(probe))
            autotune_experts.use(probe.decoder.kernels, self.parts[name])
        else:
            subject = [rounds[key] if key else probe]
            if kind in ("memory", "power"):
                subject.append(self.telemetry)
            self.part(name, lambda: getattr(parts, kind)(*subject))

    def _held_out(self, rounds: dict[str, Rounds]) -> None:
        """Whole rounds of all drafters of one block size together, a checkpoint every few."""
        for size in sorted(set(self.block_sizes.values())):
            keys = [key for key, own in self.block_sizes.items() if own == size]
            cells = random_cells(self.grid, size, self.grid.held_out, seed=size + 1)
            there = [self.parts.setdefault(f"held_out {key}", {"cells": []}) for key in keys]
            while (done := min(len(part["cells"]) for part in there)) < len(cells):
                # drafters that joined a resumed run catch up with the others
                late = [i for i, part in enumerate(there) if len(part["cells"]) == done]
                ahead = [len(part["cells"]) for part in there if len(part["cells"]) > done]
                some = cells[done : min([done + HELD_OUT_AT_ONCE, *ahead])]
                found = parts.held_out([rounds[keys[i]] for i in late], some)
                for i, rows in zip(late, found, strict=True):
                    there[i]["cells"] += rows
                names = ", ".join(keys[i] for i in late)
                self.keep(f"{done + len(some)} of {len(cells)} held-out rounds of {names}")

    def part(self, name: str, work: Callable[[], dict]) -> None:
        """Measure one part unless the checkpoint holds it; keep it."""
        if name in self.parts:
            return
        self.parts[name] = work()
        spread = parts.largest_spread(self.parts[name])
        noted = f", spread up to {spread:.0%}: the clock moves" if spread > UNSTEADY else ""
        self.keep(name, noted)

    def keep(self, what: str, noted: str = "") -> None:
        """Say what is done, write the checkpoint and the profiles as far as they go."""
        slowed = "".join(f", {reason}" for reason in self.telemetry.slowed())
        self.say(f"{what} done{noted}{slowed}; {self.progress.left(self.parts)}")
        self.checkpoint.save(self.parts, self.measured["before"])
        if {"verify", "attention"} <= set(self.parts):
            for key in self.outs:
                own = f"draft {key}" in self.parts or key == next(iter(self.outs))
                # a whole profile of an earlier run is not given up for parts of this one
                if own and self.outs[key] not in self.kept_back:
                    self._write(key)

    def _write(self, key: str) -> dict:
        document = self.document(key)
        write(document, self.outs[key])
        self.written[self.outs[key]] = None
        return document

    def document(self, key: str) -> dict:
        """The profile of one drafter as far as it is measured."""
        drafter, size = self.drafters[key], self.block_sizes[key]
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

    def _attention_kernel(self, probe: Probe) -> dict:
        most = max(*self.grid.queries, *(size + 1 for size in self.block_sizes.values()))
        return autotune.attention_settings(probe, most)

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
