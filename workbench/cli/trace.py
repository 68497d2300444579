"""``workbench trace``: what a recorded trace says about its drafter."""

from __future__ import annotations

import math

import click
from rich import box
from rich.table import Table

from workbench.cli.console import make_console, write_json
from workbench.cli.trace_synth import synth
from workbench.files import check_outputs, resolve
from workbench.traces import TraceStatistics, read_trace, trace_statistics
from workbench.traces.reading import SUFFIXES

JSON_FORMAT = "workbench.trace-info/1"


@click.group(name="trace")
def command() -> None:
    """Look at recorded traces of a drafter (workbench.trace/1)."""


command.add_command(synth)


@command.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--json", "json_out", metavar="OUT", help="Write the numbers as JSON; - is stdout.")
def info(files: tuple[str, ...], json_out: str | None) -> None:
    """Requests, accepted length, and acceptance and confidence by draft position.

    FILE is a path or the name of a shipped trace (chat, code-dflash, ...).
    """
    paths = [resolve(name, "traces", SUFFIXES) for name in files]
    check_outputs({"--json": json_out}, paths, streams=("--json",))
    found = [trace_statistics(read_trace(name)) for name in files]
    if json_out is not None:
        write_json(json_out, {"format": JSON_FORMAT, "traces": found})
        if json_out == "-":
            return
    console = make_console(wide=80)
    tables = [_summary(found[0])] if len(found) == 1 else _comparison(found)
    for title, table in [*tables, *map(_positions, found)]:
        # a table's own title would be broken at the table's width
        console.print(title, style="bold")
        console.print(table)
    console.print(_legend(found), style="dim")


def _summary(one: TraceStatistics) -> tuple[str, Table]:
    table = Table(box=box.SIMPLE, show_header=False)
    table.add_column(overflow="fold")
    table.add_column(overflow="fold")
    length = one.accepted_length
    for label, value in (
        ("file", one.path),
        ("target", one.target or "not named"),
        ("drafter", one.drafter or "not named"),
        ("temperature", f"{one.temperature:g}"),
        ("coverage", one.coverage),
        ("block size γ", str(one.block_size)),
        ("confidence", _confidence(one)),
        ("requests", f"{one.requests:,}"),
        ("domains", _domains(one)),
        ("recorded draft blocks", f"{one.rows:,}"),
        ("anchors", f"{one.anchors:,}"),
        ("prompt tokens", f"{one.prompt_tokens:,} (mean {one.prompt_tokens / one.requests:.0f})"),
        ("output tokens", f"{one.output_tokens:,} (mean {one.output_tokens / one.requests:.0f})"),
        ("arrival times", one.arrivals),
        ("accepted length, replayed rounds", _replayed(one)),
        ("mean accepted + 1, all anchors", _number(length.all_anchors, 2)),
    ):
        table.add_row(label, value)
    if one.coverage == "rounds":
        table.add_row("accepted length, recorded rounds", _number(length.recorded_rounds, 2))
        table.add_row("drafts verified per recorded round", _number(length.mean_verified, 2))
    return one.trace, table


def _comparison(found: list[TraceStatistics]) -> list[tuple[str, Table]]:
    what = Table(box=box.SIMPLE)
    live = any(one.coverage == "rounds" for one in found)
    for label in ("trace", "target", "drafter", "T", "γ", *["coverage"] * live, "domains"):
        what.add_column(label, overflow="fold")
    numbers = Table(box=box.SIMPLE)
    numbers.add_column("trace", overflow="fold", min_width=12)
    lengths = ["replayed rounds"]
    lengths += ["recorded rounds"] * live
    lengths += ["anchors, mean + 1"] if any(one.coverage == "dense" for one in found) else []
    for label in ["requests", "anchors", "output tokens", *lengths]:
        numbers.add_column(label, justify="right")
    for one in found:
        what.add_row(
            one.trace,
            one.target or "not named",
            one.drafter or "not named",
            f"{one.temperature:g}",
            str(one.block_size),
            *[one.coverage] * live,
            _domains(one),
        )
        length = one.accepted_length
        about = "" if length.replay == "exact" else "≈"
        values = {
            "replayed rounds": about + _number(length.replayed_rounds, 2),
            "recorded rounds": _number(length.recorded_rounds, 2),
            "anchors, mean + 1": _number(length.all_anchors, 2),
        }
        numbers.add_row(
            one.trace,
            f"{one.requests:,}",
            f"{one.anchors:,}",
            f"{one.output_tokens:,}",
            *(values[label] for label in lengths),
        )
    return [("What was recorded", what), ("Tokens and accepted length", numbers)]


def _positions(one: TraceStatistics) -> tuple[str, Table]:
    table = Table(box=box.SIMPLE)
    columns = ["k", "judged", "acceptance"]
    if one.confidence != "none":
        columns += ["confidence", "c - acc.", "ECE of a_k", "AUC of a_k"]
    for label in columns:
        table.add_column(label, justify="right")
    for p in one.positions:
        cells = [str(p.position), f"{p.judged:,}", _number(p.acceptance, 3)]
        if one.confidence != "none":
            cells += [
                _number(p.mean_confidence, 3),
                _number(p.mean_confidence - p.acceptance, 3, sign="+"),
                _number(p.survival_ece, 3),
                _number(p.survival_auc, 3),
            ]
        table.add_row(*cells)
    return f"{one.trace}: by draft position", table


def _legend(found: list[TraceStatistics]) -> str:
    lines = [
        "replayed rounds: tokens per round, bonus included, when every block is verified",
        "  whole and each round begins where the last ended; without rounds at the end.",
    ]
    if any(one.coverage == "dense" for one in found):
        lines += [
            "anchors, mean + 1: over all anchors whose block lies inside the output. Not",
            "  what a server sees: its rounds begin where the drafter just failed.",
        ]
    if any(one.coverage == "rounds" for one in found):
        lines += [
            "recorded rounds: at the lengths that the engine verified.",
            "≈: what the log does not say was drawn from its own statistics.",
        ]
    lines.append("acceptance: P(token k passes | tokens 1..k-1 passed), over judged tokens.")
    if any(one.confidence != "none" for one in found):
        lines.append("confidence: mean c_k over the same; a_k = c_1·…·c_k, survival of k tokens.")
    return "\n".join(lines)


def _replayed(one: TraceStatistics) -> str:
    length = one.accepted_length
    text = f"{_number(length.replayed_rounds, 2)} ({length.replayed_rounds_counted:,} rounds"
    if length.replay == "exact":
        return text + ")"
    share = length.replayed_rounds_drawn / max(length.replayed_rounds_counted, 1)
    return f"≈ {text}, {share:.0%} of them drawn)"


def _confidence(one: TraceStatistics) -> str:
    if one.confidence == "none":
        return "none recorded"
    sees = {"prefix": "is computed before token k is drawn", "token": "depends on token k itself"}
    return f"{one.confidence}; c_k {sees[one.confidence_sees]}"


def _domains(one: TraceStatistics) -> str:
    mix = sorted(one.domains, key=lambda d: -d.requests)
    if len(mix) == 1:
        return mix[0].domain or "not named"
    return ", ".join(f"{d.domain or 'not named'} {d.requests / one.requests:.0%}" for d in mix)


def _number(value: float | None, digits: int, sign: str = "") -> str:
    if value is None or math.isnan(value):
        return "–"
    return f"{value:{sign}.{digits}f}"
