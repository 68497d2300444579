"""Recorded blocks in the place of models: the live loop, with the recorded outputs as its text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workbench.drafting.passes import Passes, Verified
from workbench.drafting.record import Blocks


class RecordedPasses(Passes):
    """Replays request i along ``outputs[i]`` with ``blocks[i]``; prompts are not looked at."""

    def __init__(self, outputs: Sequence[Sequence[int]], blocks: Sequence[Blocks], block_size: int):
        self.outputs, self.blocks, self.block_size = outputs, blocks, block_size
        # by request: Σ accepted − Σ min(p_d, p_t) over what was verified and judged
        self.excess = np.zeros(len(outputs))

    def open(self, slots: int, room: int) -> None:
        self.held = np.zeros(slots, int)
        self._request, self._at = np.zeros(slots, int), np.zeros(slots, int)

    def prefill(self, slots, requests, prompts) -> list[int]:
        self._request[slots], self._at[slots] = requests, 0
        self.held[slots] = [len(prompt) for prompt in prompts]
        return [self.outputs[index][0] for index in requests]

    def free(self, slots: Sequence[int]) -> None:
        self.held[slots] = 0

    def draft(self, drafts: int, confident: bool) -> np.ndarray | None:
        if not (drafts and confident):
            return None
        known = np.zeros((len(self.held), self.block_size))
        for slot in np.flatnonzero(self.held):
            known[slot] = self.blocks[self._request[slot]].confidence[self._at[slot]]
        return known[:, :drafts]

    def verify(self, order: np.ndarray, lengths: np.ndarray) -> Verified:
        accepted, following, drafts = [], [], []
        for slot, length in zip(order.tolist(), lengths.tolist(), strict=True):
            index, at = self._request[slot], self._at[slot]
            block, output = self.blocks[index], self.outputs[index]
            kept = min(int(block.accepted[at]), length)
            seen = block.judged[at, :length]
            self.excess[index] += kept - block.overlap[at, :length][seen].sum()
            accepted.append(kept)
            # past the end of the output nothing is emitted
            drafts.append([*output[at + 1 : at + 1 + kept]])
            following.append(output[min(at + kept + 1, len(output) - 1)])
            self._at[slot] = at + kept + 1
            self.held[slot] += kept + 1
        return Verified(np.array(accepted), following, drafts)
