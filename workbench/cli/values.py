"""Option values of the command line: lists of numbers, weights, key=value pairs."""

from __future__ import annotations

import math

import click
import numpy as np

from workbench.errors import InputError


class Numbers(click.ParamType):
    """A comma-separated list of positive numbers, without repeats."""

    def __init__(self, kind: type, count: int | None = None, most: float = math.inf):
        self.kind, self.count, self.most = kind, count, most
        self.name = "N[,N…]" if kind is int else "X[,X…]" if count is None else "X,X"

    def convert(self, value, param, ctx):
        """Parse, refusing what is not a positive number."""
        if isinstance(value, tuple):
            return value
        numbers = []
        for part in value.split(","):
            try:
                number = self.kind(part)
            except ValueError:
                number = 0
            if not (0 < number <= self.most and math.isfinite(number)):
                word = "whole number" if self.kind is int else "number"
                limit = f" up to {self.most:,}" if math.isfinite(self.most) else ""
                self.fail(f"'{part}' is not a positive {word}{limit}", param, ctx)
            numbers.append(number)
        if self.count is not None:
            if len(numbers) != self.count:
                many = "one number" if self.count == 1 else f"{self.count} numbers"
                self.fail(f"'{value}' is not {many}", param, ctx)
            return tuple(numbers)
        return tuple(dict.fromkeys(numbers))


class Number(click.FloatRange):
    """A finite number in a range."""

    name = "X"

    def _describe_range(self) -> str:
        return "" if self.min is None and self.max is None else super()._describe_range()

    def convert(self, value, param, ctx):
        """Parse, refusing infinity and NaN."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        return number


class Pairs(click.ParamType):
    """``key=number,key=number``; ``keys`` limits what may be named."""

    name = "KEY=X[,…]"

    def __init__(self, keys: tuple[str, ...] | None = None, positive: bool = False):
        self.keys, self.positive = keys, positive

    def convert(self, value, param, ctx):
        """Parse into a dict of floats."""
        if isinstance(value, dict):
            return value
        pairs = {}
        for part in value.split(","):
            key, equals, text = part.partition("=")
            if self.keys and key not in self.keys:
                self.fail(f"'{key}' is not one of {', '.join(self.keys)}", param, ctx)
            try:
                number = float(text)
            except ValueError:
                number = math.nan
            if not equals or not math.isfinite(number) or (self.positive and number <= 0):
                self.fail(
                    f"'{part}' is not a key with a number, as in {key or 'key'}=0.5", param, ctx
                )
            if key in pairs:
                self.fail(f"'{key}' is given twice", param, ctx)
            pairs[key] = number
        return pairs


def weighted(spec: str) -> tuple[str, float | None]:
    """``code.jsonl:0.3`` → the name and its weight; None where no weight is given."""
    name, _, tail = spec.rpartition(":")
    try:
        weight = float(tail)
    except ValueError:
        return spec, None
    if not name:
        return spec, None
    if not (math.isfinite(weight) and weight > 0):
        raise InputError(
            f"weight {tail} is not a positive number",
            place=f"--trace {spec}",
            mend="as in code.jsonl:0.3",
        )
    return name, weight


def trace_weights(given: list[float | None]) -> np.ndarray:
    """Shares [traces] that sum to 1. Traces without a weight share what is left of 1 equally."""
    weights = np.array([np.nan if w is None else w for w in given], float)
    missing = np.isnan(weights)
    if missing.any():
        left = 1.0 - np.nansum(weights)
        if left <= 0:
            raise InputError(
                "the weights given leave nothing for the traces without one",
                place="--trace",
                mend="give every trace a weight, or weights that sum to less than 1",
            )
        weights[missing] = left / missing.sum()
    return weights / weights.sum()
