"""A recording on disk: parts that survive an interruption, and the trace that they make."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from workbench.drafting.config import DrafterConfig
from workbench.drafting.data import Sequences
from workbench.drafting.prompts import Prompt
from workbench.drafting.record import Blocks, Recorder
from workbench.errors import InputError
from workbench.files import atomic_write
from workbench.traces import Header, Trace

Outputs = Callable[[int, Sequence[Sequence[int]]], Sequence[Sequence[int]]]
"""Number of a part and its prompts → the target's outputs."""
NewRecorder = Callable[[int], Recorder]
"""Number of a part → a recorder whose random choices follow from it."""


def record_parts(
    folder: Path,
    prompts: Sequence[Sequence[int]],
    outputs: Outputs,
    new_recorder: NewRecorder,
    settings: dict[str, str],
    *,
    part: int = 64,
    on_progress: Callable[[int], None] = lambda requests: None,
) -> list[Blocks]:
    """Blocks of every prompt (token ids), ``part`` requests at a time, each kept in ``folder``.

    Parts of an earlier run with the same ``settings`` are used again. ``on_progress`` is told of
    requests as they are done. Raises InputError for parts of another recording.
    """
    blocks: list[Blocks] = []
    for number, first in enumerate(range(0, len(prompts), part)):
        path = folder / f"{number:05}.safetensors"
        asked = prompts[first : first + part]
        described = settings | {"part": f"{number} of {part}"}
        if path.is_file():
            blocks += _read(path, described, len(asked))
            on_progress(len(asked))
            continue
        mine = new_recorder(number).batch(asked, outputs(number, asked), on_progress)
        _write(path, mine, described)
        blocks += mine
    return blocks


def outputs_of(sequences: Sequences) -> list[list[int]]:
    """The answers in ``sequences``, without their prompts."""
    first, end = sequences.start[:-1] + sequences.prompt, sequences.start[1:]
    return [sequences.tokens[a:b].tolist() for a, b in zip(first, end, strict=True)]


def settings_of(
    target: str | os.PathLike, drafter: str | os.PathLike, prompts: Sequence[Sequence[int]], **more
) -> dict[str, str]:
    """What makes a recording: parts are used again only where all of it is the same.

    target: a path, by name; drafter: a checkpoint's folder, by content.
    """
    weights = hashlib.sha256()
    for path in sorted(Path(drafter).glob("*.safetensors")):
        weights.update(path.read_bytes())
    asked = msgspec.json.encode([list(prompt) for prompt in prompts])
    return {
        "target": os.fspath(Path(target).resolve()),
        "drafter": weights.hexdigest(),
        "prompts": hashlib.sha256(asked).hexdigest(),
    } | {name: str(value) for name, value in more.items()}


def _write(path: Path, blocks: Sequence[Blocks], settings: dict[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {
        name: np.concatenate([getattr(block, name) for block in blocks])
        for name in Blocks.__dataclass_fields__
    }
    arrays["count"] = np.array([len(block.accepted) for block in blocks])
    with atomic_write(path) as file:
        file.write(save(arrays, settings))


def _read(path: Path, settings: dict[str, str], requests: int) -> list[Blocks]:
    mend = "remove the folder, or record with the same options"
    try:
        with safe_open(path, framework="np") as file:
            if file.metadata() != settings:
                raise InputError("holds another recording's blocks", file=path, mend=mend)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        ends = np.cumsum(arrays.pop("count"))
        if len(ends) != requests:
            raise InputError(f"holds {len(ends)} requests of {requests}", file=path, mend=mend)
        split = {name: np.split(values, ends[:-1]) for name, values in arrays.items()}
        return [
            Blocks(**{name: values[row] for name, values in split.items()})
            for row in range(requests)
        ]
    except (OSError, SafetensorError, KeyError, TypeError) as error:
        raise InputError(f"is no part of a recording ({error})", file=path, mend=mend) from error


def make_trace(
    path: Path,
    requests: Sequence[tuple[Prompt, int, Blocks]],
    target: str,
    drafter: DrafterConfig,
    *,
    temperature: float,
    source: str,
    decimals: int = 3,
) -> Trace:
    """A dense trace of (prompt, its tokens, blocks), confidences rounded to ``decimals``.

    target: the target's name.
    """
    domains = tuple(
        dict.fromkeys(domain for domain in (prompt.domain for prompt, _, _ in requests))
    ) or ("",)
    count = len(requests)
    anchors = [len(blocks.accepted) for _, _, blocks in requests]
    confidence = np.concatenate(
        [np.zeros((0, drafter.block_size)), *(blocks.confidence for _, _, blocks in requests)]
    )
    accepted = np.concatenate([np.zeros(0, int), *(blocks.accepted for _, _, blocks in requests)])
    return Trace(
        name=path.name,
        path=path,
        header=Header(
            format="workbench.trace/1",
            coverage="dense",
            block_size=drafter.block_size,
            target=target,
            drafter=drafter.kind,
            temperature=temperature,
            domain=domains[0] if len(domains) == 1 else "",
            confidence="raw",
            confidence_sees=drafter.confidence_sees,
            source=source,
        ),
        ids=[prompt.id for prompt, _, _ in requests],
        domain_names=domains,
        domain=np.array([domains.index(prompt.domain) for prompt, _, _ in requests], np.int16),
        prompt_tokens=np.array([tokens for _, tokens, _ in requests], np.int32),
        output_tokens=np.array([n + 1 for n in anchors], np.int32),
        arrival_s=np.full(count, np.nan),
        session=None,
        cached_prompt_tokens=np.zeros(count, np.int32),
        row_start=np.concatenate([[0], np.cumsum(anchors)]).astype(np.int64),
        accepted=accepted.astype(np.uint8 if drafter.block_size <= 255 else np.uint16),
        confidence=np.round(confidence, decimals).astype(np.float32),
        verified=None,
        extra=[_benchmark(prompt) for prompt, _, _ in requests],
    )


def _benchmark(prompt: Prompt) -> bytes:
    """The request's field that traces do not know of, as JSON members."""
    return msgspec.json.encode({"benchmark": prompt.benchmark})[1:-1] if prompt.benchmark else b""
