"""CSV formats with one request a row: which columns make a format, and what they mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from workbench.arrivals.model import Recorded, Request
from workbench.arrivals.table import Table
from workbench.errors import InputError
from workbench.traces.reading import MOST_SECONDS


@dataclass(frozen=True)
class CsvFormat:
    """A format is recognised by its ``required`` columns; others than these are reported."""

    name: str
    required: tuple[str, ...]
    optional: tuple[str, ...]
    read: Callable[[Table, Request], Recorded]

    def text(self) -> str:
        """The format as an error message shows it: ``name (column,column[,optional])``."""
        optional = f"[,{','.join(self.optional)}]" if self.optional else ""
        return f"{self.name} ({','.join(self.required)}{optional})"


def pick_model(table: Table, column: str, model: str | None, single: bool = False) -> list[str]:
    """Keep the rows of ``model``; without one all rows, or with ``single`` the first model's.

    Returns notes. Raises InputError if the file has no such model.
    """
    names, code = table.labels(column)
    if model is None and not single:
        return [f"rows of {len(names)} models together: {', '.join(names)}"] if names[1:] else []
    if model is not None and model not in names:
        raise InputError(
            f"no rows of model '{model}'",
            file=table.path,
            place=column,
            mend=f"there are {', '.join(names)}",
        )
    if len(names) < 2:
        return []
    chosen = names[0] if model is None else model
    table.keep(code == names.index(chosen))
    others = ", ".join(name for name in names if name != chosen)
    return [f"rows of {chosen} only; the file also has {others}"]


def _azure(table: Table, request: Request) -> Recorded:
    nanoseconds = table.instants("TIMESTAMP")
    return Recorded(
        time=(nanoseconds - nanoseconds.min()) / 1e9,
        prompt=table.whole("ContextTokens"),
        output=table.whole("GeneratedTokens"),
    )


def _generic(table: Table, request: Request) -> Recorded:
    have = [name for name in ("prompt_tokens", "output_tokens") if name in table.columns]
    if len(have) == 1:
        raise InputError(
            f"has {have[0]} but not the other length",
            file=table.path,
            place="line 1",
            mend="give prompt_tokens and output_tokens, or neither",
        )
    recorded = Recorded(time=table.number("arrival_s"))
    if have:
        recorded.prompt, recorded.output = table.whole(have[0]), table.whole(have[1])
    if "session" in table.columns:
        recorded.session = table.labels("session")[1]
    if have and "cached_prompt_tokens" in table.columns:
        cached = table.whole("cached_prompt_tokens", low=0)
        more = np.flatnonzero(cached > recorded.prompt)
        if len(more):
            table.fail(int(more[0]), "cached_prompt_tokens", "is more than prompt_tokens")
        recorded.cached = np.minimum(cached, recorded.prompt - 1)
    return recorded


def _agents(table: Table, request: Request) -> Recorded:
    notes = pick_model(table, "request_model", request.model)
    if "is_error" in table.columns:
        failed = table.whole("is_error", low=0) != 0
        if failed.any():
            notes.append(f"{failed.sum()} failed calls (is_error) dropped")
            table.keep(~failed)
    if not len(table):
        raise InputError(
            "every call failed", file=table.path, place="is_error", mend="name a file with others"
        )
    time = table.number("start_time_s")
    names, session = table.labels("session")
    if (session < 0).any():
        table.fail(int((session < 0).argmax()), "session", "is empty", "name each call's session")
    if len(names) > 1:
        first, last = np.full(len(names), np.inf), np.zeros(len(names))
        np.minimum.at(first, session, time)
        np.maximum.at(last, session, time)
        if (first == first[0]).all():
            # sessions recorded each on its own clock would all start at once
            longest = float((last - first).max())
            shift = np.random.default_rng(request.seed).uniform(0.0, longest, len(names))
            time = time + shift[session]
            notes.append(
                f"every session starts at {first[0]:g} s: starts spread uniformly over "
                f"{longest:g} s, the longest session"
            )
    return Recorded(
        time=time,
        prompt=table.whole("input_tokens"),
        output=table.whole("output_tokens"),
        session=session,
        notes=notes,
        grouped=True,
    )


def _sharegpt(table: Table, request: Request) -> Recorded:
    notes = []
    if "tokenizer_model" in table.columns:
        # the same requests once per tokenizer: together they would be a doubled load
        notes = pick_model(table, "tokenizer_model", request.model, single=True)
    return Recorded(
        time=table.number("arrival_time_ns", high=1e9 * MOST_SECONDS) / 1e9,
        prompt=table.whole("input_toks"),
        output=table.whole("output_toks"),
        notes=notes,
    )


def _vidur(table: Table, request: Request) -> Recorded:
    return Recorded(
        time=table.number("arrived_at") if "arrived_at" in table.columns else None,
        prompt=table.whole("num_prefill_tokens"),
        output=table.whole("num_decode_tokens"),
    )


FORMATS = (
    CsvFormat("Azure", ("TIMESTAMP", "ContextTokens", "GeneratedTokens"), (), _azure),
    CsvFormat(
        "generic",
        ("arrival_s",),
        ("prompt_tokens", "output_tokens", "session", "cached_prompt_tokens"),
        _generic,
    ),
    CsvFormat(
        "agent calls",
        ("session", "start_time_s", "input_tokens", "output_tokens", "request_model"),
        ("duration_ms", "finish_reasons", "benchmark", "harness", "is_error"),
        _agents,
    ),
    CsvFormat(
        "LLMServingSim",
        ("arrival_time_ns", "input_toks", "output_toks"),
        ("tokenizer_model",),
        _sharegpt,
    ),
    CsvFormat("vidur", ("num_prefill_tokens", "num_decode_tokens"), ("arrived_at",), _vidur),
)
MODEL_COLUMNS = ("request_model", "tokenizer_model", "model")
