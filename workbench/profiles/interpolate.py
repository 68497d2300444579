"""The one interpolation rule of all measured tables, for scalars and for arrays.

Between measured points: linear. Outside: linear from the last two points on that side, never below
the edge point. An axis of one point is constant. Scalars and arrays give bit-identical results.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

import numpy as np

from workbench.compiled import njit


def _rule(v: float, x0: float, x1: float, y0: float, y1: float) -> float:
    # v lies outside [x0, x1] only where (x0, x1) is the first or the last pair of its axis
    if v >= x1:
        return max(y1, y1 + (v - x1) / (x1 - x0) * (y1 - y0))
    inner = y0 + (v - x0) / (x1 - x0) * (y1 - y0)
    return inner if v >= x0 else max(y0, inner)


rule = njit(_rule)  # the same, for compiled callers


def _rule_array(v, x0, x1, y0, y1) -> np.ndarray:
    inner = y0 + (v - x0) / (x1 - x0) * (y1 - y0)
    after = np.maximum(y1, y1 + (v - x1) / (x1 - x0) * (y1 - y0))
    return np.where(v >= x1, after, np.where(v >= x0, inner, np.maximum(y0, inner)))


class _Axis:
    """Strictly increasing points; finds the pair of points that rules a value."""

    __slots__ = ("array", "last", "points")

    def __init__(self, points: Sequence[float]):
        self.points = [float(p) for p in points]
        if len(self.points) == 1:  # two equal columns make the one rule constant
            self.points.append(self.points[0] + 1.0)
        self.array = np.array(self.points)
        self.last = len(self.points) - 2

    def pair(self, v: float) -> int:
        """Index i of the pair (i, i + 1) that rules ``v``."""
        i = bisect_right(self.points, v) - 1
        return 0 if i < 0 else min(i, self.last)

    def pairs(self, v: np.ndarray) -> np.ndarray:
        """``pair`` of every element."""
        return np.clip(np.searchsorted(self.array, v, side="right") - 1, 0, self.last)


class Curve:
    """Values over one axis.

    x: strictly increasing points; y: as many values (any unit). At least one of each.
    """

    __slots__ = ("_axis", "_y", "_y_array")

    def __init__(self, x: Sequence[float], y: Sequence[float]):
        self._axis = _Axis(x)
        self._y = [float(value) for value in y]
        if len(self._y) == 1:
            self._y *= 2
        self._y_array = np.array(self._y)

    def at(self, v: float) -> float:
        """The value at one point."""
        i, x, y = self._axis.pair(v), self._axis.points, self._y
        return _rule(v, x[i], x[i + 1], y[i], y[i + 1])

    def values(self, v: np.ndarray) -> np.ndarray:
        """``at`` of every element, same shape, float64."""
        v = np.asarray(v, np.float64)
        i, x, y = self._axis.pairs(v), self._axis.array, self._y_array
        return _rule_array(v, x[i], x[i + 1], y[i], y[i + 1])


class Table:
    """Values over two axes, bilinear: the rule along the columns, then between the two rows.

    rows [m], columns [n]: strictly increasing points; values [m][n].
    """

    __slots__ = ("_array", "_columns", "_rows", "_values")

    def __init__(
        self, rows: Sequence[float], columns: Sequence[float], values: Sequence[Sequence[float]]
    ):
        self._rows, self._columns = _Axis(rows), _Axis(columns)
        array = np.array(values, np.float64)
        array = np.repeat(array, 2, axis=0) if len(rows) == 1 else array
        array = np.repeat(array, 2, axis=1) if len(columns) == 1 else array
        self._array, self._values = array, array.tolist()

    def packed(self) -> np.ndarray:
        """All of the table in one array, for ``packed_at``: m, n, rows, columns, values."""
        rows, columns = self._rows.array, self._columns.array
        head = [len(rows), len(columns)]
        return np.concatenate([head, rows, columns, self._array.ravel()])

    def at(self, row: float, column: float) -> float:
        """The value at one point."""
        i, j = self._rows.pair(row), self._columns.pair(column)
        r, c = self._rows.points, self._columns.points
        upper, lower = self._values[i], self._values[i + 1]
        c0, c1 = c[j], c[j + 1]
        above = _rule(column, c0, c1, upper[j], upper[j + 1])
        below = _rule(column, c0, c1, lower[j], lower[j + 1])
        return _rule(row, r[i], r[i + 1], above, below)

    def values(self, row: np.ndarray, column: np.ndarray) -> np.ndarray:
        """``at`` of every pair (broadcast), float64."""
        row, column = np.broadcast_arrays(
            np.asarray(row, np.float64), np.asarray(column, np.float64)
        )
        i, j = self._rows.pairs(row), self._columns.pairs(column)
        r, c, y = self._rows.array, self._columns.array, self._array
        c0, c1 = c[j], c[j + 1]
        above = _rule_array(column, c0, c1, y[i, j], y[i, j + 1])
        below = _rule_array(column, c0, c1, y[i + 1, j], y[i + 1, j + 1])
        return _rule_array(row, r[i], r[i + 1], above, below)


class Stack:
    """Tables over a further axis: each at one point, then the rule between two of them.

    layers [l]: strictly increasing points; rows [m], columns [n]; values [l][m][n]. One layer is
    that table alone.
    """

    __slots__ = ("_axis", "_packed", "_tables")

    def __init__(
        self,
        layers: Sequence[float],
        rows: Sequence[float],
        columns: Sequence[float],
        values: Sequence[Sequence[Sequence[float]]],
    ):
        self._axis = _Axis(layers) if len(layers) > 1 else None
        self._tables = [Table(rows, columns, table) for table in values]
        points = [] if self._axis is None else self._axis.array
        head = [[float(len(self._tables))], points]
        self._packed = np.concatenate([*head, *(table.packed() for table in self._tables)])

    def packed(self) -> np.ndarray:
        """All tables in one array, for ``packed_layers``: l, layers, then ``Table.packed``s."""
        return self._packed

    def at(self, layer: float, row: float, column: float) -> float:
        """The value at one point."""
        if self._axis is None:
            return self._tables[0].at(row, column)
        return packed_value(self._packed, float(layer), float(row), float(column))


@njit
def pair(points, v):
    """``_Axis.pair`` of an array of at least two points."""
    low, high = 0, len(points)
    while low < high:
        middle = (low + high) // 2
        if v < points[middle]:
            high = middle
        else:
            low = middle + 1
    return min(max(low - 1, 0), len(points) - 2)


@njit
def packed_at(grid, row, column):
    """``Table.at`` of a ``Table.packed`` array; 0 for an empty one."""
    if len(grid) == 0:
        return 0.0
    m, n = int(grid[0]), int(grid[1])
    rows, columns = grid[2 : 2 + m], grid[2 + m : 2 + m + n]
    i, j = pair(rows, row), pair(columns, column)
    upper = 2 + m + n + i * n + j
    lower = upper + n
    c0, c1 = columns[j], columns[j + 1]
    above = rule(column, c0, c1, grid[upper], grid[upper + 1])
    below = rule(column, c0, c1, grid[lower], grid[lower + 1])
    return rule(row, rows[i], rows[i + 1], above, below)


@njit
def packed_layers(stack, row, column):
    """Points and values at (row, column) of a ``Stack.packed`` array, for ``between_layers``."""
    if len(stack) == 0:
        return np.zeros(0), np.zeros(1)
    count = int(stack[0])
    axis = stack[1 : 1 + count] if count > 1 else stack[:0]
    tables = stack[1 + len(axis) :]
    size = len(tables) // count
    values = np.empty(count)
    for k in range(count):
        values[k] = packed_at(tables[k * size : (k + 1) * size], row, column)
    return axis, values


@njit
def between_layers(axis, values, layer):
    """``Stack.at`` of what ``packed_layers`` gives."""
    if len(values) == 1:
        return values[0]
    i = pair(axis, layer)
    return rule(layer, axis[i], axis[i + 1], values[i], values[i + 1])


@njit
def packed_value(stack, layer, row, column):
    """``Stack.at`` of a ``Stack.packed`` array."""
    axis, values = packed_layers(stack, row, column)
    return between_layers(axis, values, layer)


class ByToken:
    """A function of 0..n batch tokens as a table that is computed once and grows by doubling."""

    __slots__ = ("_function", "_table")

    def __init__(self, function: Callable[[np.ndarray], np.ndarray]):
        self._function = function
        self._table = np.empty(0)

    def upto(self, n: int) -> np.ndarray:
        """Values of 0..n, float64 [n + 1]; a read-only view."""
        if n >= len(self._table):
            size = max(n + 1, 2 * len(self._table), 1024)
            table = np.asarray(self._function(np.arange(size)), np.float64)
            table.setflags(write=False)
            self._table = table
        return self._table[: n + 1]
