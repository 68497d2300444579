"""Every way a program with random choices can go, one run per way."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import torch
from torch import Tensor


class Path:
    """``sampling.Choices`` that follow a given path and note where it could have turned."""

    def __init__(self, turns: list[int]):
        self.turns, self.widths, self.weight = turns, [], 1.0

    def _choose(self, chances: list[float]) -> int:
        options = [i for i, chance in enumerate(chances) if chance > 0]
        if len(options) == 1:
            turn = 0
        else:
            place = len(self.widths)
            self.widths.append(len(options))
            if place == len(self.turns):
                self.turns.append(0)
            turn = self.turns[place]
        self.weight *= chances[options[turn]]
        return options[turn]

    def draw(self, probabilities: Tensor) -> Tensor:
        rows = probabilities.reshape(-1, probabilities.shape[-1]).tolist()
        return torch.tensor([self._choose(row) for row in rows]).view(probabilities.shape[:-1])

    def accept(self, chance: Tensor) -> Tensor:
        taken = [self._choose([1 - c, c]) for c in chance.reshape(-1).tolist()]
        return torch.tensor(taken, dtype=torch.bool).view(chance.shape)


def law(run: Callable[[Path], Hashable]) -> tuple[dict[Hashable, float], int]:
    """The exact distribution of what ``run`` returns, and the number of ways."""
    outcomes: dict[Hashable, float] = {}
    turns: list[int] = []
    ways = 0
    while True:
        path = Path(turns)
        outcome = run(path)
        outcomes[outcome] = outcomes.get(outcome, 0.0) + path.weight
        ways += 1
        turns = path.turns[: len(path.widths)]
        while turns and turns[-1] == path.widths[len(turns) - 1] - 1:
            turns.pop()
        if not turns:
            return outcomes, ways
        turns[-1] += 1


def distance(p: dict, q: dict) -> float:
    """Total variation."""
    return sum(abs(p.get(x, 0.0) - q.get(x, 0.0)) for x in p.keys() | q.keys()) / 2
