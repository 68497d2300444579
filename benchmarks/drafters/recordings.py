"""Twelve dense traces, each as long as fits its size, and whether their acceptance is unbiased."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.drafters.settings import DOMAINS, HEADS, RECORDED, trace_name
from benchmarks.drafters.work import Work
from workbench.drafting.prompts import Prompt
from workbench.drafting.record import Blocks, Recorder
from workbench.drafting.recording import make_trace, record_parts, settings_of
from workbench.drafting.unbiased import unbiased
from workbench.traces import write_trace

SAMPLE = 48  # requests that the size of an anchor is estimated from


def record(work: Work, kind: str, temperature: float) -> list[Blocks]:
    """Blocks of all evaluation prompts; an interrupted recording goes on from its parts."""
    settings, drafter = work.settings, work.drafter(kind)
    outputs, part = work.outputs(temperature), 256
    on_gpu = work.device.type == "cuda"

    def new_recorder(number: int) -> Recorder:
        return Recorder(
            work.target,
            drafter,
            work.choices(list(HEADS).index(kind), round(1000 * temperature), number),
            temperature=temperature,
            rows_per_pass=64 if on_gpu else 8,
            anchors_per_pass=1024 if on_gpu else 64,
        )

    tokens = [asked for _, asked in work.prompts]
    return record_parts(
        work.folder / f"{kind}-{temperature:g}.parts",
        tokens,
        lambda number, asked: outputs[number * part : (number + 1) * part],
        new_recorder,
        settings_of(settings.model, work.folder / kind, tokens, temperature=temperature),
        part=part,
    )


def write_traces(work: Work) -> None:
    """All traces: of a domain, all hold the same prompts, as many as fit into every file."""
    folder = work.folder / "traces"
    folder.mkdir(exist_ok=True)
    recorded = {setting: record(work, *setting) for setting in RECORDED}
    report = {}
    for setting, blocks in recorded.items():
        found = unbiased([prompt.id for prompt, _ in work.prompts], blocks)
        report["{}-{:g}".format(*setting)] = found
    for domain in DOMAINS:
        mine = [i for i, (prompt, _) in enumerate(work.prompts) if prompt.domain == domain]
        count = min(
            _fitting(work, folder / "size.jsonl.gz", mine, blocks, setting)
            for setting, blocks in recorded.items()
        )
        sizes = [work.settings.trace_bytes + 1]
        while max(sizes) > work.settings.trace_bytes and count:
            sizes = [
                _write(
                    work,
                    folder / f"{trace_name(domain, *setting)}.jsonl.gz",
                    mine[:count],
                    blocks,
                    setting,
                )
                for setting, blocks in recorded.items()
            ]
            count -= max(1, count // 50)
    (folder / "size.jsonl.gz").unlink(missing_ok=True)
    work.save("unbiased", report)


def _fitting(work: Work, path: Path, mine: list[int], blocks, setting) -> int:
    """How many of ``mine`` should make a file within the limit, by the size of a small one."""
    few = mine[:SAMPLE]
    anchors = np.array([len(blocks[i].accepted) for i in mine])
    of_one = _write(work, path, few, blocks, setting) / max(anchors[: len(few)].sum(), 1)
    return max(1, int((anchors.cumsum() * of_one <= work.settings.trace_bytes).sum()))


def _write(work: Work, path: Path, mine: list[int], blocks, setting) -> int:
    kind, temperature = setting
    rows: list[tuple[Prompt, int, Blocks]] = [
        (work.prompts[i][0], len(work.prompts[i][1]), blocks[i]) for i in mine
    ]
    source = (
        f"benchmarks/drafters: {kind}, float32, prompts of at most {work.settings.prompt_tokens} "
        f"tokens, at most {work.settings.new_tokens} new tokens, seed {work.settings.seed}"
    )
    trace = make_trace(
        path, rows, work.target.config.name, work.drafter_config(kind),
        temperature=temperature, source=source,
    )  # fmt: skip
    write_trace(path, trace)
    return path.stat().st_size
