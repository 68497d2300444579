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

_FEW = 112  # up to here merging the requests' blocks beats the passes over buckets
_BITS = 11
_BUCKETS = 2048
_CROWD = 48  # values in one bucket, up to which insertion sorts them quickly


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
def _bucket(value):
    """Equal steps of [0, 1], the highest first: where survivals lie spread out."""
    return _BUCKETS - 1 - min(np.int64(value * _BUCKETS), _BUCKETS - 1)


@njit
def _insertion(values, start, stop):
    for i in range(start + 1, stop):
        value = values[i]
        j = i - 1
        while j >= start and values[j] < value:
            values[j + 1] = values[j]
            j -= 1
        values[j + 1] = value


@njit
def _sort_by_value(values, count, spare):
    """One pass over buckets and an insertion; False, with values untouched, if one is crowded."""
    first = np.zeros(_BUCKETS, np.int64)
    for i in range(count):
        first[_bucket(values[i])] += 1
    at = 0
    for bucket in range(_BUCKETS):
        held = first[bucket]
        if held > _CROWD:
            return False
        first[bucket] = at
        at += held
    for i in range(count):
        bucket = _bucket(values[i])
        spare[first[bucket]] = values[i]
        first[bucket] += 1
    for i in range(count):
        values[i] = spare[i]
    _insertion(values, 0, count)
    return True


@njit
def sort_descending(values, count, spare):
    """Sort the first ``count`` of values, all ≥ 0, in place; ``spare`` is as long as values."""
    if count <= _FEW:
        _merge_runs(values, count, spare)
    elif not _sort_by_value(values, count, spare):
        _sort_by_bits(values, count, spare)


@njit
def kth_largest(values, count, k, spare):
    """The k-th largest (1-based) of the first ``count`` values, all ≥ 0, which lose their order."""
    if count <= _FEW:
        _merge_runs(values, count, spare)
        return values[k - 1]
    held = np.zeros(_BUCKETS, np.int64)
    for i in range(count):
        held[_bucket(values[i])] += 1
    bucket = 0
    while k > held[bucket]:
        k -= held[bucket]
        bucket += 1
    kept = 0
    for i in range(count):
        if _bucket(values[i]) == bucket:
            values[kept] = values[i]
            kept += 1
    if kept <= _CROWD:
        _insertion(values, 0, kept)
    else:
        _sort_by_bits(values, kept, spare)
    return values[k - 1]


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
def admit(survival, drafts, budget, last, lengths):
    """Fill ℓ [R] when the ``budget`` highest of the first ``drafts`` columns are verified.

    survival [R, γ]; last: the lowest survival among them, which others may share.
    """
    requests = survival.shape[0]
    lengths[:requests] = 0
    if budget <= 0:
        return
    left = budget
    for place in range(requests):
        for k in range(drafts):
            if survival[place, k] <= last:
                break
            lengths[place] += 1
            left -= 1
    # among those that share it, position comes before request
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

    def ordered(self, survival: np.ndarray, drafts: int) -> tuple[np.ndarray, int]:
        """Survivals > 0 of ``drafts`` columns in descending order, and their number."""
        self._fit(survival.size)
        count = gather(survival, drafts, 0.0, self.values)
        sort_descending(self.values, count, self.spare)
        return self.values, count

    def best(self, survival: np.ndarray, drafts: int, budget: int) -> np.ndarray:
        """ℓ [R] of the ``budget`` highest survivals, zeros too; of all if there are fewer."""
        lengths = np.empty(len(survival), np.int64)
        count = len(survival) * drafts
        if budget >= count:
            lengths[:] = drafts
        elif budget <= 0:
            lengths[:] = 0
        else:
            self._fit(survival.size)
            gather(survival, drafts, -1.0, self.values)
            last = kth_largest(self.values, count, budget, self.spare)
            admit(survival, drafts, budget, last, lengths)
        return lengths

    def first(self, survival: np.ndarray, drafts: int, budget: int, values) -> np.ndarray:
        """ℓ [R] of the first ``budget`` of the ordered ``values`` of ``survival``."""
        lengths = np.empty(len(survival), np.int64)
        admit(survival, drafts, budget, values[budget - 1] if budget else 0.0, lengths)
        return lengths

    def _fit(self, size: int) -> None:
        if len(self.values) < size:
            self.values, self.spare = np.empty(2 * size), np.empty(2 * size)
