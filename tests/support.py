"""Small traces and profiles that tests write, and the command line run in-process."""

from __future__ import annotations

import contextlib
import io
import json
import os
from pathlib import Path

import numpy as np
import pytest

from workbench.cli.main import cli, run

interpreted = pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET") != "1",
    reason="Triton interprets only where there is no NVIDIA card; test_kernels runs compiled ones",
)


def write_trace(
    path: Path, requests: list[dict], *, block_size: int = 3, temperature: float = 1.0, **header
) -> Path:
    """Write a dense trace; a request is {"accepted": [...], "confidence"?: [[...]], ...}.

    ``output_tokens`` is derived from ``accepted`` and confidences default to 0.5.
    """
    head = {
        "format": "workbench.trace/1",
        "coverage": "dense",
        "block_size": block_size,
        "target": "toy",
        "drafter": "toy",
        "temperature": temperature,
        "domain": "toy",
        "source": "made by a test",
        **header,
    }
    lines = [json.dumps(head)]
    for number, request in enumerate(requests):
        accepted = request["accepted"]
        line = {
            "id": f"r{number}",
            "domain": "toy",
            "prompt_tokens": 1,
            "output_tokens": len(accepted) + 1,
            "confidence": [[0.5] * block_size for _ in accepted],
            **request,
        }
        if line["confidence"] is None:
            del line["confidence"]
        lines.append(json.dumps(line))
    path.write_text("\n".join(lines) + "\n")
    return path


def random_requests(rng: np.random.Generator, count: int, block_size: int, longest: int = 30):
    """Random dense requests: lengths, prompts, confidences, and acceptance drawn from them."""
    requests = []
    for _ in range(count):
        rows = int(rng.integers(0, longest))
        confidence = rng.uniform(0.05, 0.99, (rows, block_size))
        accepted = np.cumprod(rng.random((rows, block_size)) < confidence, axis=1).sum(axis=1)
        requests.append(
            {
                "prompt_tokens": int(rng.integers(1, 40)),
                "confidence": confidence.round(3).tolist(),
                "accepted": accepted.tolist(),
            }
        )
    return requests


def write_profile(path: Path, batch_tokens=(1,), seconds=(0.01,), **parts) -> Path:
    """Write a profile; by default a flat step of 10 ms."""
    profile = {
        "format": "workbench.profile/1",
        "name": path.stem,
        "verify": {"batch_tokens": list(batch_tokens), "seconds": list(seconds)},
        **parts,
    }
    path.write_text(json.dumps(profile))
    return path


def workbench(*args) -> tuple[int, str, str]:
    """Run the command in this process; returns exit code, stdout, stderr."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(cli, "workbench", [str(arg) for arg in args])
    return code, out.getvalue(), err.getvalue()


def simulate(*args) -> list[dict]:
    """``workbench simulate … --json -``: the runs of its result."""
    code, out, err = workbench("simulate", *args, "--json", "-")
    assert code == 0, err
    return json.loads(out)["runs"]
