"""JSON arrays of numbers to flat numpy arrays: validated exactly, and fast where possible.

Two decoders. The exact one (msgspec, typed) checks element by element and names the first bad one.
The fast one (simdjson) proves the array's shape by deleting the characters that numbers are made
of and comparing what is left with the shape wanted, and takes the numbers from simdjson's flat
buffer. The fast one only ever accepts; whatever it does not accept goes to the exact one, which
alone decides on errors. Where pysimdjson is not installed the exact one does everything.
"""

from __future__ import annotations

from itertools import chain
from typing import Annotated

import msgspec
import numpy as np

try:
    import simdjson
except ImportError:  # no wheel for this Python: about half the speed, the same results
    simdjson = None

_INTEGER = b"0123456789-"
_NUMBER = b"0123456789-+.eE"
_SPACE = b" \t\r\n"


class NumberArray:
    """Decoder of ``[[x, …], …]`` (``width`` numbers a row) or ``[n, …]`` (``width`` None).

    Numbers lie in ``low``..``high``; ``dtype`` is that of the result, [n, width] or [n].
    """

    def __init__(self, dtype: np.dtype | type, low: float, high: float, width: int | None = None):
        self.dtype = np.dtype(dtype)
        self.width = width
        self.low, self.high = low, high
        floats = self.dtype.kind == "f"
        self._buffer_type = "d" if floats else "i"
        self._wide = np.dtype(np.float64 if floats else np.int64)
        self._numeric = (_NUMBER if floats else _INTEGER) + _SPACE
        number = Annotated[float if floats else int, msgspec.Meta(ge=low, le=high)]
        row = number
        if width is not None:
            row = Annotated[list[number], msgspec.Meta(min_length=width, max_length=width)]
            self._row_shape = b"[" + b"," * (width - 1) + b"]"
        self._decoder = msgspec.json.Decoder(list[row])
        self._parser = simdjson.Parser() if simdjson else None

    def decode(self, text: bytes) -> np.ndarray:
        """The array in ``text``. Raises msgspec.ValidationError that names the first bad place."""
        flat = self._fast(text) if self._parser else None
        return self.exact(text) if flat is None else flat

    def exact(self, text: bytes) -> np.ndarray:
        """Same as ``decode``, by msgspec alone."""
        rows = self._decoder.decode(text)
        if self.width is None:
            return np.array(rows, self._wide).astype(self.dtype)
        flat = np.fromiter(chain.from_iterable(rows), self._wide, len(rows) * self.width)
        return flat.astype(self.dtype).reshape(len(rows), self.width)

    def _fast(self, text: bytes) -> np.ndarray | None:
        shape = text.translate(None, self._numeric)
        if self.width is None:
            n = len(shape) - 1  # "[,,]" is three numbers, unless there is none at all
            if n < 1 or shape != b"[" + b"," * (n - 1) + b"]":
                return None
        else:
            n = shape.count(b"[") - 1
            if n < 1 or shape != b"[" + b",".join([self._row_shape] * n) + b"]":
                return None
        try:
            array = self._parser.parse(text)
            numbers = np.frombuffer(array.as_buffer(of_type=self._buffer_type), self._wide)
        except (ValueError, TypeError, RuntimeError):  # RuntimeError: an integer past 64 bits
            return None
        finally:
            array = None  # the parser refuses its next document while one is alive
        if len(numbers) != n * (self.width or 1):
            return None
        if not (numbers.min() >= self.low and numbers.max() <= self.high):
            return None
        numbers = numbers.astype(self.dtype)
        return numbers if self.width is None else numbers.reshape(n, self.width)
