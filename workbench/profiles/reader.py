"""Reading ``workbench.profile/1``: find the file, type it, hold it to the rules of the format."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from workbench.errors import InputError
from workbench.files import resolve
from workbench.profiles.document import (
    MOST_CONTEXT,
    MOST_SECONDS,
    MOST_TOKENS,
    Checks,
    convert,
    read_object,
)
from workbench.profiles.profile import FORMAT, AttentionTable, KVCache, Profile
from workbench.validation import explain

default_profile_name = "h200-qwen3-8b-bf16-dspark7"

# table -> (its values, its axes); a file may nest the values no deeper than that. An axis in
# brackets is optional and, where it is given, the outermost
_TABLES = {
    "verify": ("seconds", ("batch_tokens",)),
    "attention": ("seconds", ("[query_tokens]", "requests", "context_tokens")),
    "attention.mixed": ("seconds", ("[query_tokens]", "requests", "context_tokens")),
    "prefill": ("seconds", ("chunk_tokens", "context_tokens")),
    "draft": ("seconds", ("[context_tokens]", "requests", "tokens")),
    "graphs.beyond": ("seconds", ("batch_tokens",)),
    "mixed": ("seconds", ("prefill_tokens", "batch_tokens")),
    "power": ("watts", ("batch_tokens",)),
}
_MOST_GPUS = 10**6
_MOST_LAYERS = 10**6
_MOST_STEPS = 1024
_MOST_FACTOR = 1e6
_MOST_DRAFTS = 65535  # γ of a trace
_MOST_POINT = {"context_tokens": MOST_CONTEXT, "tokens": _MOST_DRAFTS}


def read_profile(name: str | os.PathLike = default_profile_name) -> Profile:
    """Read a profile by path or by the name of a shipped one, with or without ``.json``.

    Unknown fields are ignored (and kept in ``Profile.document``), except an axis: a table whose
    values are nested deeper than its known axes is refused, since every value would be misread.
    Raises InputError naming the file, the field, the problem and the mend.
    """
    path = resolve(name, "profiles", ("", ".json"))
    return parse_profile(read_object(path), path)


def parse_profile(document: dict[str, Any], path: str | os.PathLike) -> Profile:
    """A profile from its JSON document; ``path`` is named in errors."""
    found = document.get("format")
    if found != FORMAT:
        problem = "is missing" if found is None else f"is {found!r}"
        mend = f'this version reads "{FORMAT}"'
        raise InputError(problem, file=path, place="format", mend=mend)
    for table, (values, axes) in _TABLES.items():
        _check_axes(document, table, values, axes, path)
    profile = convert({k: v for k, v in document.items() if k != "document"}, Profile, path)
    profile.document = document
    _check(profile, Checks(path))
    return profile


def _check_axes(document, table: str, values: str, axes: tuple[str, ...], path) -> None:
    node: Any = document
    for key in table.split("."):
        node = node.get(key) if isinstance(node, dict) else None
    if not isinstance(node, dict):
        return
    optional = axes[0].strip("[]") if axes[0].startswith("[") else None
    required = axes[1:] if optional else axes
    known = (optional, *required) if optional and node.get(optional) is not None else required
    depth, inner = 0, node.get(values)
    while isinstance(inner, list):
        depth, inner = depth + 1, inner[0] if inner else None
    place = f"{table}.{values}"
    if len(known) > len(required):
        if depth < len(known) and isinstance(node.get(values), list):
            raise InputError(
                f"has {depth} axes and {optional} makes {len(known)}",
                file=path,
                place=place,
                mend=f"nest it as {' × '.join(known)}, or leave {optional} out",
            )
        if depth == len(known):  # the structs cannot tell by type how deep it is
            _typed(node[values], list[list[list[float]]], path, place)
    elif optional and depth == len(known):
        _typed(node[values], list[list[float]], path, place)
    if depth <= len(known):
        return
    others = [k for k, v in node.items() if isinstance(v, list) and k not in (*known, values)]
    named = f" (perhaps {', '.join(others)})" if others else ""
    raise InputError(
        f"has {depth} axes, one that this version does not know{named}",
        file=path,
        place=place,
        mend=f"known are {' × '.join(axes)}: keep one slice of the others",
    )


def _typed(values: Any, kind: Any, path, place: str) -> None:
    try:
        msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        problem, place, mend = explain(error, place)
        raise InputError(problem, file=path, place=place, mend=mend) from error


def _check(profile: Profile, checks: Checks) -> None:
    checks.require(bool(profile.name.strip()), "name", "is empty", "give the profile a name")
    _whole(checks, "hardware.gpus", profile.hardware.gpus, 1, _MOST_GPUS)
    if profile.hardware.power_limit_w is not None:
        checks.number("hardware.power_limit_w", profile.hardware.power_limit_w, positive=True)
    if profile.drafter is not None and profile.drafter.block_size is not None:
        _whole(checks, "drafter.block_size", profile.drafter.block_size, 1, _MOST_DRAFTS)
    verify = profile.verify
    checks.axis("verify.batch_tokens", verify.batch_tokens)
    _column(checks, "verify", verify)
    checks.number("verify.reference_context", verify.reference_context, most=MOST_CONTEXT)
    rate = verify.prefill_token_seconds
    checks.number("verify.prefill_token_seconds", rate, least=-MOST_SECONDS, most=MOST_SECONDS)
    _check_tables(profile, checks)
    if profile.host is not None:
        for field in profile.host.__struct_fields__:
            most = _MOST_STEPS if field.endswith("_steps") else MOST_SECONDS
            checks.number(f"host.{field}", getattr(profile.host, field), most=most)
    if profile.graphs is not None:
        _check_graphs(profile, checks)
    if profile.kv_cache is not None:
        _check_kv_cache(profile.kv_cache, checks)
    if profile.power is not None:
        power = profile.power
        checks.axis("power.batch_tokens", power.batch_tokens)
        checks.vector(
            "power.watts", power.watts, "power.batch_tokens", power.batch_tokens, positive=True
        )


def _whole(checks: Checks, field: str, value: int, least: int, most: int) -> None:
    checks.require(least <= value <= most, field, f"is {value}", f"it is {least} to {most}")


def _check_kv_cache(cache: KVCache, checks: Checks) -> None:
    for field in ("capacity_tokens", "block_tokens", "bytes_per_token"):
        value = getattr(cache, field)
        if value is not None:
            checks.number(f"kv_cache.{field}", value, positive=True)
    checks.require(
        cache.capacity_tokens >= cache.block_tokens,
        "kv_cache.capacity_tokens",
        f"{cache.capacity_tokens} tokens hold no block of {cache.block_tokens}",
        "give at least block_tokens",
    )


def _column(checks: Checks, field: str, table) -> None:
    checks.vector(
        f"{field}.seconds",
        table.seconds,
        f"{field}.batch_tokens",
        table.batch_tokens,
        positive=True,
        most=MOST_SECONDS,
    )


def _grid(
    checks: Checks,
    field: str,
    table,
    rows: str,
    columns: str,
    least: int,
    positive: bool = False,
    layers: str | None = None,
    first: int = 1,
) -> None:
    """``layers``: the optional axis, whose points start at ``first`` or above."""
    row_points, column_points = getattr(table, rows), getattr(table, columns)
    checks.axis(f"{field}.{rows}", row_points)
    checks.axis(f"{field}.{columns}", column_points, least, _MOST_POINT.get(columns, MOST_TOKENS))
    named = (f"{field}.{rows}", row_points), (f"{field}.{columns}", column_points)
    tables = {f"{field}.seconds": table.seconds}
    if layers is not None and getattr(table, layers) is not None:
        points = getattr(table, layers)
        checks.axis(f"{field}.{layers}", points, first, _MOST_POINT.get(layers, MOST_TOKENS))
        problem = f"has {len(table.seconds)} tables for the {len(points)} points of {layers}"
        same = len(table.seconds) == len(points)
        checks.require(same, f"{field}.seconds", problem, "give one table per point")
        tables = {f"{field}.seconds[{i}]": part for i, part in enumerate(table.seconds)}
    for place, part in tables.items():
        checks.matrix(place, part, *named, positive=positive, most=MOST_SECONDS)


def _check_tables(profile: Profile, checks: Checks) -> None:
    if profile.attention is not None:
        axes = "requests", "context_tokens", 0
        _grid(checks, "attention", profile.attention, *axes, layers="query_tokens")
        mixed = profile.attention.mixed
        if isinstance(mixed, AttentionTable):
            _grid(checks, "attention.mixed", mixed, *axes, layers="query_tokens")
        elif mixed is not None:
            checks.number("attention.mixed", mixed, most=_MOST_FACTOR)
    if profile.prefill is not None:
        _grid(checks, "prefill", profile.prefill, "chunk_tokens", "context_tokens", 0)
    if profile.mixed is not None:
        _grid(checks, "mixed", profile.mixed, "prefill_tokens", "batch_tokens", 1, positive=True)
    draft = profile.draft
    if draft is None:
        return
    _grid(checks, "draft", draft, "requests", "tokens", 1, layers="context_tokens", first=0)
    twice = draft.context_tokens is not None and draft.context_layers
    checks.require(
        not twice,
        "draft.context_layers",
        "prices the context, and so does draft.context_tokens",
        "leave one of them out",
    )
    prefill_seconds = draft.per_prefill_token_seconds
    checks.number("draft.per_prefill_token_seconds", prefill_seconds, most=MOST_SECONDS)
    checks.number("draft.context_layers", draft.context_layers, most=_MOST_LAYERS)
    if draft.reference_context is not None:
        checks.number("draft.reference_context", draft.reference_context, most=MOST_CONTEXT)
    if draft.context_layers:
        known = profile.target.layers is not None and profile.target.layers >= 1
        checks.require(
            known,
            "target.layers",
            "is missing, and draft.context_layers is a share of it",
            "give the target's number of layers",
        )


def _check_graphs(profile: Profile, checks: Checks) -> None:
    graphs = profile.graphs
    checks.axis("graphs.batch_tokens", graphs.batch_tokens)
    if graphs.requests is not None:
        checks.axis("graphs.requests", graphs.requests)
    if graphs.beyond is None:
        return
    checks.axis("graphs.beyond.batch_tokens", graphs.beyond.batch_tokens)
    first, last = graphs.beyond.batch_tokens[0], graphs.batch_tokens[-1]
    checks.require(
        first > last,
        "graphs.beyond.batch_tokens[0]",
        f"{first} is not past the last captured size {last}",
        "give eager steps past it only",
    )
    _column(checks, "graphs.beyond", graphs.beyond)
