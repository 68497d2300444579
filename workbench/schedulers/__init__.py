"""Verification schedulers: the contract, the built-in rules, and how they are made by name."""

from workbench.schedulers.base import Outcomes, Past, Scheduler, View, lossless
from workbench.schedulers.calls import checked, checked_draft_length
from workbench.schedulers.registry import create, default_schedulers, spelled_out

__all__ = [
    "Outcomes",
    "Past",
    "Scheduler",
    "View",
    "checked",
    "checked_draft_length",
    "create",
    "default_schedulers",
    "lossless",
    "spelled_out",
]
