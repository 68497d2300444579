"""``workbench profile``: look at measured step costs."""

from __future__ import annotations

import math
from typing import Any

import click
from rich.table import Table

from workbench.cli.console import make_console, write_json
from workbench.files import check_outputs, resolve
from workbench.profiles import StepCost, default_profile_name, read_profile
from workbench.profiles.figure import draw_staircase, staircase

_EXAMPLE_REQUESTS = (1, 8, 64, 256)
_EXAMPLE_CONTEXT = 1024


@click.group("profile")
def command():
    """Look at measured step costs."""


@command.command()
@click.argument("name", default=default_profile_name)
@click.option("--plot", metavar="OUT.png", help="Draw steps per second against batch tokens.")
@click.option("--json", "out", metavar="OUT", help="Write what is shown as JSON ('-': stdout).")
def info(name: str, plot: str | None, out: str | None):
    """Show what a profile measured, what is absent, and what steps cost by it.

    NAME is a file or a shipped profile.
    """
    path = resolve(name, "profiles", ("", ".json"))
    check_outputs({"--json": out, "--plot": plot}, [path], streams=("--json",))
    cost = StepCost(read_profile(name))
    summary = summarise(cost)
    if plot is not None:
        draw_staircase(staircase(cost), plot)
    if out is not None:
        write_json(out, summary)
        if out == "-":
            return
    console = make_console()
    for line in _head(cost):
        console.print(line)
    for title, table in _tables(cost, summary):
        console.print()
        console.print(title, style="bold")
        console.print(table)
    if plot is not None:
        click.echo(f"plot written to {plot}", err=True)


def summarise(cost: StepCost) -> dict[str, Any]:
    """What ``info`` shows, as JSON: the profile, what is absent, the curve and example steps."""
    profile = cost.profile
    rows = []
    for i, (tokens, seconds) in enumerate(
        zip(profile.verify.batch_tokens, profile.verify.seconds, strict=True)
    ):
        charged = cost.verify_seconds(tokens)
        row = {"batch_tokens": tokens, "seconds": seconds, "padded": cost.padded(tokens)}
        row |= {"charged_seconds": charged, "steps_per_second": 1 / charged}
        spread = profile.measured.spread if profile.measured else None
        if isinstance(spread, list) and len(spread) == len(profile.verify.seconds):
            row["spread"] = spread[i]
        rows.append(row)
    return {
        "format": "workbench.profile-info/1",
        "profile": profile.document,
        "missing": cost.missing,
        "last_captured": cost.last_captured,
        "verify": rows,
        "examples": _examples(cost),
    }


def _examples(cost: StepCost) -> list[dict[str, Any]]:
    profile = cost.profile
    block = profile.drafter.block_size if profile.drafter else None
    if block is None and profile.draft is not None:
        block = profile.draft.tokens[-1]
    steps = []
    for requests in _EXAMPLE_REQUESTS:
        for drafts in dict.fromkeys((0, block or 0)):
            parts = cost.step_parts(
                requests=requests,
                batch_tokens=requests * (1 + drafts),
                mean_context=_EXAMPLE_CONTEXT,
                draft_tokens=drafts,
            )
            steps.append(
                {
                    "requests": requests,
                    "drafts": drafts,
                    "batch_tokens": requests * (1 + drafts),
                    "mean_context": _EXAMPLE_CONTEXT,
                    "parts": parts._asdict(),
                    "seconds": parts.total,
                    "steps_per_second": 1 / parts.total,
                }
            )
    return steps


def _head(cost: StepCost) -> list[str]:
    profile, hardware, engine = cost.profile, cost.profile.hardware, cost.profile.engine
    lines = [f"profile   {profile.name}"]
    machine = f"{hardware.gpus} × {hardware.gpu or 'GPU of unknown name'}"
    facts = [f"driver {hardware.driver}"] if hardware.driver else []
    facts += [f"{hardware.sm_clock_mhz:g} MHz"] if hardware.sm_clock_mhz else []
    facts += [f"{hardware.power_limit_w:g} W"] if hardware.power_limit_w else []
    lines.append(f"machine   {', '.join([machine, *facts])}")
    if engine.name:
        version = " ".join(part for part in (engine.name, engine.version, engine.dtype) if part)
        lines.append(f"engine    {version}")
    if profile.target.name:
        lines.append(f"target    {profile.target.name}{_layers(profile.target.layers)}")
    if profile.drafter:
        kind, size = profile.drafter.kind or "unknown kind", profile.drafter.block_size
        block = f", block of {size}" if size else ""
        lines.append(f"drafter   {kind}{_layers(profile.drafter.layers)}{block}")
    if profile.graphs:
        lines.append(f"graphs    {_ladder(profile.graphs.batch_tokens)} batch tokens")
        beyond = profile.graphs.beyond
        past = "the verify curve" if beyond is None else f"eager, {_ladder(beyond.batch_tokens)}"
        lines.append(f"          past {cost.last_captured}: {past}")
    if profile.kv_cache:
        lines.append(f"KV cache  {profile.kv_cache.capacity_tokens} tokens")
    lines += _measured(cost)
    if profile.measured is not None and profile.measured.complete is False:
        lines.append("          interrupted: parts may be missing; gpu-probe --resume goes on")
    absent = ", ".join(cost.missing)
    lines.append(f"absent    {absent}: cost nothing" if absent else "absent    nothing")
    return lines


def _measured(cost: StepCost) -> list[str]:
    measured = cost.profile.measured
    if measured is None:
        return ["measured  not said how"]
    facts = [f"{measured.repeats} repeats"] if measured.repeats else []
    error = measured.fit_error
    if error is None:
        facts.append("fit error not given")
    else:
        pairs = (("median", error.median), ("max", error.max))
        shown = [f"{word} {value:.1%}" for word, value in pairs if value is not None]
        facts.append(f"fit error {', '.join(shown) or 'not given'}")
    return [f"measured  {', '.join(facts)}"]


def _layers(layers: int | None) -> str:
    return f", {layers} layers" if layers else ""


def _ladder(sizes: list[int]) -> str:
    if len(sizes) <= 6:
        return ", ".join(map(str, sizes))
    return f"{', '.join(map(str, sizes[:4]))}, … {sizes[-1]} ({len(sizes)} sizes)"


def _tables(cost: StepCost, summary: dict[str, Any]) -> list[tuple[str, Table]]:
    profile = cost.profile
    tables = [_verify_table(summary)]
    if profile.graphs and profile.graphs.beyond:
        beyond = profile.graphs.beyond
        eager = _table("tokens", "ms", "steps/s")
        for tokens, seconds in zip(beyond.batch_tokens, beyond.seconds, strict=True):
            eager.add_row(str(tokens), _ms(seconds), f"{1 / seconds:.1f}")
        tables.append(("Eager steps past the last graph", eager))
    if profile.attention:
        part = profile.attention
        title = f"Attention above context {profile.verify.reference_context}"
        for queries, seconds in part.slices():
            at = "" if queries is None else f", {queries} query tokens per request"
            tables += _grids(
                f"{title}{at}, ms",
                "requests",
                "context",
                part.requests,
                part.context_tokens,
                seconds,
            )
    if profile.draft:
        part = profile.draft
        for context, seconds in part.slices():
            at = "" if context is None else f" at context {context}"
            tables += _grids(
                f"Draft pass{at}, ms", "requests", "drafts", part.requests, part.tokens, seconds
            )
    if profile.prefill:
        part = profile.prefill
        title = "Prefill: attention of a chunk over what precedes it, ms"
        chunks, contexts = part.chunk_tokens, part.context_tokens
        tables += _grids(title, "chunk", "after", chunks, contexts, part.seconds)
    if profile.mixed:
        part = profile.mixed
        title = "Forward pass of steps with prefill, ms"
        chunks, tokens = part.prefill_tokens, part.batch_tokens
        tables += _grids(title, "prefill", "B", chunks, tokens, part.seconds)
    if profile.host:
        host = _table("field", "value")
        for field in profile.host.__struct_fields__:
            value = getattr(profile.host, field)
            shown = f"{value} steps" if field.endswith("steps") else f"{_ms(value)} ms"
            host.add_row(field, shown)
        tables.append(("Host", host))
    tables.append(_example_table(summary))
    return tables


def _table(*columns: str, caption: str | None = None) -> Table:
    table = Table(caption=caption, caption_justify="left", box=None)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f}"


def _verify_table(summary: dict[str, Any]) -> tuple[str, Table]:
    rows = summary["verify"]
    spread = all("spread" in row for row in rows)
    columns = ["tokens", "ms", "padded to", "ms charged", "steps/s"]
    table = _table(*columns, *(["spread"] if spread else []))
    for row in rows:
        cells = [str(row["batch_tokens"]), _ms(row["seconds"]), str(row["padded"])]
        cells += [_ms(row["charged_seconds"]), f"{row['steps_per_second']:.1f}"]
        if spread:
            number = isinstance(row["spread"], (int, float)) and math.isfinite(row["spread"])
            cells.append(f"{row['spread']:.1%}" if number else str(row["spread"]))
        table.add_row(*cells)
    return "Verify: forward pass of the target by batch tokens", table


def _grids(
    title: str,
    row: str,
    column: str,
    rows: list[int],
    columns: list[int],
    values: list[list[float]],
) -> list[tuple[str, Table]]:
    """A matrix as tables of at most 7 columns, so that 80 characters hold them."""
    tables = []
    for start in range(0, len(columns), 7):
        shown = columns[start : start + 7]
        table = _table(row)
        for value in shown:
            table.add_column(f"{column} {value}", justify="right")
        for point, seconds in zip(rows, values, strict=True):
            table.add_row(str(point), *map(_ms, seconds[start : start + 7]))
        tables.append((title if start == 0 else f"{title} (continued)", table))
    return tables


def _example_table(summary: dict[str, Any]) -> tuple[str, Table]:
    caption = (
        "accepted length at which verifying the whole block pays: "
        "step time ÷ step time without drafts"
    )
    table = _table(
        *(
            "requests",
            "drafts",
            "B",
            "verify ms",
            "attention",
            "draft",
            "host",
            "step ms",
            "pays at",
        ),
        caption=caption,
    )
    plain = {s["requests"]: s["seconds"] for s in summary["examples"] if s["drafts"] == 0}
    for step in summary["examples"]:
        parts = step["parts"]
        pays = f"{step['seconds'] / plain[step['requests']]:.2f}" if step["drafts"] else ""
        shown = [_ms(parts[part]) for part in ("verify", "attention", "draft", "host")]
        table.add_row(
            *map(str, (step["requests"], step["drafts"], step["batch_tokens"])),
            *shown,
            _ms(step["seconds"]),
            pays,
        )
    return f"Steps at context {_EXAMPLE_CONTEXT}, decoding only, asynchronous", table
