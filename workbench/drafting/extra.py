"""PyTorch is optional: a command that needs it says so in one line."""

from __future__ import annotations

import importlib
from types import ModuleType

from workbench.errors import InputError

PACKAGES = ("torch", "safetensors", "gguf", "tokenizers", "jinja2")


def require(*modules: str) -> list[ModuleType]:
    """Modules of ``workbench.drafting``. Raises InputError if a package of the extra is missing."""
    try:
        return [importlib.import_module(f"workbench.drafting.{name}") for name in modules]
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in PACKAGES:
            raise
        raise InputError(
            f"{error.name} is not installed",
            place="drafting",
            mend="pip install '.[drafting]'",
        ) from error
