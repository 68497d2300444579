"""The shipped traces: what traces/README.md and docs/trace-format.md promise of them."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from workbench.traces import read_trace, trace_statistics

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "traces").glob("*.jsonl*"))
NAMES = [path.name.removesuffix(".jsonl.gz") for path in FILES]
README = (ROOT / "traces" / "README.md").read_text(encoding="utf-8")
DOMAINS = ("math", "code", "chat")


def test_sizes():
    sizes = [path.stat().st_size for path in FILES]
    assert max(sizes) <= 800_000 and sum(sizes) <= 9_000_000
    assert set(NAMES) == {f"{d}{kind}" for d in DOMAINS for kind in ("", "-dflash", "-t0.6", "-t0")}


@pytest.mark.parametrize("name", NAMES)
def test_headers_and_numbers_are_those_of_the_readme(name):
    trace = read_trace(name)
    header, found = trace.header, trace_statistics(trace)
    length = found.accepted_length
    (row,) = re.findall(rf"^\| {re.escape(name)}\.jsonl\.gz \| (.*) \|$", README, re.MULTILINE)
    drafter, *rest = row.split(" | ")
    assert rest == [
        f"{header.temperature:g}",
        f"{trace.requests}",
        f"{found.anchors:,}",
        f"{length.replayed_rounds:.2f}",
        f"{length.all_anchors:.2f}",
    ]
    assert drafter.lower() == header.drafter.partition("-")[0]
    assert header.confidence_sees == ("token" if "dflash" in name else "prefix")
    assert header.domain == name.partition("-")[0] and header.confidence == "raw"
    assert length.all_anchors > length.replayed_rounds
    assert found.positions[0].judged == found.anchors == trace.rows


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_three_decimals_and_no_text(path):
    text = gzip.decompress(path.read_bytes()).decode()
    longest = max(len(digits) for digits in re.findall(r"\.(\d+)", text.partition("\n")[2]))
    assert longest == 3
    fields = set(re.findall(r'"(\w+)":', text.partition("\n")[2]))
    assert fields == {
        "id", "domain", "prompt_tokens", "output_tokens", "benchmark", "confidence", "accepted",
    }  # fmt: skip


@pytest.mark.parametrize("domain", DOMAINS)
def test_files_of_a_domain_hold_the_same_prompts(domain):
    traces = [read_trace(name) for name in NAMES if name.startswith(domain)]
    assert len({tuple(trace.ids) for trace in traces}) == 1
    dflash, dspark = read_trace(f"{domain}-dflash"), read_trace(domain)
    assert (dflash.output_tokens == dspark.output_tokens).all()


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_sequential_head_is_ahead_and_decays_less(domain):
    dspark, dflash = (trace_statistics(read_trace(domain + kind)) for kind in ("", "-dflash"))
    assert dspark.accepted_length.replayed_rounds > dflash.accepted_length.replayed_rounds
    for k in range(1, 7):
        assert dspark.positions[k].acceptance > dflash.positions[k].acceptance
    kept = [one.positions[3].acceptance / one.positions[0].acceptance for one in (dspark, dflash)]
    assert kept[0] > kept[1] + 0.1
