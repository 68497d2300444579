"""docs/figures.md: its tables, the numbers in its text and its claims are those of numbers.json.

What fails here after new traces or a new profile is mended by
``workbench figures docs/figures --page docs/figures.md`` and, where a sentence no longer holds, by
hand.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from workbench.cli.figures import NAMES
from workbench.cli.inputs import fingerprint
from workbench.files import resolve
from workbench.report.figures.made import markdown
from workbench.traces.reading import SUFFIXES

DOCS = Path(__file__).parents[3] / "docs"
TEXT = (DOCS / "figures.md").read_text()
DOCUMENT = json.loads((DOCS / "figures" / "numbers.json").read_text())
FIGURES = DOCUMENT["figures"]
# of the paper's text, in no table: its production gains (figure 7)
STATED = {"figure-7-frontier": {"51%", "60%", "85%"}}
_NUMBER = re.compile(r"\d[\d,]*\.\d+[%!]?|\d{1,3}(?:,\d{3})+|\d+%")


def section(name: str) -> tuple[str, str]:
    """Text and table of the section that shows this figure."""
    (whole,) = (part for part in TEXT.split("\n## ") if f"figures/{name}.png" in part)
    text, _, rest = whole.partition(f"<!-- numbers: {name} -->\n")
    return text, rest.partition("<!-- end -->")[0]


def test_the_figures_are_of_the_shipped_traces_and_profile():
    inputs = DOCUMENT["inputs"]
    for name, sha256 in inputs["traces"].items():
        assert fingerprint(resolve(name, "traces", SUFFIXES)) == sha256, f"{name} has changed"
    profile = inputs["profile"]
    found = fingerprint(resolve(profile["name"], "profiles", ("", ".json")))
    assert found == profile["sha256"], f"{profile['name']} has changed"


@pytest.mark.parametrize("name", NAMES)
def test_tables_and_pictures(name):
    assert section(name)[1] == markdown(FIGURES[name]["table"])
    assert (DOCS / "figures" / f"{name}.png").stat().st_size <= 150_000


@pytest.mark.parametrize("name", NAMES)
def test_numbers_in_the_text_are_in_the_table(name):
    text, _ = section(name)
    text = re.sub(r"`[^`]*`|\([^)]*\.(?:png|md)\)", "", text.replace(" %", "%"))
    known = {cell.strip("~≥+-–") for row in FIGURES[name]["table"] for cell in row}
    known |= STATED.get(name, set()) | {"1%"}  # about 1 %
    found = _NUMBER.findall(text)
    assert len(found) >= 6
    lost = [number for number in found if number not in known and not _threshold(number, name)]
    assert not lost, f"in no table of {name}: {', '.join(lost)}"


def _threshold(number: str, name: str) -> bool:
    return name == "figure-5-thresholds" and number in {f"0.{digit}" for digit in range(10)}


def acceptance(domain: str, drafter: str) -> list[float]:
    found = FIGURES["figure-2-acceptance"]["numbers"][domain]
    (mine,) = (one for name, one in found.items() if name.startswith(drafter))
    return [one["acceptance"] for one in mine["positions"]]


def lost(domain: str, drafter: str) -> float:
    """Share of its acceptance at k = 1 that a drafter has lost at k = 3."""
    return 1 - acceptance(domain, drafter)[2] / acceptance(domain, drafter)[0]


def shares(domain: str) -> list[dict]:
    return FIGURES["figure-5-thresholds"]["numbers"][domain]["thresholds"]


def reliability(domain: str) -> list[dict]:
    return FIGURES["figure-6-reliability"]["numbers"][domain]


def frontier(group: str, scheduler: str) -> tuple[list[float], list[float]]:
    found = FIGURES["figure-7-frontier"]["numbers"][group]["schedulers"][scheduler]["frontier"]
    return found["speed_tok_s_user"], found["throughput_tok_s_gpu"]


def load(scheduler: str, field: str) -> dict[int, float]:
    points = FIGURES["figure-8-load"]["numbers"][scheduler]
    return {point["concurrency"]: point[field] for point in points}


def ahead(group: str, one: str, other: str) -> bool:
    """Whether every frontier point of ``other`` is beaten by a point of ``one``'s polyline."""
    speed, throughput = frontier(group, one)
    for s, t in zip(*frontier(group, other), strict=True):
        if s > speed[-1]:
            return False
        right = next(i for i, value in enumerate(speed) if value >= s)
        if right == 0:
            mine = throughput[0]
        else:
            share = (s - speed[right - 1]) / (speed[right] - speed[right - 1])
            mine = throughput[right - 1] + share * (throughput[right] - throughput[right - 1])
        if mine < t:
            return False
    return True


DOMAINS = ("math", "code", "chat")
GROUPS = list(FIGURES["figure-7-frontier"]["numbers"])
CLAIMS = {
    "The sequential head holds where the parallel drafter falls": lambda: all(
        acceptance(d, "dspark")[k] > acceptance(d, "dflash")[k] for d in DOMAINS for k in (1, 2, 3)
    ),
    "from k = 1 to 3 DFlash loses two fifths on math": lambda: all(
        0.35 < lost(domain, "dflash") < 0.45 and 0.1 < lost(domain, "dspark") < 0.15
        for domain in ("math", "chat")
    ),
    "Math is easiest and chat hardest": lambda: (
        acceptance("math", "dspark")[0]
        > acceptance("code", "dspark")[0]
        > acceptance("chat", "dspark")[0]
    ),
    "On chat DFlash recovers towards the end of the block": lambda: (
        acceptance("chat", "dflash")[6] > 1.1 * acceptance("chat", "dflash")[2]
    ),
    "DSpark still declines along the block": lambda: all(
        acceptance(d, "dspark")[6] < 0.9 * acceptance(d, "dspark")[0] for d in DOMAINS
    ),
    "At k = 1 DFlash is slightly ahead here": lambda: all(
        0 < acceptance(d, "dflash")[0] - acceptance(d, "dspark")[0] < 0.05 for d in DOMAINS
    ),
    "the share rises without a break": lambda: all(
        a["share"] <= b["share"]
        for d in DOMAINS
        for a, b in zip(shares(d), shares(d)[1:], strict=False)
    ),
    "Up to 0.3 next to nothing is lost": lambda: all(
        shares(d)[3]["kept"] > 0.95 * shares(d)[0]["kept"] for d in DOMAINS
    ),
    "Chat is cut first": lambda: (
        shares("chat")[3]["verified"] < min(shares(d)[3]["verified"] for d in ("math", "code"))
    ),
    "The AUC rises along the block": lambda: all(
        a["auc_before"] < b["auc_before"]
        for d in DOMAINS
        for a, b in zip(reliability(d), reliability(d)[1:], strict=False)
    ),
    "differ by about 1 % or less at each position": lambda: (
        max(one["ece_after"] for one in reliability("chat")) < 0.0125
    ),
    "do not lessen them on the other": lambda: (
        sum(one["ece_after"] - one["ece_before"] for one in reliability("chat")) >= 0
    ),
    "the temperature ends at the edge of its grid": lambda: reliability("chat")[-1]["at_edge"],
    "is ahead of `static:1` at every speed": lambda: all(
        ahead(group, "topk", "static:1") for group in GROUPS
    ),
    "`greedy` stays below `topk`": lambda: all(ahead(group, "topk", "greedy") for group in GROUPS),
    "At low promised speeds no speculation is best": lambda: all(
        frontier(group, "none")[1][0] == max(frontier(group, s)[1][0] for s in found["schedulers"])
        for group, found in FIGURES["figure-7-frontier"]["numbers"].items()
    ),
    "`static:7` falls behind `topk` from 16 users on": lambda: all(
        (value / load("topk", "throughput_tok_s_gpu")[users] < 0.98) == (users >= 16)
        for users, value in load("static:7", "throughput_tok_s_gpu").items()
    ),
    "The decline begins at about 16 users": lambda: (
        load("topk", "verification_budget")[16] < 0.8 * load("topk", "verification_budget")[8]
    ),
    "From 128 users on no speculation gives most": lambda: all(
        (value > load("topk", "throughput_tok_s_gpu")[users]) == (users >= 128)
        for users, value in load("none", "throughput_tok_s_gpu").items()
    ),
}


@pytest.mark.parametrize("sentence", CLAIMS)
def test_claims_hold(sentence):
    assert sentence in " ".join(TEXT.split()), "the sentence has gone: take its check out too"
    assert CLAIMS[sentence](), "no longer true: rewrite the sentence"
