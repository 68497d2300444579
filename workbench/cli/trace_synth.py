"""``workbench trace synth``: a synthetic trace where no recording is at hand."""

from __future__ import annotations

import click
import numpy as np
from rich import box
from rich.table import Table

from workbench.cli.console import make_console
from workbench.errors import InputError
from workbench.files import check_outputs, is_stream
from workbench.traces import rounds_of, write_trace
from workbench.traces.presets import PRESETS, find_preset
from workbench.traces.synthetic import Lengths, expected_accepted_length, synthetic_trace

SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst")


class _Rates(click.ParamType):
    """Comma-separated numbers; ``synthetic_trace`` knows their range."""

    name = "P1,P2,…"

    def convert(self, value, param, ctx):
        if isinstance(value, tuple):
            return value
        try:
            return tuple(float(part) for part in value.split(","))
        except ValueError:
            self.fail(
                f"'{value}' is no comma-separated list of numbers, as in 0.93,0.9", param, ctx
            )


class _Tokens(click.ParamType):
    """``256``, or ``256:100`` for a mean and a standard deviation in tokens."""

    name = "MEAN[:SPREAD]"

    def convert(self, value, param, ctx):
        if isinstance(value, Lengths):
            return value
        mean, colon, spread = str(value).partition(":")
        try:
            lengths = Lengths(float(mean), float(spread) if colon else 0.0)
        except ValueError:
            self.fail(f"'{value}' is not MEAN or MEAN:SPREAD in tokens, as in 256:100", param, ctx)
        if not (1 <= lengths.mean <= 1e6 and 0 <= lengths.spread <= 1e6):
            self.fail(
                f"'{value}': the mean lies in 1..1e6 tokens, the spread in 0..1e6", param, ctx
            )
        return lengths


@click.command("synth", context_settings={"show_default": True})
@click.argument("out", required=False)
@click.option(
    "--conditional", type=_Rates(), help="P(token k passes | tokens 1..k-1 passed), by k."
)
@click.option("--preset", metavar="NAME", help="Published rates instead; `list` shows them.")
@click.option("--auc", type=float, default=0.85, help="ROC-AUC of c_k against token k's outcome.")
@click.option("--requests", type=click.IntRange(1, 1_000_000), default=400, help="Requests.")
@click.option("--output-tokens", type=_Tokens(), default="256", help="Output tokens of a request.")
@click.option("--prompt-tokens", type=_Tokens(), default="128", help="Prompt tokens of a request.")
@click.option("--domain", help="Label of the requests.  [default: the preset's, else chat]")
@click.option("--temperature", type=click.FloatRange(min=0), help="Label.  [default: 1.0]")
@click.option(
    "--confidence-sees",
    type=click.Choice(["prefix", "token"]),
    default="prefix",
    help="Label: c_k is known before token k is drawn, or depends on it.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Same seed, same file.")
def synth(
    out: str | None,
    conditional: tuple[float, ...] | None,
    preset: str | None,
    auc: float,
    requests: int,
    output_tokens: Lengths,
    prompt_tokens: Lengths,
    domain: str | None,
    temperature: float | None,
    confidence_sees: str,
    seed: int,
) -> None:
    """Draw a dense trace OUT (.jsonl, .jsonl.gz, .jsonl.zst; - is stdout) from acceptance rates.

    Rows are independent and confidences calibrated; docs/synthetic-traces.md says what that means
    for a study. With one seed, traces of different presets hold the same requests.
    """
    if preset == "list":
        _list_presets()
        return
    if (conditional is None) == (preset is None):
        problem = "exclude each other" if preset else "are both missing"
        raise InputError(
            problem, place="--conditional and --preset", mend="give one; --preset list shows names"
        )
    if out is None:
        raise InputError("no file to write is named", place="OUT", mend="as in chat.jsonl.gz")
    check_outputs({"OUT": out}, streams=("OUT",))
    out = "/dev/fd/1" if out == "-" else out
    regular = not is_stream(out)
    if regular and not out.endswith(SUFFIXES):
        raise InputError("is no name of a trace", file=out, mend=f"end it in {', '.join(SUFFIXES)}")
    labels = {"domain": "chat", "temperature": 1.0}
    if preset is not None:
        found = find_preset(preset)
        conditional = found.conditional
        labels = {
            field: getattr(found, field)
            for field in ("domain", "temperature", "target", "drafter", "origin")
        }
    given = {"domain": domain, "temperature": temperature}
    labels |= {field: value for field, value in given.items() if value is not None}
    trace = synthetic_trace(
        conditional,
        np.random.default_rng(seed),
        auc=auc,
        requests=requests,
        output_tokens=output_tokens,
        prompt_tokens=prompt_tokens,
        confidence_sees=confidence_sees,
        name=out,
        **labels,
    )
    write_trace(out, trace)
    replayed = rounds_of(trace).accepted_length(trace)
    click.echo(
        f"{out}: {trace.requests:,} synthetic requests, {trace.rows:,} anchors, "
        f"γ = {trace.block_size}; accepted length {replayed:.2f} by replayed rounds, "
        f"{expected_accepted_length(conditional):.2f} expected",
        err=not regular,
    )


def _list_presets() -> None:
    table = Table(box=box.SIMPLE)
    for label in ("preset", "γ", "conditional acceptance", "accepted length"):
        table.add_column(label, justify="left" if label == "preset" else "right", no_wrap=True)
    for preset in PRESETS.values():
        rates = " ".join(f"{p:.3f}" for p in preset.conditional)
        length = expected_accepted_length(preset.conditional)
        table.add_row(preset.name, str(len(preset.conditional)), rates, f"{length:.2f}")
    console = make_console(wide=110)
    console.print(table)
    console.print("from " + "; ".join(dict.fromkeys(p.origin for p in PRESETS.values())))
