"""Dense traces drawn from conditional acceptance by position, with confidences of a given AUC.

Model (``docs/synthetic-traces.md`` has the derivations). In every row, for every draft position k,
independently of the other positions and rows:

    c_k ~ Beta(p_k s_k, (1 − p_k) s_k)        mean p_k, spread by the concentration s_k
    token k passes | tokens 1..k−1 passed ~ Bernoulli(c_k)

so that the confidences are calibrated by construction and P(token k passes | tokens 1..k−1 passed)
is p_k over any rows that are chosen without looking at them, those of a replay's rounds included.
s_k is solved for the ROC-AUC of c_k against the outcome of token k.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from workbench.errors import InputError
from workbench.traces.model import FORMAT, Header, Trace

HIGHEST_AUC = 0.999  # confidences of AUC 1 are the outcomes themselves
MOST_CONFIDENCES = 200_000_000  # of one trace: 800 MB in memory
_DECIMALS = 1e4  # engines log confidences with four
_CONCENTRATIONS = (1e-4, 1e9)


@dataclass(frozen=True, slots=True)
class Lengths:
    """Token counts of requests: log-normal with mean and standard deviation in tokens.

    A spread of 0 makes all equal. Counts are rounded to whole tokens of at least 1.
    """

    mean: float
    spread: float = 0.0

    def draw(self, requests: int, rng: np.random.Generator) -> np.ndarray:
        """Token counts, int32 [requests]."""
        variance = math.log1p((self.spread / self.mean) ** 2)
        location = math.log(self.mean) - variance / 2
        values = rng.lognormal(location, math.sqrt(variance), requests)
        return np.clip(np.rint(values), 1, np.iinfo(np.int32).max).astype(np.int32)

    def __str__(self) -> str:
        return f"{self.mean:g}:{self.spread:g}" if self.spread else f"{self.mean:g}"


def expected_accepted_length(conditional: Sequence[float]) -> float:
    """τ = 1 + Σ_k p_1·…·p_k: tokens per round when whole blocks are verified, bonus included."""
    return 1.0 + float(np.cumprod(np.asarray(conditional, np.float64)).sum())


def calibrated_auc(mean: float, concentration: float) -> float:
    """ROC-AUC of c ~ Beta(p s, (1 − p) s) against an outcome ~ Bernoulli(c).

    mean: p, in (0, 1); concentration: s > 0. For any calibrated c the AUC is
    ½ + E|c − c′| / (4 p (1 − p)) with c, c′ independent, and a Beta's mean difference E|c − c′| is
    4/s · B(s, s) / (B(p s, p s) B((1 − p) s, (1 − p) s)).
    """
    p, q, s = mean, 1.0 - mean, concentration
    ratio = _log_beta(s) - _log_beta(p * s) - _log_beta(q * s)
    return 0.5 + math.exp(ratio - math.log(s * p * q))


def _log_beta(a: float) -> float:
    """log B(a, a)."""
    return 2 * math.lgamma(a) - math.lgamma(2 * a)


def concentration_for(mean: float, auc: float) -> float:
    """The s at which ``calibrated_auc(mean, s)`` is ``auc``; inf at 0.5, where c is always p.

    mean: in (0, 1). The AUC falls from 1 (s → 0, c is 0 or 1) to ½ (s → ∞), so that each value
    between has one s. Raises InputError for an AUC outside [0.5, HIGHEST_AUC].
    """
    _require_auc(auc)
    if auc == 0.5:
        return math.inf
    low, high = map(math.log, _CONCENTRATIONS)
    for _ in range(60):
        middle = (low + high) / 2
        if calibrated_auc(mean, math.exp(middle)) > auc:
            low = middle
        else:
            high = middle
    return math.exp((low + high) / 2)


def _require_auc(auc: float) -> None:
    if not 0.5 <= auc <= HIGHEST_AUC:
        raise InputError(
            f"calibrated confidences cannot have a ROC-AUC of {auc:g} here",
            place="--auc",
            mend=f"it lies in 0.5 (they say nothing) to {HIGHEST_AUC} (at 1 they are the outcomes)",
        )


def synthetic_trace(
    conditional: Sequence[float],
    rng: np.random.Generator,
    *,
    auc: float = 0.85,
    requests: int = 400,
    output_tokens: Lengths = Lengths(256),
    prompt_tokens: Lengths = Lengths(128),
    domain: str = "chat",
    temperature: float = 1.0,
    confidence_sees: Literal["prefix", "token"] = "prefix",
    target: str = "synthetic",
    drafter: str = "synthetic",
    origin: str = "",
    name: str = "synthetic",
) -> Trace:
    """A dense trace of ``requests`` requests whose draft blocks have γ = len(conditional) tokens.

    conditional: p_k [γ], P(token k passes | tokens 1..k−1 passed), in [0, 1]; auc: ROC-AUC of c_k
    against the outcome of token k, the same at every position (where p_k is 0 or 1 there is but one
    outcome and c_k = p_k); origin: where the rates come from, for the header's ``source``;
    temperature and confidence_sees label the trace and change no number in it.
    Lengths are drawn first: with one seed, traces of any rates have the same requests.
    Raises InputError for values outside their range and for a trace too large to hold.
    """
    rates = _checked_rates(conditional)
    _require_auc(auc)
    if not (math.isfinite(temperature) and temperature >= 0):
        raise InputError(f"is {temperature}", place="--temperature", mend="0 or more")
    prompts = prompt_tokens.draw(requests, rng)
    outputs = output_tokens.draw(requests, rng)
    row_start = np.concatenate([[0], np.cumsum(outputs - 1, dtype=np.int64)])
    rows = int(row_start[-1])
    if rows * len(rates) > MOST_CONFIDENCES:
        raise InputError(
            f"would hold {rows * len(rates):,} confidences, more than {MOST_CONFIDENCES:,}",
            place="--requests",
            mend="ask for fewer or shorter requests",
        )
    confidence, accepted = _draw_blocks(rates, auc, rows, rng)
    arrays = {
        "domain": np.zeros(requests, np.int16),
        "prompt_tokens": prompts,
        "output_tokens": outputs,
        "arrival_s": np.full(requests, np.nan),
        "cached_prompt_tokens": np.zeros(requests, np.int32),
        "row_start": row_start,
        "accepted": accepted,
        "confidence": confidence,
    }
    for array in arrays.values():
        array.flags.writeable = False
    header = Header(
        format=FORMAT,
        coverage="dense",
        block_size=len(rates),
        target=target,
        drafter=drafter,
        temperature=temperature,
        domain=domain,
        confidence="calibrated by construction",
        confidence_sees=confidence_sees,
        source=_source(rates, auc, output_tokens, prompt_tokens, origin),
    )
    return Trace(
        name=name,
        path=Path(name),
        header=header,
        ids=[f"{domain or 'synthetic'}-{r:05d}" for r in range(requests)],
        domain_names=(domain,),
        session=None,
        verified=None,
        extra=[b""] * requests,
        **arrays,
    )


def _checked_rates(conditional: Sequence[float]) -> list[float]:
    rates = [float(p) for p in conditional]
    if not 1 <= len(rates) <= 255:
        raise InputError(
            f"has {len(rates)} positions",
            place="--conditional",
            mend="give one rate per draft, 1..255",
        )
    for k, p in enumerate(rates, start=1):
        if not 0 <= p <= 1:
            raise InputError(
                f"position {k} is {p:g}, not a probability",
                place="--conditional",
                mend="each is P(token k passes | tokens 1..k-1 passed), in 0..1",
            )
    return rates


def _draw_blocks(
    rates: list[float], auc: float, rows: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Confidences float32 [rows, γ] and accepted drafts uint8 [rows]."""
    confidence = np.empty((rows, len(rates)), np.float32)
    accepted = np.zeros(rows, np.uint8)
    passing = np.ones(rows, bool)
    for k, p in enumerate(rates):
        latent = np.full(rows, p)
        if 0 < p < 1 and math.isfinite(s := concentration_for(p, auc)):
            latent = rng.beta(p * s, (1 - p) * s, rows)
        # up or down at random, so that the mean stays p; the outcome follows what is written
        ticks = np.floor(latent * _DECIMALS + rng.random(rows))
        written = np.minimum(ticks / _DECIMALS, 1.0)
        confidence[:, k] = written
        passing &= rng.random(rows) < written
        accepted += passing
    return confidence, accepted


def _source(rates: list[float], auc: float, output: Lengths, prompt: Lengths, origin: str) -> str:
    numbers = ",".join(f"{p:g}" for p in rates)
    return (
        f"synthetic, not recorded: independent rows, conditional acceptance {numbers}"
        f"{f' ({origin})' if origin else ''}, Beta confidences calibrated by construction with "
        f"ROC-AUC {auc:g} per position, output tokens {output}, prompt tokens {prompt}"
    )
