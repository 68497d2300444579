"""``workbench figures``: the DSpark paper's figures from recorded traces and a measured profile."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from workbench.cli.console import make_console
from workbench.cli.inputs import fingerprint
from workbench.cli.parallel import cache_options
from workbench.cli.sweep import Swept, run_sweep, sweep_setups
from workbench.cli.sweep import command as sweep
from workbench.errors import InputError
from workbench.files import atomic_write, check_outputs
from workbench.profiles import default_profile_name
from workbench.traces import Trace, read_trace

TRACES = ("math", "math-dflash", "code", "code-dflash", "chat", "chat-dflash")
NAMES = (
    "figure-2-acceptance",
    "figure-5-thresholds",
    "figure-6-reliability",
    "figure-7-frontier",
    "figure-8-load",
)


@click.command("figures", context_settings={"show_default": True, "max_content_width": 100})
@click.argument("folder", metavar="FOLDER")
@click.option(
    "--trace",
    "names",
    multiple=True,
    metavar="T",
    help="Dense traces, one per domain and drafter; the first of a domain, or its DSpark's, is "
    f"the one that is scheduled.  [default: {', '.join(TRACES)}]",
)
@click.option("--profile", default=default_profile_name, metavar="P", help="Step costs.")
@click.option("--page", metavar="PAGE.md", help="Renew the tables in this page.")
@cache_options
def command(folder, names, profile, page, **cache):
    """Draw figures 2, 5, 6, 7 and 8 of the DSpark paper from your own data into FOLDER.

    2: acceptance by position. 5: confidence thresholds. 6: reliability before and after
    calibration. 7: frontiers. 8: throughput and budget against concurrency. Beside the pictures,
    numbers.json has all that is drawn.
    """
    if not Path(folder).is_dir():
        raise InputError("is no folder", file=folder, mend="make it, or name another")
    traces = {name: read_trace(name) for name in dict.fromkeys(names or TRACES)}
    fingerprints = {name: fingerprint(trace.path) for name, trace in traces.items()}
    by_drafter = _by_domain(traces)
    chosen = {domain: _scheduled(some) for domain, some in by_drafter.items()}
    outputs = {f"{name}.png": str(Path(folder) / f"{name}.png") for name in NAMES}
    outputs["numbers.json"] = str(Path(folder) / "numbers.json")
    check_outputs({**outputs, "--page": page}, [trace.path for trace in traces.values()])
    # drawing libraries take longest to load
    from workbench.report.figures.acceptance import acceptance_figure
    from workbench.report.figures.loads import frontier_figure, load_figure
    from workbench.report.figures.reliability import reliability_figure
    from workbench.report.figures.thresholds import threshold_figure
    from workbench.report.figures.writing import read_page, with_tables, write_figures

    text = read_page(page, NAMES) if page else None
    drawn = {domain: traces[name] for domain, name in chosen.items()}
    made = [
        acceptance_figure(
            {d: {t.header.drafter: t for t in some.values()} for d, some in by_drafter.items()}
        ),
        threshold_figure(drawn),
        reliability_figure(drawn, shown="chat" if "chat" in drawn else list(drawn)[-1]),
    ]
    apart = _swept(chosen.values(), profile, cache, apart=len(chosen) > 1)
    mixed = _swept(chosen.values(), profile, cache, apart=False)
    made += [frontier_figure(apart.frontiers), load_figure(mixed.frontiers[0])]
    (config, *_) = mixed.config["groups"].values()
    inputs = {
        "traces": fingerprints,
        "scheduled": list(chosen.values()),
        "profile": {name: config["profile_file"][name] for name in ("name", "sha256")},
        "commands": [apart.config["command"], mixed.config["command"]],
    }
    paths = write_figures(folder, made, inputs)
    if text is not None:
        with atomic_write(page, "w") as file:
            file.write(with_tables(text, {one.name: one.table for one in made}))
    console = make_console()
    for path in [*paths, *([page] if page else [])]:
        console.print(f"{path}: {Path(path).stat().st_size / 1e3:,.0f} kB", soft_wrap=True)


def _by_domain(traces: dict[str, Trace]) -> dict[str, dict[str, Trace]]:
    """Traces by domain and name; raises InputError where one domain has a drafter twice."""
    found: dict[str, dict[str, Trace]] = {}
    for name, trace in traces.items():
        domain = trace.header.domain or ", ".join(trace.domain_names)
        same = found.setdefault(domain, {})
        for other, earlier in same.items():
            if earlier.header.drafter == trace.header.drafter:
                raise InputError(
                    f"has domain {domain} and drafter '{trace.header.drafter}', as {other} has",
                    file=name,
                    place="--trace",
                    mend="give one trace per domain and drafter",
                )
        same[name] = trace
    return found


def _scheduled(traces: dict[str, Trace]) -> str:
    """The name of the trace of a domain that schedulers are replayed on."""
    dspark = [n for n, trace in traces.items() if trace.header.drafter.lower().startswith("dspark")]
    return (dspark or list(traces))[0]


def _swept(traces: Iterable[str], profile: str, cache: dict, apart: bool) -> Swept:
    """``workbench sweep`` with its own defaults. Raises KeyboardInterrupt if it was broken off."""
    words = [word for name in traces for word in ("--trace", name)]
    words += ["--profile", profile, *(["--apart"] if apart else [])]
    with sweep.make_context("sweep", words) as context:
        given = context.params | cache
        swept = run_sweep(given, sweep_setups(given))
    if not swept.complete:
        raise KeyboardInterrupt
    return swept
