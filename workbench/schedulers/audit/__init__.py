"""Losslessness by exact enumeration: no sampling, no trust in what a scheduler declares."""

from workbench.schedulers.audit.cases import Case, appendix, battery
from workbench.schedulers.audit.enumeration import enumerate_outputs
from workbench.schedulers.audit.verdict import Verdict, audit

__all__ = ["Case", "Verdict", "appendix", "audit", "battery", "enumerate_outputs"]
