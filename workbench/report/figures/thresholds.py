"""Figure 5: a static confidence threshold, tokens kept and verified per round, by domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from workbench.errors import InputError
from workbench.report.figures import published
from workbench.report.figures.made import DOMAINS, OTHER, Made, canvas
from workbench.traces import Trace

THRESHOLDS = tuple(step / 10 for step in range(10))
_SHOWN = (0.0, 0.3, 0.5, 0.7, 0.8, 0.9)  # in the table


def threshold_round(trace: Trace, threshold: float) -> dict[str, float]:
    """Tokens per round under ``threshold:h``: ``kept`` (1 + accepted drafts), ``verified`` (1 + ℓ).

    Every request of the dense trace is decoded once from anchor 0. Rounds that reach a request's
    end are left out of all three figures; ``share`` is kept ÷ verified, as the paper's acceptance
    rate, with bonus token and anchor in it.
    """
    if trace.header.coverage != "dense" or trace.confidence is None:
        raise InputError(
            "has no confidences at every position",
            file=trace.path,
            place="coverage",
            mend="record a dense trace with confidences",
        )
    below = trace.confidence < np.float32(threshold)
    lengths = np.where(below.any(axis=1), below.argmax(axis=1), trace.block_size)
    last = trace.output_tokens.astype(np.int64) - 1
    active = np.flatnonzero(last > 0)
    anchor = np.zeros(len(active), np.int64)
    kept = verified = rounds = 0
    while len(active):
        row = trace.row_start[active] + anchor
        emitted = 1 + np.minimum(lengths[row], trace.accepted[row].astype(np.int64))
        anchor = anchor + emitted
        inside = anchor < last[active]
        kept += int(emitted[inside].sum())
        verified += int((1 + lengths[row])[inside].sum())
        rounds += int(inside.sum())
        active, anchor = active[inside], anchor[inside]
    if not rounds:
        raise InputError(
            "has no request that takes two rounds", file=trace.path, mend="record longer outputs"
        )
    return {
        "threshold": threshold,
        "kept": kept / rounds,
        "verified": verified / rounds,
        "share": kept / verified,
        "rounds": rounds,
    }


def threshold_figure(traces: Mapping[str, Trace], thresholds: Sequence[float] = THRESHOLDS) -> Made:
    """traces: by domain, of one drafter. Dashed: the paper's Qwen3-4B."""
    figure = canvas(3.7 * len(traces) + 0.4, 3.6)
    panels = figure.subplots(1, len(traces), squeeze=False, sharey=True)[0]
    numbers, table = {}, [("", "threshold", "kept", "verified", "kept ÷ verified", "paper")]
    for panel, (domain, trace) in zip(panels, traces.items(), strict=True):
        found = [threshold_round(trace, threshold) for threshold in thresholds]
        paper = published.thresholds(domain)
        numbers[domain] = {"thresholds": found, "paper": paper}
        colour = DOMAINS.get(domain, OTHER)
        for rows, line, alpha in ((found, "-", 1.0), (paper, (0, (4, 3)), 0.55)):
            for what, marker in (("verified", "s"), ("kept", "o")):
                known = [row for row in rows if row[what] is not None]
                panel.plot(
                    [row["threshold"] for row in known],
                    [row[what] for row in known],
                    color=colour if what == "kept" else "#7F7F7F",
                    linestyle=line,
                    alpha=alpha,
                    marker=marker if rows is found else "",
                    markersize=4,
                    label=f"tokens {what}" if rows is found else f"{what}, paper",
                )
        published_shares = {row["threshold"]: row["share"] for row in paper}
        for row in found:
            if row["threshold"] in _SHOWN:
                theirs = published_shares.get(row["threshold"])
                table.append(
                    (
                        domain,
                        f"{row['threshold']:.1f}",
                        f"{row['kept']:.2f}",
                        f"{row['verified']:.2f}",
                        f"{row['share']:.1%}",
                        "" if theirs is None else f"{theirs:.1%}",
                    )
                )
        panel.set_title(domain, fontsize=10, parse_math=False)
        panel.set_xlabel("confidence threshold")
        panel.set_ylim(0, None)
        panel.grid(alpha=0.25)
    panels[0].set_ylabel("tokens per round (bonus and anchor in)")
    panels[0].legend(fontsize=7.5, frameon=False, loc="lower left")
    return Made("figure-5-thresholds", figure, numbers, table)
