"""Options that ``train`` and ``record`` share."""

from __future__ import annotations

from collections.abc import Callable

import click

from workbench.errors import InputError

DTYPES = ("float32", "bfloat16", "float16")

_SHARED = (
    click.option(
        "--target",
        "target_path",
        required=True,
        metavar="MODEL",
        help="A .gguf file or a Hugging Face folder (Llama or Qwen3 family).",
    ),
    click.option(
        "--prompts",
        "prompts_path",
        required=True,
        metavar="FILE",
        help='JSON lines {"id", "domain", "prompt" or "turns"}, also .gz or .zst.',
    ),
    click.option("--limit", type=click.IntRange(1), metavar="N", help="The first N prompts only."),
    click.option(
        "--max-running",
        type=click.IntRange(1),
        default=64,
        show_default=True,
        help="Outputs that the target writes at once.",
    ),
    click.option("--seed", type=click.IntRange(0), default=0, show_default=True),
    click.option(
        "--device",
        type=click.Choice(["auto", "cpu", "cuda"]),
        default="auto",
        show_default=True,
    ),
    click.option(
        "--dtype", type=click.Choice(DTYPES), default="float32", show_default=True,
        help="Of the target.",
    ),
)  # fmt: skip


def drafting_options(function: Callable) -> Callable:
    """Declare the shared options on a command."""
    for option in reversed(_SHARED):
        function = option(function)
    return function


def room_for_prompts(context: int, new_tokens: int) -> int:
    """Tokens that a prompt may have in the target's ``context``. Raises InputError if none."""
    if context <= new_tokens:
        raise InputError(
            f"leaves no room for a prompt in the target's context of {context:,} tokens",
            place=f"--max-new-tokens {new_tokens}",
            mend="ask for fewer",
        )
    return context - new_tokens
