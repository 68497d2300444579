"""Pieces of a pass that ``torch.compile`` fuses on a GPU: what lies between two attentions.

Compiled by layer, not as one model: all layers share one compilation, and attention, cache and
CUDA graphs stay outside.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from workbench.drafting.layers import Angles, Layer


def _enter(layer: Layer, x: Tensor, angles: Angles) -> tuple[Tensor, Tensor, Tensor]:
    return layer.enter(x, angles)


def _inject(layer: Layer, context: Tensor, angles: Angles) -> tuple[Tensor, Tensor]:
    return layer.self_attn.keys_values(context, angles)


def _leave(layer: Layer, x: Tensor, seen: Tensor) -> Tensor:
    return layer.leave(x, seen)


class Parts(NamedTuple):
    """The parts of a layer, as they are or compiled."""

    enter: Callable[[Layer, Tensor, Angles], tuple[Tensor, Tensor, Tensor]]
    inject: Callable[[Layer, Tensor, Angles], tuple[Tensor, Tensor]]
    leave: Callable[[Layer, Tensor, Tensor], Tensor]


EAGER = Parts(_enter, _inject, _leave)


@cache
def compiled() -> Parts:
    """Compiled for the shapes that they meet: for callers whose shapes never change."""
    return Parts(*(torch.compile(part, dynamic=False) for part in EAGER))
