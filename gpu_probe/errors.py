"""What stops a measurement before it starts."""

from __future__ import annotations


class ProbeError(Exception):
    """Said in one line on stderr; the command ends with exit code 2."""
