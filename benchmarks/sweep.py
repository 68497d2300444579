"""How long a sweep takes, how well it fills the cores, and what the cache saves.

6 schedulers × 12 loads × 2,000 requests through the command line: once without a cache, once
killed half-way and resumed, once more from the cache. Wall and processor seconds are of the whole
process tree.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LOADS = "1,2,3,4,8,12,16,32,64,96,128,256"
POINTS = 6 * 12


def command(folder: Path, requests: int, jobs: int) -> list[str]:
    """The sweep as a user would type it."""
    return [
        sys.executable, "-m", "workbench.cli.main", "sweep", "--trace", "chat", "--concurrency",
        LOADS, "--requests", str(requests), "--jobs", str(jobs), "--cache", str(folder),
    ]  # fmt: skip


def timed(arguments: list[str]) -> tuple[float, float, str]:
    """Wall seconds, processor seconds of the process and its children, and its last word."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - began, cpu, done.stderr.strip()


def kept(folder: Path) -> dict[Path, int]:
    """Finished simulations and when each was written."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*.json")}


def killed_half_way(arguments: list[str], folder: Path) -> dict[Path, int]:
    """Start a sweep, kill it (SIGKILL) when half of its points are there; what it left."""
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while len(kept(folder)) < POINTS // 2 and process.poll() is None:
        time.sleep(0.01)
    process.kill()
    process.wait()
    time.sleep(2)  # its workers end with it
    return kept(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    given = parser.parse_args()
    print(f"{POINTS} points of {given.requests} requests, {given.jobs} jobs")
    print(f"load average {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as name:
        warm = command(Path(name) / "warm", 10, 1)
        subprocess.run(warm, capture_output=True, check=True)  # machine code is compiled once
        for jobs in sorted({1, given.jobs}):
            folder = Path(name) / f"jobs{jobs}"
            wall, cpu, word = timed(command(folder, given.requests, jobs))
            print(
                f"{jobs} jobs: {wall:.1f} s wall, {cpu:.1f} s CPU, {cpu / wall:.2f} cores; {word}"
            )
            wall, cpu, word = timed(command(folder, given.requests, jobs))
            print(f"  again: {wall:.2f} s wall, {cpu:.2f} s CPU; {word}")
        folder = Path(name) / "killed"
        arguments = command(folder, given.requests, given.jobs)
        before = killed_half_way(arguments, folder)
        wall, cpu, word = timed(arguments)
        after = kept(folder)
        repeated = sum(after[path] != when for path, when in before.items())
        print(f"killed at {len(before)} of {POINTS}, resumed: {wall:.1f} s wall; {word}")
        print(f"  finished points that were simulated again: {repeated}")
    print(f"load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
