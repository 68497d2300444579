"""How fast JSON decoders turn trace lines into the same flat arrays, on one core.

    python benchmarks/trace_reading.py [TRACE…]

Every candidate takes the decompressed request lines in memory to ``confidence`` float32 [A, γ]
and ``accepted`` uint8 [A], and the arrays are compared. "Validates" says whether a wrong row
length, type or range would be noticed. MB are of uncompressed JSON, seconds of CPU; the best run
counts. Candidates whose library is not installed are left out. Below: the whole ``read_trace``.
"""

from __future__ import annotations

import gzip
import io
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
import zstandard

from workbench.files import resolve
from workbench.traces import read_trace
from workbench.traces.arrays import NumberArray
from workbench.traces.lines import read_lines
from workbench.traces.reading import SUFFIXES

RUNS = 7
Arrays = tuple[np.ndarray, np.ndarray]


def stdlib(lines: list[bytes], gamma: int) -> Arrays:
    return _from_lists((o["confidence"], o["accepted"]) for o in map(json.loads, lines))


def orjson_(lines: list[bytes], gamma: int) -> Arrays:
    import orjson

    return _from_lists((o["confidence"], o["accepted"]) for o in map(orjson.loads, lines))


def msgspec_typed(lines: list[bytes], gamma: int) -> Arrays:
    number = Annotated[float, msgspec.Meta(ge=0, le=1)]
    count = Annotated[int, msgspec.Meta(ge=0, le=gamma)]
    line = msgspec.defstruct(
        "Line",
        [
            ("id", str),
            ("prompt_tokens", int),
            ("output_tokens", int),
            ("accepted", list[count]),
            ("confidence", list[tuple[(number,) * gamma]]),
        ],
    )
    decode = msgspec.json.Decoder(line).decode
    return _from_lists((o.confidence, o.accepted) for o in map(decode, lines))


def msgspec_raw(lines: list[bytes], gamma: int) -> Arrays:
    return _fields(lines, gamma, lambda array, raw: array.exact(bytes(raw)))


def simdjson_flat(lines: list[bytes], gamma: int) -> Arrays:
    """The whole line by simdjson; nothing is checked but that numbers are numbers."""
    import simdjson

    parser = simdjson.Parser()
    confidence, accepted = [], []
    for line in lines:
        document = parser.parse(line)
        flat = np.frombuffer(document["confidence"].as_buffer(of_type="d"))
        confidence.append(flat.astype(np.float32).reshape(-1, gamma))
        flat = np.frombuffer(document["accepted"].as_buffer(of_type="i"), np.int64)
        accepted.append(flat.astype(np.uint8))
        del document
    return np.concatenate(confidence), np.concatenate(accepted)


def raw_and_simdjson(lines: list[bytes], gamma: int) -> Arrays:
    import simdjson  # noqa: F401  (without it this is the msgspec candidate again)

    return _fields(lines, gamma, lambda array, raw: array.decode(bytes(raw)))


def pyarrow_(lines: list[bytes], gamma: int) -> Arrays:
    import pyarrow.json

    options = pyarrow.json.ReadOptions(use_threads=False, block_size=1 << 24)
    table = pyarrow.json.read_json(io.BytesIO(b"\n".join(lines)), read_options=options)
    confidence = table["confidence"].combine_chunks().flatten().flatten().to_numpy()
    accepted = table["accepted"].combine_chunks().flatten().to_numpy()
    return confidence.astype(np.float32).reshape(-1, gamma), accepted.astype(np.uint8)


def _from_lists(pairs: Iterable[tuple[list, list]]) -> Arrays:
    confidence, accepted = [], []
    for rows, counts in pairs:
        flat = np.fromiter(chain.from_iterable(rows), np.float32)
        confidence.append(flat.reshape(len(rows), -1))
        accepted.append(np.array(counts, np.uint8))
    return np.concatenate(confidence), np.concatenate(accepted)


def _fields(lines: list[bytes], gamma: int, decode: Callable) -> Arrays:
    members = msgspec.json.Decoder(dict[str, msgspec.Raw])
    confidences = NumberArray(np.float32, 0.0, 1.0, width=gamma)
    counts = NumberArray(np.uint8, 0, gamma)
    confidence, accepted = [], []
    for line in lines:
        fields = members.decode(line)
        confidence.append(decode(confidences, fields["confidence"]))
        accepted.append(decode(counts, fields["accepted"]))
    return np.concatenate(confidence), np.concatenate(accepted)


CANDIDATES = [  # name, function, validates, keeps unknown fields
    ("stdlib json", stdlib, False, True),
    ("orjson", orjson_, False, True),
    ("pyarrow.json, one thread", pyarrow_, False, False),
    ("msgspec, typed struct", msgspec_typed, True, False),
    ("msgspec, raw fields, typed arrays", msgspec_raw, True, True),
    ("simdjson, flat buffers", simdjson_flat, False, True),
    ("msgspec raw + simdjson (used)", raw_and_simdjson, True, True),
]


def best(run: Callable[[], object]) -> tuple[float, object]:
    seconds = float("inf")
    for _ in range(RUNS):
        start = time.process_time()
        result = run()
        seconds = min(seconds, time.process_time() - start)
    return seconds, result


def main(names: list[str]) -> None:
    paths = [resolve(name, "traces", SUFFIXES) for name in names]
    files = [list(read_lines(path)) for path in paths]
    gamma = json.loads(files[0][0])["block_size"]
    lines = [line for file in files for line in file[1:]]
    megabytes = sum(map(len, lines)) / 1e6
    print(
        f"{len(lines):,} requests, {megabytes:.1f} MB of JSON, γ = {gamma}, best of {RUNS} runs\n"
    )
    print(f"{'to flat arrays':36}{'MB/s':>6}  validates  keeps unknown fields")
    expected = None
    for name, run, validates, keeps in CANDIDATES:
        try:
            seconds, arrays = best(lambda run=run: run(lines, gamma))
        except ImportError as error:
            print(f"{name:36}     –  {error}")
            continue
        expected = expected or arrays
        assert all(np.array_equal(a, b) for a, b in zip(arrays, expected, strict=True)), name
        rate = megabytes / seconds
        print(f"{name:36}{rate:6.0f}  {'yes' if validates else 'no':9}  {'yes' if keeps else 'no'}")

    print(f"\n{'read_trace, the whole of it':36}{'MB/s':>6}")
    with tempfile.TemporaryDirectory() as folder:
        whole = [b"\n".join(file) for file in files]
        total = sum(map(len, whole)) / 1e6
        for suffix, pack in (
            ("", bytes),
            (".zst", zstandard.ZstdCompressor(19).compress),
            (".gz", gzip.compress),
        ):
            for i, data in enumerate(whole):
                Path(folder, f"{i}{suffix}").write_bytes(pack(data))
            targets = [Path(folder, f"{i}{suffix}") for i in range(len(whole))]
            seconds, _ = best(lambda targets=targets: [read_trace(target) for target in targets])
            print(f"{suffix or 'plain':36}{total / seconds:6.0f}")


if __name__ == "__main__":
    main(sys.argv[1:] or ["math", "code", "chat"])
