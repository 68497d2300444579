"""W2000: the same 2,000 requests through this simulator and through NVIDIA's Dynamo replay.

    taskset -c 1 python benchmarks/peers.py --azure azure2023_conv.csv.gz \\
        [--dynamo-python /tmp/dynamo_venv/bin/python] [--repeats 3] [--json OUT]

W2000 is the first 2,000 rows of the Azure 2023 conversation trace, prompts cut so that prompt and
output have at most 4,096 tokens: one replica, at most 128 sequences, a budget of 512 batch tokens,
115,200 tokens of KV cache, chunked prefill. Every run is a process of its own; after a warm-up the
systems take turns, and the medians are printed: the simulated run alone ("loop"); the whole process
from start to exit with all figures written; its processor time, and that less the processor time
of the same command with one request ("work", least of both), which other load stretches far less
than seconds on the clock; its highest resident memory. Ratios of two loops are taken turn by turn.
How to install Dynamo: benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import median

from workbench.errors import InputError

REQUESTS, LONGEST, RUNNING, BUDGET, KV_TOKENS, KV_BLOCK = 2000, 4096, 128, 512, 115_200, 64
TOKENS = (2_192_649, 529_807)  # prompt and output tokens of W2000
AZURE = "https://github.com/Azure/AzurePublicDataset (AzureLLMInferenceTrace_conv.csv, 2023)"


@dataclass
class System:
    """One command and what its runs measured."""

    name: str
    command: list[str]
    start: list[str]  # the same command with a single request
    figures: Path  # JSON that the command writes
    loop_s: list[float] = field(default_factory=list)
    process_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    start_cpu_s: list[float] = field(default_factory=list)
    peak_mb: list[float] = field(default_factory=list)
    last: dict = field(default_factory=dict)

    def run(self, keep: bool) -> None:
        """Run once with a single request, then with all."""
        _, start = self._process(self.start)
        seconds, usage = self._process(self.command)
        self.last = json.loads(self.figures.read_text())
        if keep:
            self.loop_s.append(self.figure("wall_s", "wall_time_ms"))
            self.process_s.append(seconds)
            self.cpu_s.append(usage.ru_utime + usage.ru_stime)
            self.start_cpu_s.append(start.ru_utime + start.ru_stime)
            self.peak_mb.append(usage.ru_maxrss / 1e3)

    def _process(self, command: list[str]) -> tuple[float, resource.struct_rusage]:
        """Seconds and resources of a process; InputError with its last line if it fails."""
        environment = os.environ | {"DYN_LOG": "error", "HF_HUB_OFFLINE": "1"}
        began = time.perf_counter()
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - began
        if process.returncode:
            last = (said.decode(errors="replace").strip().splitlines() or ["no message"])[-1]
            raise InputError(f"ended with {process.returncode}: {last}", place=self.name)
        return seconds, usage

    @property
    def work_cpu_s(self) -> float:
        """Processor seconds of the 2,000 requests: all but starting and serving one, least of each.

        Other load can only add to processor time, so the least is the best estimate.
        """
        return min(self.cpu_s) - min(self.start_cpu_s)

    def figure(self, ours: str, theirs: str, inside: str | None = None) -> float:
        """A figure of the last run by our name or by Dynamo's (which is in ms)."""
        if "runs" not in self.last:
            return self.last[theirs] / 1e3
        run = self.last["runs"][0]
        return run[ours][inside] if inside else run[ours]

    def row(self) -> dict:
        """Medians, for the table and the JSON."""
        run = self.last.get("runs", [{}])[0]
        steps = run.get("steps")
        loop = median(self.loop_s)
        return {
            "system": self.name,
            "loop_s": loop,
            "loop_best_s": min(self.loop_s),
            "process_s": median(self.process_s),
            "cpu_s": median(self.cpu_s),
            "work_cpu_s": self.work_cpu_s,
            "peak_mb": median(self.peak_mb),
            "steps": steps,
            "us_per_step": self.work_cpu_s / steps * 1e6 if steps else None,
            "ttft_ms": self.figure("ttft_s", "mean_ttft_ms", "mean") * 1e3,
            "tpot_ms": self.figure("tpot_s", "mean_tpot_ms", "mean") * 1e3,
            "loops_s": self.loop_s,
            "processes_s": self.process_s,
        }


def w2000(path: Path) -> list[tuple[str, int, int]]:
    """Time stamp, prompt and output tokens of each request; raises InputError if not W2000."""
    if not path.is_file():
        raise InputError("no such file", file=path, place="--azure", mend=f"it is part of {AZURE}")
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", newline="") as file:
        lines = [line for line, _ in zip(csv.DictReader(file), range(REQUESTS), strict=False)]
    try:
        rows = [
            (
                line["TIMESTAMP"],
                min(int(line["ContextTokens"]), LONGEST - int(line["GeneratedTokens"])),
                int(line["GeneratedTokens"]),
            )
            for line in lines
        ]
    except (KeyError, ValueError) as error:
        raise InputError(f"no Azure trace: {error}", file=path, mend=f"take {AZURE}") from error
    if (sum(row[1] for row in rows), sum(row[2] for row in rows)) != TOKENS:
        raise InputError("is not the 2023 conversation trace", file=path, mend=f"take {AZURE}")
    return rows


def write_azure(rows: list[tuple[str, int, int]], path: Path) -> None:
    """W2000 in the Azure format, for us."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["TIMESTAMP", "ContextTokens", "GeneratedTokens"])
        writer.writerows(rows)


def write_mooncake(rows: list[tuple[str, int, int]], path: Path) -> None:
    """W2000 in the Mooncake format, for Dynamo: one fresh hash per 512 prompt tokens."""
    start, fresh = _seconds(rows[0][0]), 0
    with path.open("w") as file:
        for stamp, prompt, output in rows:
            blocks = -(-prompt // 512)
            request = {
                "timestamp": (_seconds(stamp) - start) * 1e3,
                "input_length": prompt,
                "output_length": output,
                "hash_ids": list(range(fresh, fresh + blocks)),
            }
            fresh += blocks
            file.write(json.dumps(request) + "\n")


def _seconds(stamp: str) -> float:
    whole, _, fraction = stamp.partition(".")
    return datetime.fromisoformat(whole).timestamp() + float("0." + (fraction or "0"))


def write_dynamo_timing(path: Path) -> None:
    """A profile with the default timing of Dynamo's mock engine, so that both take like steps.

    A decode step of KV share u takes 5.74 + 54.01 u − 25.74 u² ms, p prompt tokens in it add
    16.50142 + 0.01518344 p + 4.209989e-7 p² ms (ai-dynamo, mocker, ``PerfModel::Polynomial``).
    """
    requests = [1, *range(8, RUNNING + 1, 8)]
    contexts = [1, *range(256, LONGEST + 1, 256)]
    prompts = [1, *range(32, BUDGET + 1, 32)]

    def attention(tokens: int) -> float:
        share = min(1.0, tokens / KV_TOKENS)
        return (54.01 * share - 25.74 * share**2) / 1e3

    def with_prompt(tokens: int) -> float:
        return (5.74 + 16.50142 + 0.01518344 * tokens + 4.209989e-7 * tokens**2) / 1e3

    profile = {
        "format": "workbench.profile/1",
        "name": "dynamo-mocker",
        "verify": {"batch_tokens": [1, BUDGET], "seconds": [0.00574, 0.00574]},
        "attention": {
            "requests": requests,
            "context_tokens": contexts,
            "seconds": [[attention(r * c) for c in contexts] for r in requests],
        },
        "mixed": {
            "prefill_tokens": prompts,
            "batch_tokens": [1, BUDGET],
            "seconds": [[with_prompt(p)] * 2 for p in prompts],
        },
        "kv_cache": {"capacity_tokens": KV_TOKENS, "block_tokens": KV_BLOCK},
    }
    path.write_text(json.dumps(profile))


def systems(folder: Path, dynamo_python: str | None, trace: str) -> list[System]:
    """The commands, side by side."""
    azure, timing, mooncake = folder / "w.csv", folder / "timing.json", folder / "w.jsonl"

    def system(name: str, command: list, every: Path, one: Path, out: Path) -> System:
        start = [str(one if part is every else part) for part in command]
        return System(name, [str(part) for part in command], start, out)

    def ours(name: str, *more: str | Path) -> System:
        out = folder / f"{len(made)}.json"
        command = [
            sys.executable, "-c", "from workbench.cli.main import main; main()",
            "simulate", "--arrivals", azure, "--max-running", RUNNING, "--token-budget", BUDGET,
            "--kv-tokens", KV_TOKENS, "--json", out, *more,
        ]  # fmt: skip
        return system(name, command, azure, folder / "w1.csv", out)

    made: list[System] = []
    made.append(ours("workbench", "--scheduler", "none"))
    made.append(ours("workbench, topk", "--scheduler", "topk", "--trace", trace))
    made.append(ours("workbench, Dynamo's timing", "--scheduler", "none", "--profile", timing))
    if dynamo_python:
        engine = {
            "block_size": KV_BLOCK,
            "num_gpu_blocks": KV_TOKENS // KV_BLOCK,
            "max_num_seqs": RUNNING,
            "max_num_batched_tokens": BUDGET,
        }
        out = folder / "dynamo.json"
        command = [
            dynamo_python, "-m", "dynamo.replay", "--replay-mode", "offline", "--num-workers", "1",
            "--extra-engine-args", json.dumps(engine), "--trace-format", "mooncake",
            "--report-json", out, mooncake,
        ]  # fmt: skip
        made.append(system("Dynamo replay", command, mooncake, folder / "w1.jsonl", out))
    return made


def verdicts(measured: list[System]) -> list[tuple[str, float, float | None]]:
    """Name, figure and, where one is set, target (at most)."""
    plain, speculating, alike = measured[:3]

    def ratio(one: System, other: System) -> float:
        return median(a / b for a, b in zip(one.loop_s, other.loop_s, strict=True))

    rows = [
        ("process from start to first result, s", median(plain.process_s), 2.0),
        ("peak memory, MB", max(map(median, (plain.peak_mb, speculating.peak_mb))), 300.0),
        ("loop with topk ÷ without", ratio(speculating, plain), 3.0),
        ("work CPU with topk ÷ without", speculating.work_cpu_s / plain.work_cpu_s, None),
    ]
    if len(measured) > 3:
        rows.insert(0, ("loop ÷ Dynamo's loop", ratio(plain, measured[3]), 1.0))
        rows.insert(1, ("loop ÷ Dynamo's loop, its timing", ratio(alike, measured[3]), 1.0))
        work = alike.work_cpu_s / measured[3].work_cpu_s
        rows.insert(2, ("work CPU ÷ Dynamo's, its timing", work, None))
    return rows


def show(rows: list[dict], checks: list[tuple[str, float, float | None]]) -> None:
    """Print both tables."""
    head = ("loop s", "best s", "process s", "CPU s", "work CPU s", "peak MB")
    head += ("steps", "µs/step", "TTFT ms", "TPOT ms")
    print(f"{'':28}" + "".join(f"{name:>11}" for name in head))
    for row in rows:
        cells = [
            f"{row['loop_s']:.3f}",
            f"{row['loop_best_s']:.3f}",
            f"{row['process_s']:.2f}",
            f"{row['cpu_s']:.2f}",
            f"{row['work_cpu_s']:.3f}",
        ]
        cells.append(f"{row['peak_mb']:.0f}")
        cells.append(f"{row['steps']:,}" if row["steps"] else "–")
        cells.append(f"{row['us_per_step']:.2f}" if row["steps"] else "–")
        cells += [f"{row['ttft_ms']:.1f}", f"{row['tpot_ms']:.2f}"]
        print(f"{row['system']:28}" + "".join(f"{cell:>11}" for cell in cells))
    print()
    for name, value, target in checks:
        verdict = "" if target is None else f"  {'met' if value <= target else 'MISSED'}"
        bound = "" if target is None else f"  at most {target:g}:"
        print(f"{name:42}{value:8.2f}{bound}{verdict}")


def main() -> int:
    """Run the benchmark, print its tables, write its JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--azure", type=Path, required=True, help="azure2023_conv.csv[.gz]")
    parser.add_argument(
        "--dynamo-python", help="python of Dynamo's environment; without: ours only"
    )
    parser.add_argument("--trace", default="chat.jsonl", help="recorded acceptance, for topk")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, default=Path("peers.json"))
    options = parser.parse_args()
    if options.repeats < 1:
        raise InputError("is less than 1", place="--repeats", mend="give 3")
    rows = w2000(options.azure)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for some, stem in ((rows, "w"), (rows[:1], "w1")):
            write_azure(some, folder / f"{stem}.csv")
            write_mooncake(some, folder / f"{stem}.jsonl")
        write_dynamo_timing(folder / "timing.json")
        measured = systems(folder, options.dynamo_python, options.trace)
        for turn in range(options.repeats + 1):  # the first turn warms up
            for system in measured:
                system.run(keep=turn > 0)
    table, checks = [system.row() for system in measured], verdicts(measured)
    load = os.getloadavg()[0]
    print(f"W2000, median of {options.repeats} after a warm-up, load average {load:.1f}\n")
    show(table, checks)
    named = [{"name": name, "value": value, "target": target} for name, value, target in checks]
    options.json.write_text(json.dumps({"load": load, "systems": table, "checks": named}, indent=1))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (InputError, OSError) as error:
        print(f"peers.py: {error}", file=sys.stderr)
        sys.exit(2)
