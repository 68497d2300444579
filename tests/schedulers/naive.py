"""Every path of a case walked one by one, with nothing merged: what the enumeration must equal."""

from __future__ import annotations

import copy
import itertools

import numpy as np

from workbench.schedulers import Outcomes, View


class ListPast:
    """The whole past as dictionaries {request: value}, latest last."""

    def __init__(self, steps, requests, gamma):
        self.steps, self.requests, self.gamma = steps, requests, gamma

    def _at(self, lag):
        return self.steps[-lag] if lag <= len(self.steps) else None

    def survival(self, lag, missing=1.0):
        step = self._at(lag)
        rows = [step["survival"] if step else {}]
        return np.array([rows[0].get(r, [missing] * self.gamma) for r in self.requests])

    def _counts(self, name, lag):
        step = self._at(lag) or {name: {}}
        return np.array([step[name].get(r, -1) for r in self.requests])

    def verified(self, lag):
        return self._counts("verified", lag)

    def accepted(self, lag):
        return self._counts("accepted", lag)

    def step_seconds(self, lag):
        step = self._at(lag)
        return step["seconds"] if step else float("nan")


def walk(case, scheduler):
    """{outputs of all requests: probability} and the number of paths."""
    totals: dict[tuple, float] = {}
    paths = 0
    todo = [(1.0, tuple(() for _ in range(case.requests)), [], scheduler)]
    while todo:
        probability, texts, steps, before = todo.pop()
        running = [r for r, text in enumerate(texts) if len(text) < case.horizon]
        if not running:
            totals[texts] = totals.get(texts, 0.0) + probability
            paths += 1
            continue
        anchors = [texts[r][-1] if texts[r] else 0 for r in running]
        before = copy.deepcopy(before)
        seconds = case.seconds[len(running) - 1 :]
        view = View(
            block_size=case.block_size,
            request=np.array(running),
            context=np.full(len(running), 1024),
            prefill_tokens=0,
            step_seconds=lambda n, seconds=seconds: seconds[: n + 1],
            past=ListPast(steps, running, case.block_size),
        )
        drafts = view.draft_length = before.draft_length(view)
        blocks = list(itertools.product(range(case.vocabulary), repeat=drafts))
        accepts = range(drafts + 1)
        for drawn in itertools.product(itertools.product(blocks, accepts), repeat=len(running)):
            chance, rows = probability, []
            for r, anchor, (block, accepted) in zip(running, anchors, drawn, strict=True):
                last = anchor
                for k, token in enumerate(block):
                    p_d, p_t = case.draft[r, k, last, token], case.target[r, last, token]
                    chance *= p_d
                    if k < accepted:
                        chance *= min(1, p_t / p_d)
                    elif k == accepted:
                        chance *= 1 - min(1, p_t / p_d)
                    last = token
                padding = [0.0] * (case.block_size - drafts)
                rows.append([*case.confidences(r, anchor, block), *padding])
            if chance == 0:
                continue
            after = copy.deepcopy(before)
            lengths = [0] * len(running)
            if drafts:
                view.confidence = np.array(rows)
                if after.reads == "outcomes":
                    ahead = np.array([accepted for _, accepted in drawn])
                    view.outcomes = Outcomes(ahead, lambda ahead=ahead: ahead)
                lengths = after.verify_lengths(view, np.cumprod(rows, axis=1)).tolist()
            kept = [min(ell, accepted) for ell, (_, accepted) in zip(lengths, drawn, strict=True)]
            step = {
                "survival": dict(zip(running, np.cumprod(rows, axis=1).tolist(), strict=True))
                if drafts
                else {},
                "verified": dict(zip(running, lengths, strict=True)),
                "accepted": dict(zip(running, kept, strict=True)),
                "seconds": case.seconds[len(running) + sum(lengths) - 1],
            }
            nexts = []
            for r, anchor, (block, _), ell, n in zip(
                running, anchors, drawn, lengths, kept, strict=True
            ):
                last = block[n - 1] if n else anchor
                law = case.target[r, last]
                if n < ell:
                    law = np.maximum(0, law - case.draft[r, n, last])
                    law = law / law.sum()
                nexts.append(law)
            for tokens in itertools.product(range(case.vocabulary), repeat=len(running)):
                following = chance
                for law, token in zip(nexts, tokens, strict=True):
                    following *= law[token]
                if following == 0:
                    continue
                new = list(texts)
                for r, (block, _), n, token in zip(running, drawn, kept, tokens, strict=True):
                    new[r] = (*texts[r], *block[:n], token)[: case.horizon]
                todo.append((following, tuple(new), [*steps, step], after))
    return totals, paths
