"""What an interrupted run leaves beside its output, and a resumed one goes on from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from gpu_probe.errors import ProbeError
from gpu_probe.files import write


def _digest(parts: dict) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class Checkpoint:
    """The parts of a run. plan: what they were measured on and at; drafters: of this run.

    It lies beside the first of ``outs``, of a resumed run where it was.
    """

    def __init__(self, outs: Iterable[Path], plan: list, drafters: dict, resume: bool):
        places = [out.with_name(f".{out.stem}.checkpoint.json") for out in outs]
        self.path = next(filter(Path.exists, places), places[0]) if resume else places[0]
        # as JSON has them, to be compared with what was read
        self.plan, self.drafters = json.loads(json.dumps([plan, drafters]))

    def load(self) -> tuple[dict, dict] | None:
        """Parts by name and the card's first reading; None where there is no checkpoint.

        Raises ProbeError for one that is damaged or of another run. Drafters that this run has
        not are remembered, so that their parts are never taken for another's.
        """
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise ProbeError(f"--resume: {self.path} cannot be read: {error}") from error
        try:
            kept = json.loads(text)
            parts, before, drafters = kept["parts"], kept["before"], kept["drafters"]
            whole = kept["digest"] == _digest(parts)
        except (ValueError, KeyError, TypeError, RecursionError):
            whole = False
        if not whole:
            raise ProbeError(f"--resume: {self.path} is damaged; remove it to start afresh")
        other = any(drafters[key] != now for key, now in self.drafters.items() if key in drafters)
        if kept["plan"] != self.plan or other:
            raise ProbeError(
                f"--resume: {self.path} belongs to a run with other points or on another machine; "
                "remove it or give that run's options"
            )
        self.drafters = {**drafters, **self.drafters}
        return parts, before

    def save(self, parts: dict, before: dict) -> None:
        kept = {"plan": self.plan, "drafters": self.drafters, "before": before}
        write({**kept, "digest": _digest(parts), "parts": parts}, self.path)

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
