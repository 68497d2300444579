"""Runs every part and assembles the ``workbench.profile/1`` document, written after each part."""

from __future__ import annotations

import datetime
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch

from gpu_probe import __version__, compare
from gpu_probe.batch import PAGE_TOKENS
from gpu_probe.checks import check_kernels
from gpu_probe.errors import ProbeError
from gpu_probe.grid import Grid
from gpu_probe.measure import Probe, copy_bandwidth
from gpu_probe.shapes import DrafterShape, ModelShape
from gpu_probe.telemetry import Telemetry
from gpu_probe.timing import Timing

LARGEST_ERROR = 2e-2  # bf16 operands; anything above is a wrong kernel, not rounding


def write(document: dict, out: Path) -> None:
    """Write beside ``out`` and rename, so that a reader never sees half a profile."""
    handle, name = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(_compact(document))
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, out)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _compact(document: dict) -> str:
    """JSON with one line per field of every section: diffs stay readable."""
    sections = []
    for key, value in document.items():
        if isinstance(value, dict):
            rows = [f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items()]
            sections.append(f" {json.dumps(key)}: {{\n" + ",\n".join(rows) + "\n }")
        else:
            sections.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(sections) + "\n}\n"


def _seconds(table: list[list[Timing]]) -> list[list[float]]:
    return [[round(cell.median, 9) for cell in row] for row in table]


def _medians(row: list[Timing]) -> list[float]:
    return [round(cell.median, 9) for cell in row]


class Run:
    """One measurement run: ``document`` is valid as soon as the first part is done."""

    def __init__(
        self,
        shape: ModelShape,
        drafter: DrafterShape,
        block_size: int,
        device: str,
        grid: Grid,
        repeats: int,
        out: Path,
        command: str,
    ):
        self.shape, self.drafter, self.block_size = shape, drafter, block_size
        self.device, self.grid, self.repeats, self.out = device, grid, repeats, out
        self.telemetry = Telemetry(device)
        self.measured: dict = {
            "repeats": repeats,
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "command": command,
            "complete": False,
            "before": self.telemetry.reading(),
        }
        self.document: dict = {
            "format": "workbench.profile/1",
            "name": out.name.removesuffix(".json"),
            "hardware": self.telemetry.hardware(),
            "engine": {
                "name": "gpu_probe",
                "version": __version__,
                "dtype": "bfloat16" if device == "cuda" else "float32",
                "torch": torch.__version__,
            },
            "target": {**vars(shape)},
            "drafter": {**vars(drafter), "block_size": block_size},
        }
        self.start = time.monotonic()

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self.start:6.1f} s] {text}", file=sys.stderr, flush=True)

    def save(self, part: str) -> None:
        """Keep what there is; before ``verify`` there is nothing a reader could use."""
        self.say(f"{part} done")
        if "verify" in self.document:
            write({**self.document, "measured": self.measured}, self.out)

    def everything(self) -> dict:
        """All parts in order of importance; returns the finished document."""
        if self.device == "cuda":
            self.kernels()
        bandwidth = copy_bandwidth(self.grid.copy_bytes, self.device, self.repeats)
        self.measured["copy_bandwidth"] = round(bandwidth)
        self.measured["copy_buffer_bytes"] = self.grid.copy_bytes
        if self.device == "cuda":
            torch.cuda.empty_cache()
        self.probe = Probe(
            self.shape, self.drafter, self.block_size, self.device, self.grid, self.repeats
        )
        self.say("weights and page pool filled")
        self.verify()
        self.attention()
        self.whole()
        self.draft()
        self.host()
        self.prefill()
        self.kv_cache()
        self.power()
        self.measured["after"] = self.telemetry.reading()
        self.measured["complete"] = True
        self.measured["wall_seconds"] = round(time.monotonic() - self.start, 1)
        self.measured.update(compare.ratios(self.document, self.measured))
        self.save("everything")
        return {**self.document, "measured": self.measured}

    def kernels(self) -> None:
        errors = check_kernels(self.shape, self.device, torch.bfloat16, seed=self.repeats)
        self.measured["kernel_errors"] = {k: float(f"{v:.2g}") for k, v in errors.items()}
        self.say(f"kernels against float64: {self.measured['kernel_errors']}")
        wrong = [name for name, error in errors.items() if error > LARGEST_ERROR]
        if wrong:
            raise ProbeError(f"kernel {wrong[0]} is off by {errors[wrong[0]]:.2g} on this card")

    def verify(self) -> None:
        grid, probe = self.grid, self.probe
        points = [probe.verify(tokens) for tokens in grid.verify]
        self.document["verify"] = {
            "batch_tokens": list(grid.verify),
            "seconds": _medians(points),
            "reference_context": grid.reference_context,
        }
        self.measured["spread"] = [round(point.spread, 4) for point in points]
        self.measured["under_load"] = self.telemetry.reading()
        self.document["hardware"]["sm_clock_mhz"] = self.measured["under_load"].get("sm_clock_mhz")
        self.save("verify")
        beyond = [probe.beyond(tokens) for tokens in grid.beyond]
        self.document["graphs"] = {
            "batch_tokens": list(grid.captured),
            "beyond": {"batch_tokens": list(grid.beyond), "seconds": _medians(beyond)},
        }
        self.measured["beyond_spread"] = [round(point.spread, 4) for point in beyond]
        self.save("beyond")

    def attention(self) -> None:
        grid, probe = self.grid, self.probe
        contexts = (grid.reference_context, *grid.contexts)

        def above_reference(queries: int) -> list[list[float]]:
            table = probe.table(
                grid.requests, contexts, lambda r, c: probe.attention(r, c, queries)
            )
            seconds = _seconds(table)
            return [[round(max(0.0, s - row[0]), 9) for s in row] for row in seconds]

        self.document["attention"] = {
            "requests": list(grid.requests),
            "context_tokens": list(contexts),
            "seconds": above_reference(1),
        }
        # the same with a whole block to verify: what the table's missing query axis would hold
        self.measured["attention_block"] = {
            "query_tokens": self.block_size + 1,
            "seconds": above_reference(self.block_size + 1),
        }
        self.save("attention")

    def whole(self) -> None:
        cells = [(cell, self.probe.whole(*cell)) for cell in self.grid.whole]
        self.measured["whole_steps"] = [
            {
                "requests": r,
                "query_tokens": q,
                "context_tokens": c,
                "seconds": round(timing.median, 9),
                "spread": round(timing.spread, 4),
            }
            for (r, q, c), timing in cells
        ]
        self.save("whole steps")

    def draft(self) -> None:
        grid = self.grid
        rows = [self.probe.draft(requests) for requests in grid.draft_requests]
        self.document["draft"] = {
            "requests": list(grid.draft_requests),
            "tokens": [self.block_size],
            "seconds": [[round(statistics.mean(t.median for t in row), 9)] for row in rows],
        }
        self.measured["draft_by_context"] = {
            "context_tokens": list(grid.draft_contexts),
            "seconds": _seconds(rows),
        }
        markov = [self.probe.markov(requests) for requests in grid.draft_requests]
        if all(markov):
            self.measured["markov_seconds"] = _medians(markov)
        self.save("draft")

    def host(self) -> None:
        context = self.grid.draft_contexts[0]
        rows = [self.probe.host(requests, context) for requests in self.grid.host_requests]
        self.document["host"] = {
            f"{kind}_seconds": round(statistics.median(row[kind] for row in rows), 9)
            for kind in ("sync", "async")
        }
        self.measured["host"] = [
            {key: round(value, 9) for key, value in row.items()} for row in rows
        ]
        self.save("host")

    def prefill(self) -> None:
        grid = self.grid
        table = self.probe.table(grid.chunks, grid.prefill_contexts, self.probe.prefill)
        self.document["prefill"] = {
            "chunk_tokens": list(grid.chunks),
            "context_tokens": list(grid.prefill_contexts),
            "seconds": _seconds(table),
        }
        self.save("prefill")

    def kv_cache(self) -> None:
        """What vLLM's gpu_memory_utilization 0.9 would leave for the cache of both models."""
        weights = self.probe.decoder.weight_bytes + self.probe.drafter.weight_bytes
        per_token = self.shape.kv_bytes(self.shape.layers + self.drafter.layers)
        self.measured["weight_bytes"] = weights
        self.measured["streamed_weight_bytes"] = self.probe.decoder.streamed_bytes
        total = self.document["hardware"].get("memory_bytes")
        if total:
            held = weights + self.probe.pool.nbytes
            workspace = max(0, torch.cuda.max_memory_allocated() - held)
            self.measured["workspace_bytes"] = workspace
            self.document["kv_cache"] = {
                "block_tokens": PAGE_TOKENS,
                "bytes_per_token": per_token,
                "capacity_tokens": int((0.9 * total - weights - workspace) // per_token),
            }
        self.save("kv_cache")

    def power(self) -> None:
        points = [self.probe.sustained(tokens, self.telemetry) for tokens in self.grid.power]
        self.measured["sustained"] = points
        if all(point.get("power_w") for point in points):
            self.document["power"] = {
                "batch_tokens": list(self.grid.power),
                "watts": [point["power_w"] for point in points],
            }
        self.save("power")
