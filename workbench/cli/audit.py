"""``workbench audit``: prove or refute by exact enumeration that schedulers are lossless."""

from __future__ import annotations

from dataclasses import asdict

import click
from rich.table import Table

from workbench.cli.console import make_console, write_json
from workbench.files import check_outputs
from workbench.schedulers.audit import Verdict, audit
from workbench.schedulers.user_file import file_of

DEFAULT = (
    "none",
    "static:1",
    "static:3",
    "threshold:0.7",
    "greedy",
    "topk",
    "global",
    "oracle",
    "oracle:path",
)
FORMAT = "workbench.audit/1"


@click.command()
@click.option(
    "--scheduler",
    "schedulers",
    multiple=True,
    metavar="S",
    help=f"May be repeated; path/to/file.py:Class for your own.  [default: {', '.join(DEFAULT)}]",
)
@click.option(
    "--confidence-sees",
    type=click.Choice(["prefix", "token"]),
    default="prefix",
    show_default=True,
    help="Whether c_k was computed before draft k was drawn, or depends on it.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option(
    "--block-size", type=click.IntRange(1, 5), default=3, show_default=True, help="Largest γ."
)
@click.option(
    "--vocabulary", type=click.IntRange(2, 4), default=3, show_default=True, help="Largest V."
)
@click.option(
    "--requests", type=click.IntRange(1, 3), default=3, show_default=True, help="Largest R."
)
@click.option("--json", "json_file", metavar="OUT", help="Write the verdicts as JSON; - is stdout.")
def command(schedulers, confidence_sees, seed, block_size, vocabulary, requests, json_file):
    """Prove or refute that schedulers are lossless at temperatures above 0.

    Each scheduler decides about every draft of small random worlds; the exact distribution of the
    output is compared with the target's own. No sampling. Exit code 1 if a scheduler is refuted
    that declares itself lossless, or reads more than it declares.
    """
    specs = list(dict.fromkeys(schedulers or DEFAULT))
    check_outputs({"--json": json_file}, map(file_of, specs), streams=("--json",))
    verdicts = []
    with make_console(stderr=True).status("") as status:
        for spec in specs:
            verdicts.append(
                audit(
                    spec,
                    confidence_sees=confidence_sees,
                    seed=seed,
                    block_size=block_size,
                    vocabulary=vocabulary,
                    requests=requests,
                    on_case=lambda case, spec=spec: status.update(f"{spec}: {case.name}"),
                )
            )
    if json_file is not None:
        document = {
            "format": FORMAT,
            "confidence_sees": confidence_sees,
            "seed": seed,
            "schedulers": [
                {**asdict(verdict), "misdeclared": verdict.misdeclared, "agrees": verdict.agrees}
                for verdict in verdicts
            ],
        }
        write_json(json_file, document)
    if json_file != "-":
        _print(verdicts)
    return 0 if all(verdict.agrees for verdict in verdicts) else 1


def _print(verdicts: list[Verdict]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("scheduler", overflow="fold")
    table.add_column("verdict", no_wrap=True)
    for column in ("max TVD", "cases", "paths", "ℓ seen", "appendix A"):
        table.add_column(column, justify="right", no_wrap=True)
    for v in verdicts:
        first = "–" if v.appendix is None else " / ".join(f"{p:.2f}" for p in v.appendix)
        verdict = v.verdict.replace("not lossless", "NOT lossless")
        figures = (f"{v.distance:.1e}", str(v.cases), f"{v.paths:.1e}", str(v.patterns), first)
        table.add_row(v.scheduler, verdict, *figures)
    make_console().print(table)
    for v in verdicts:
        click.echo(f"\n{v.scheduler}: {sentence(v)}")
    click.echo(
        "\nmax TVD: largest total variation distance of the joint output from the target's; "
        "1e-12 counts as none\n"
        "ℓ seen: different verify lengths of a batch; appendix A: the first token in DSpark's "
        "counterexample, where the target has 0.70 / 0.30"
    )


def sentence(v: Verdict) -> str:
    """A verdict in words: what was found, and whether it is what the class declares."""
    seen = "only the prefix" if v.confidence_sees == "prefix" else "their own token"
    if v.verdict == "lossless":
        text = f"lossless: the output is the target's in {v.cases} cases, confidences see {seen}"
    elif v.verdict == "not exercised":
        text = (
            f"not exercised: in none of {v.cases} cases did a draft change how many tokens of its "
            "round are verified, so nothing is shown"
        )
    else:
        text = f"NOT lossless, confidences see {seen}: {v.counterexample}"
    declared = f'reads = "{v.reads}"'
    if v.misdeclared:
        meaning = {
            "prefix": "its decisions depend on confidences of this step",
            "block": "whether a token is verified depends on that token or on later ones",
        }[v.found]
        return f'{text}. WRONGLY DECLARED: {declared}, but {meaning}; say "{v.found}"'
    if not v.agrees:
        return f"{text}. WRONGLY DECLARED: {declared} claims that this is lossless"
    if (v.verdict == "lossless") == v.declared_lossless:
        return f"{text}. The rule for {declared} says the same"
    if v.verdict == "lossless":
        return f"{text}. But {declared} has results call it not lossless"
    return text
