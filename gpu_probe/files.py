"""Writing a file so that nobody ever reads half of it."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from gpu_probe.errors import ProbeError


def write(document: dict, out: Path) -> None:
    """Write JSON beside ``out`` and rename. Raises ProbeError where that is impossible."""
    name = ""
    try:
        handle, name = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(_compact(document))
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, out)
    except OSError as error:
        _remove(name)
        raise ProbeError(f"{out} cannot be written: {error.strerror or error}") from error
    except BaseException:
        _remove(name)
        raise


def _remove(name: str) -> None:
    if name:
        Path(name).unlink(missing_ok=True)


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
