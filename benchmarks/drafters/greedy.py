"""Temperature 0 in float32: speculative decoding gives plain decoding's text, token for token."""

from __future__ import annotations

from contextlib import contextmanager

import msgspec
import torch

from benchmarks.drafters.work import Work
from workbench.drafting.decode import Decoder, accepted_length
from workbench.schedulers import create

TIE = 1e-4  # a flip between two logits nearer than this is a matter of rounding


class Flip(msgspec.Struct, kw_only=True):
    """Where two texts part; after it they answer differently."""

    id: str
    token: int  # index in the output
    plain: int  # token ids
    speculative: int
    gap: float  # between the two largest logits there
    between: bool  # whether the two tokens are those of the two largest logits


class Equality(msgspec.Struct, kw_only=True):
    prompts: int
    tokens: int
    accepted_length: float
    equal: int
    flips: list[Flip]
    faults: int  # flips that rounding does not explain


@contextmanager
def exact_products():
    """Matrix products in full float32."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def compare(work: Work, count: int = 200) -> Equality:
    """``count`` evaluation prompts, whole blocks verified, against decoding without drafts."""
    drafter = work.drafter("dspark")
    gamma = drafter.config.block_size
    # an equal share of each domain
    step = max(len(work.prompts) // count, 1)
    chosen = list(range(0, len(work.prompts), step))[:count]
    prompts = [work.prompts[i][1] for i in chosen]
    options = {
        "temperature": 0.0,
        "max_new_tokens": work.settings.new_tokens,
        "max_running": len(prompts),
    }
    with exact_products():
        plain = Decoder(
            work.target, None, create("none", 1), work.choices(7), **options
        ).decode(prompts)  # fmt: skip
        fast = Decoder(
            work.target, drafter, create(f"static:{gamma}", gamma), work.choices(8), **options
        ).decode(prompts)  # fmt: skip
        flips = [
            _flip(work, work.prompts[i][0].id, one.prompt, one.tokens, other.tokens)
            for i, one, other in zip(chosen, plain, fast, strict=True)
            if one.tokens != other.tokens
        ]
    return Equality(
        prompts=len(prompts),
        tokens=sum(len(one.tokens) for one in plain),
        accepted_length=accepted_length(fast),
        equal=len(prompts) - len(flips),
        flips=flips,
        faults=sum(flip.gap >= TIE or not flip.between for flip in flips),
    )


@torch.no_grad()
def _flip(work: Work, name: str, prompt, plain: list[int], fast: list[int]) -> Flip:
    pairs = zip(plain, fast, strict=False)
    at = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(plain), len(fast)))
    tokens = torch.tensor([[*prompt, *plain[:at]]], device=work.device)
    cache = work.target.new_cache(1, tokens.shape[1])
    start = torch.zeros(1, dtype=torch.long, device=work.device)
    best = work.target.logits(work.target(tokens, start, cache).hidden[0, -1]).topk(2)
    mine, other = ((*text, -1)[at] if at <= len(text) else -1 for text in (plain, fast))
    return Flip(
        id=name,
        token=at,
        plain=mine,
        speculative=other,
        gap=float(best.values[0] - best.values[1]),
        between={mine, other} == set(best.indices.tolist()),
    )
