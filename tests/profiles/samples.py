"""Profiles that the tests share."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path

from workbench.profiles import Profile, StepCost, parse_profile

DATA = Path(__file__).parent / "data"
V4_FLASH = DATA / "v4-flash-b300.json"  # vLLM's own startup curve, capture limit 1024
COST_MODEL = Path(__file__).parents[2] / "docs" / "cost-model.md"


def worked_example() -> dict:
    """The profile of docs/cost-model.md, a fresh copy."""
    return json.loads(re.search(r"```json\n(.*?)```", COST_MODEL.read_text(), re.S)[1])


FULL = worked_example() | {
    "hardware": {"gpu": "G", "gpus": 2, "power_limit_w": 700, "driver": "1", "sm_clock_mhz": 1980},
    "engine": {"name": "e", "version": "1", "dtype": "bfloat16"},
    "target": {"name": "t", "layers": 36, "hidden": 4096},
    "drafter": {"kind": "dspark", "block_size": 7, "layers": 5, "markov_rank": 256},
    "mixed": {"prefill_tokens": [8], "batch_tokens": [16, 32], "seconds": [[0.02, 0.03]]},
    "kv_cache": {"capacity_tokens": 600000, "block_tokens": 16, "bytes_per_token": 147456},
    "power": {"batch_tokens": [1, 32], "watts": [300, 600]},
    "measured": {
        "repeats": 20,
        "spread": [0.01, 0.01, 0.02, 0.03],
        "fit_error": {"median": 0.01, "max": 0.05},
    },
}


def changed(document: dict, path: str, value) -> dict:
    """A deep copy with the field at dotted ``path`` replaced (``...`` removes it)."""
    document = copy.deepcopy(document)
    *parents, last = [int(key) if key.isdigit() else key for key in path.split(".")]
    node = document
    for key in parents:
        node = node[key]
    if value is ...:
        del node[last]
    else:
        node[last] = value
    return document


def profile(document: dict) -> Profile:
    """A profile from its document."""
    return parse_profile(copy.deepcopy(document), "test.json")


def cost(document: dict, **parts) -> StepCost:
    """The cost of a document with some parts replaced."""
    return StepCost(profile(document | parts))
