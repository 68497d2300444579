"""One process: does the named tasks in order, skipping those whose result is there.

python -m benchmarks.drafters.task SETTINGS TASK...
"""

from __future__ import annotations

import sys
import time
import traceback
from pathlib import Path

from benchmarks.drafters import folder, greedy, latency, live, recordings, summary
from benchmarks.drafters.settings import read_settings
from benchmarks.drafters.work import Work


def do(work: Work, task: str) -> None:
    """``task`` is one of ``plan.Run.tasks``."""
    name, *more = task.split(":")
    result = task.replace(":", "-")
    if name == "target":
        if (work.settings.model / "config.json").is_file():
            return
        if work.settings.toy:
            folder.toy(work.settings.model, Path(work.settings.prompts))
        else:
            folder.dequantise(Path(work.settings.target), work.settings.model)
    elif name == "outputs":
        work.outputs(float(more[0]))
    elif name == "record":
        recordings.record(work, more[0], float(more[1]))
    elif name == "traces":
        if not (work.folder / "unbiased.json").is_file():
            recordings.write_traces(work)
    elif name == "summary":
        summary.write(work)
    elif not (work.folder / f"{result}.json").is_file():
        if name == "greedy":
            work.save(result, greedy.compare(work))
        elif name == "latency":
            work.save(result, latency.measure(work))
        elif name == "live":
            work.save(result, live.compare(work, more[0].replace("=", ":"), int(more[1])))


def main() -> None:
    work = Work(read_settings(Path(sys.argv[1])))
    failed = []
    for task in sys.argv[2:]:
        began = time.perf_counter()
        try:
            do(work, task)
        except Exception:
            # time on a GPU is dear: what does not need this task is done all the same
            traceback.print_exc()
            failed.append(task)
        print(f"{task}: {time.perf_counter() - began:.1f} s", file=sys.stderr, flush=True)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
