"""How long a run still takes, from what its parts took on an H200."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

# seconds of each part of a full run: shares of the time left
SHARES = {"bandwidth": 1, "attention_kernel": 21, "experts_kernel": 12, "kernels": 1,
          "verify": 58, "attention": 60, "beyond": 15, "logits": 1, "prefill": 9, "draft": 17,
          "memory": 0.1, "whole": 8, "held_out": 37, "host": 3.5, "mixed": 27, "sequential": 34,
          "power": 20}  # fmt: skip


class Progress:
    """names: of a run's parts, in order; held_out: rounds of a whole held-out part."""

    def __init__(self, names: Sequence[str], held_out: int):
        self.names, self.held_out = names, held_out
        self.start = time.monotonic()
        self._before = 0.0  # shares that an earlier run had done

    @property
    def seconds(self) -> float:
        """Since this run began."""
        return time.monotonic() - self.start

    def _shares(self, parts: Mapping[str, dict], done: bool) -> float:
        """Of the parts done, or of those left."""
        total = 0.0
        for name in self.names:
            kind = name.split()[0]
            part = float(name in parts)
            if kind == "held_out" and part:
                part = len(parts[name]["cells"]) / self.held_out
            total += SHARES[kind] * (part if done else 1 - part)
        return total

    def resumed(self, parts: Mapping[str, dict]) -> None:
        """What is measured already took none of this run's time."""
        self._before = self._shares(parts, done=True)

    def left(self, parts: Mapping[str, dict]) -> str:
        """The time left, by the shares and what this run's parts took so far."""
        left = self._shares(parts, done=False)
        done = max(self._shares(parts, done=True) - self._before, 1)
        return f"about {self.seconds / done * left:.0f} s left" if left else "all measured"
