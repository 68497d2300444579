"""What the planning schedulers share: expected throughput Θ, its two searches, and admission.

Candidates are the draft tokens with survival above 0, ordered by (survival descending, position
ascending, request ascending). Survivals fall along a block, so that the first K of the order are a
prefix of every block, and Θ needs the sorted survivals only, not whose they are. Sorting plain
numbers by their bits is several times faster than a stable argsort of the tokens
(benchmarks/step.py). Compiled; the serving loop calls the same functions.
"""

from __future__ import annotations

import numpy as np

from workbench.compiled import njit

_FEW = 400  # up to here merging the requests' blocks beats the passes over buckets
_BITS = 11


@njit
def gather(survival, drafts, above, values):
    """Copy the survivals > ``above`` of the first ``drafts`` columns; fills values, returns N."""
    count = 0
    for place in range(survival.shape[0]):
        for k in range(drafts):
            if survival[place, k] > above:
                values[count] = survival[place, k]
                count += 1
    return count


@njit
def _merge_runs(values, count, spare):
    """Merge sort from the descending runs that are there: the blocks of the requests."""
    starts = np.empty(count + 1, np.int64)
    starts[0], runs = 0, 1
    for i in range(1, count):
        if values[i] > values[i - 1]:
            starts[runs] = i
            runs += 1
    starts[runs] = count
    source, target, swapped = values, spare, False
    while runs > 1:
        merged = 0
        for run in range(0, runs, 2):
            first, middle = starts[run], starts[run + 1]
            last = starts[run + 2] if run + 2 <= runs else middle
            a, b = first, middle
            for i in range(first, last):
                if a < middle and (b >= last or source[a] >= source[b]):
                    target[i] = source[a]
                    a += 1
                else:
                    target[i] = source[b]
                    b += 1
            starts[merged] = first
            merged += 1
        starts[merged] = count
        runs = merged
        source, target, swapped = target, source, not swapped
    if swapped:
        for i in range(count):
            values[i] = spare[i]


@njit
def _sort_by_bits(values, count, spare):
    """Three passes over the upper 33 bits, and an insertion for what differs below them.

    Bits of non-negative doubles are ordered as the numbers are.
    """
    size = 1 << _BITS
    mask = np.uint64(size - 1)
    source, target = values, spare
    for shift in range(31, 64, _BITS):
        keys = source[:count].view(np.uint64)
        first = np.zeros(size, np.int64)
        for i in range(count):
            first[np.int64((keys[i] >> np.uint64(shift)) & mask)] += 1
        at = 0
        for bucket in range(size - 1, -1, -1):
            held = first[bucket]
            first[bucket] = at
            at += held
        for i in range(count):
            bucket = np.int64((keys[i] >> np.uint64(shift)) & mask)
            target[first[bucket]] = source[i]
            first[bucket] += 1
        source, target = target, source
    # three passes end in the spare array
    for i in range(count):
        value = spare[i]
        j = i - 1
        while j >= 0 and values[j] < value:
            values[j + 1] = values[j]
            j -= 1
        values[j + 1] = value


@njit
def sort_descending(values, count, spare):
    """Sort the first ``count`` of values, all ≥ 0, in place; ``spare`` is as long as values."""
    if count <= _FEW:
        _merge_runs(values, count, spare)
    else:
        _sort_by_bits(values, count, spare)


@njit
def early_stop(values, count, requests, seconds):
    """Candidates admitted while Θ rises: stop at the first Θ ≤ best (DSpark, Algorithm 1).

    values [N] in order; seconds [N + 1]: the whole step with 0..N drafts verified.
    """
    tokens = np.float64(requests)
    best = tokens / seconds[0]
    for k in range(count):
        tokens += values[k]
        theta = tokens / seconds[k + 1]
        if theta <= best:
            return k
        best = theta
    return count


@njit
def global_search(values, count, requests, seconds):
    """The number of candidates with the highest Θ; the smallest on ties. As ``early_stop``."""
    tokens = np.float64(requests)
    best, chosen = tokens / seconds[0], 0
    for k in range(count):
        tokens += values[k]
        theta = tokens / seconds[k + 1]
        if theta > best:
            best, chosen = theta, k + 1
    return chosen


@njit
def admit(survival, drafts, budget, values, count, lengths):
    """Fill ℓ [R] when the first ``budget`` of the ``count`` sorted values are verified.

    ``values`` are the sorted survivals of the first ``drafts`` columns of survival [R, γ]; a
    budget beyond them verifies them all.
    """
    requests = survival.shape[0]
    budget = min(budget, count)
    lengths[:requests] = 0
    if budget <= 0:
        return
    last = values[budget - 1]
    left = budget
    for place in range(requests):
        for k in range(drafts):
            if survival[place, k] <= last:
                break
            lengths[place] += 1
            left -= 1
    # the last value may be shared: position comes before request
    for k in range(drafts):
        for place in range(requests):
            if left == 0:
                return
            if survival[place, k] == last:
                lengths[place] += 1
                left -= 1


class Workspace:
    """Arrays that a planner reuses from step to step; they grow with the batch."""

    def __init__(self):
        self.values = self.spare = np.empty(0)

    def __reduce__(self):
        return Workspace, ()  # scratch is no state: copies and pickles start empty

    def ordered(self, survival: np.ndarray, drafts: int, above: float = 0.0) -> tuple:
        """Survivals > ``above`` of ``drafts`` columns in descending order, and their number."""
        size = survival.size
        if len(self.values) < size:
            self.values, self.spare = np.empty(2 * size), np.empty(2 * size)
        count = gather(survival, drafts, above, self.values)
        sort_descending(self.values, count, self.spare)
        return self.values, count

    def admitted(self, survival: np.ndarray, drafts: int, budget: int, values, count) -> np.ndarray:
        """ℓ [R], a new array; see ``admit``."""
        lengths = np.empty(len(survival), np.int64)
        admit(survival, drafts, budget, values, count, lengths)
        return lengths
