"""The paper's own values, from ``published/`` (its README says where they come from)."""

from __future__ import annotations

import csv
from functools import cache
from importlib import resources


@cache
def _rows(name: str) -> list[dict[str, str]]:
    text = (resources.files(__package__) / "published" / name).read_text()
    return list(csv.DictReader(text.splitlines()))


def acceptance(drafter: str, domain: str) -> list[float]:
    """Figure 2: conditional acceptance by position; empty if the paper has none."""
    return [
        float(row["conditional_acceptance"])
        for row in _rows("figure2.csv")
        if row["drafter"] == drafter and row["domain"] == domain
    ]


def thresholds(domain: str) -> list[dict[str, float | None]]:
    """Figure 5: per threshold ``threshold``, ``kept``, ``verified`` (None: not read), ``share``."""
    return [
        {
            "threshold": float(row["confidence_threshold"]),
            "kept": _number(row["accepted_tokens_per_step_incl_bonus"]),
            "verified": _number(row["proposed_tokens_per_step_incl_bonus"]),
            "share": float(row["acceptance_rate_pct"]) / 100,
        }
        for row in _rows("figure5.csv")
        if row["domain"] == domain
    ]


def reliability(position: int, when: str) -> tuple[list[float], list[float]]:
    """Figure 6: predicted survival and observed share; ``when`` is "before" or "after"."""
    mine = [
        row
        for row in _rows("figure6.csv")
        if int(row["draft_position"]) == position and row["curve"] == f"{when}_calibration"
    ]
    predicted = [float(row["predicted_acceptance"]) for row in mine]
    return predicted, [float(row["observed_acceptance"]) for row in mine]


def stated(position: int) -> dict[str, float] | None:
    """Figure 6: ``ece_before``, ``ece_after`` and ``auc`` as stated; None: no such panel."""
    for row in _rows("figure6-stated.csv"):
        if int(row["draft_position"]) == position:
            return {name: float(row[name]) for name in ("ece_before", "ece_after", "auc")}
    return None


def _number(text: str) -> float | None:
    return float(text) if text else None
