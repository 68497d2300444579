"""Writing a file so that nobody ever reads half of it."""

from __future__ import annotations

import json
import os
from pathlib import Path

from gpu_probe.errors import ProbeError


def write(document: dict, out: Path) -> None:
    """Write JSON beside ``out`` and rename. Raises ProbeError where that is impossible."""
    # always the same name: what a killed run leaves is overwritten, then renamed
    unfinished = out.with_name(f".{out.name}.tmp")
    try:
        unfinished.write_text(_compact(document), encoding="utf-8")
        os.replace(unfinished, out)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise ProbeError(f"{out} cannot be written: {error.strerror or error}") from error
    except BaseException:
        unfinished.unlink(missing_ok=True)
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
