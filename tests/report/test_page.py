"""The page as its reader's browser sees it: sections, tables, nothing fetched, nothing executed."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import msgspec
import numpy as np
import pytest

from tests.support import random_requests, workbench, write_profile, write_trace
from workbench.errors import InputError
from workbench.report.page import render
from workbench.report.study import read_study, study_of

VOID = {"meta", "br", "hr", "img", "input", "link"}
FETCHES = {"src", "srcset", "href", "xlink:href", "action", "data", "poster"}


class Page(HTMLParser):
    """What is in a page: tags that do not close fail."""

    def __init__(self, text: str):
        super().__init__()
        self.tags, self.ids, self.links, self.open = [], [], [], []
        self.headings, self.tables, self.text = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        named = dict(attrs)
        self.ids += [named["id"]] if "id" in named else []
        self.links += [named[name] for name in FETCHES & named.keys()]
        assert not any(name.startswith("on") for name in named)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append({"caption": "", "rows": []})
        elif tag == "tr":
            self.tables[-1]["rows"].append([])
        elif tag in ("th", "td"):
            self.tables[-1]["rows"][-1].append("")

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open:
            return
        if self.open[-1] in ("h1", "h2", "h3", "h4"):
            self.headings.append(data)
        if self.open[-1] == "caption":
            self.tables[-1]["caption"] += data
        elif self.open[-1] in ("th", "td"):
            self.tables[-1]["rows"][-1][-1] += data
        self.text.append(data)

    def table(self, words: str) -> list[list[str]]:
        (found,) = (table["rows"] for table in self.tables if words in table["caption"])
        return found


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("swept")
    requests = random_requests(np.random.default_rng(0), 30, 3)
    trace = write_trace(folder / "toy.jsonl", requests, drafter="toy-drafter")
    profile = write_profile(
        folder / "p.json",
        [1, 8, 64],
        [0.01, 0.012, 0.03],
        hardware={"gpu": "Toy GPU"},
        measured={"date": "2026-01-02", "fit_error": {"median": 0.02, "p95": 0.07, "cells": 9}},
    )
    args = ["--trace", trace, "--profile", profile, "--no-cache", "--jobs", 1]
    args += ["--concurrency", "1,4", "--sla", "100,1000000", "--seeds", 2, "--scheduler", "topk"]
    args += ["--scheduler", "none", "--scheduler", "global", "--scheduler", "oracle"]
    code, out, err = workbench("sweep", *args, "--json", "-")
    assert code == 0, err
    return json.loads(out)


@pytest.fixture(scope="module")
def page(swept):
    return Page(render(study_of(swept)))


def test_sections(page):
    assert "html" in page.tags and page.tags.count("svg") == 2
    for heading in (
        "Question",
        "Recommendation",
        "Frontier",
        "SLA",
        "Inputs",
        "Losslessness",
        "Caveats",
        "Repeat",
    ):
        assert page.headings.count(heading) == 1, heading
    assert len(page.ids) == len(set(page.ids))
    assert page.tags.count("table") == page.tags.count("caption") == 5


def test_nothing_is_fetched_or_run(swept, page):
    assert "script" not in page.tags and "iframe" not in page.tags
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links)
    text = render(study_of(swept))
    assert "://" not in text and "@import" not in text
    assert set(re.findall(r"url\((.)", text)) <= {"#"}


def test_operating_points_are_those_of_the_sweep(swept, page):
    (group,) = swept["groups"]
    rows = page.table("Operating points")
    names = [one["scheduler"] for one in group["schedulers"]]
    titles = [row[0].partition(" (")[0] for row in rows[1:] if len(row) == 1]
    assert titles == names
    figures = [row for row in rows[1:] if len(row) > 1]
    points = [point for one in group["schedulers"] for point in one["points"]]
    for row, point in zip(figures, points, strict=True):
        assert float(row[2].split()[0].replace(",", "")) == round(point["throughput"]["mean"])


def test_the_sla_table_says_what_is_not_reachable(page):
    rows = page.table("promised speed")
    place = rows.index(["1e+06 tok/s/user"])
    assert all(row[1] == "not reachable" for row in rows[place + 1 :])


def test_inputs_have_fingerprints(swept, page):
    rows = page.table("fingerprints")
    config = next(iter(swept["config"]["groups"].values()))
    assert rows[1][0] == "trace" and rows[1][-1] == config["traces"][0]["sha256"]
    assert "toy-drafter" in rows[1][2] and "30 requests" in rows[1][2]
    assert "temperature 1" in rows[1][2]
    assert rows[2][0] == "profile" and rows[2][-1] == config["profile_file"]["sha256"]
    assert "Toy GPU" in rows[2][2] and "2026-01-02" in rows[2][2]


def test_losslessness_is_audited(page):
    rows = {row[0]: row[1:] for row in page.table("distribution")[1:]}
    assert rows["none"][:2] == [
        "lossless",
        "output equal to the target's in all of 19 enumerated cases",
    ]
    assert rows["topk"][0] == "lossless" and "all of" in rows["topk"][1]
    assert (
        rows["global (biased)"][0] == "changes the output"
        and "refuted" in rows["global (biased)"][1]
    )
    assert "cannot be deployed" in rows["oracle (biased, hindsight)"][1]


def test_caveats_and_command(swept, page):
    text = " ".join(page.text)
    assert "on 9 held-out rounds: median 2.0%, 95th percentile 7.0%" in text
    assert "not a forecast" not in text  # the profile names no target
    assert swept["config"]["command"] in text
    assert "workbench report report.html --trace" in text


def test_the_same_study_is_the_same_bytes(swept):
    assert render(study_of(swept)) == render(study_of(json.loads(json.dumps(swept))))


def test_what_was_interrupted_is_a_page_that_says_so(swept):
    study = json.loads(json.dumps(swept)) | {"partial": True}
    runs = study["groups"][0]["runs"]
    # nothing of the baseline, and only one load of the first scheduler
    first = runs[0]["scheduler"]
    study["groups"][0]["runs"] = [
        run
        for run in runs
        if run["scheduler"] != "static:1" and (run["scheduler"] != first or run["concurrency"] == 1)
    ]
    page = Page(render(study_of(study)))
    text = " ".join(page.text)
    assert "what follows is partial" in text
    assert "under a closed loop of 1, 4 users" in text
    assert "what follows is partial" not in " ".join(Page(render(study_of(swept))).text)


def test_names_are_text(swept):
    bad = "<script>alert(1)</script> \"&' $x^2$"
    text = json.dumps(swept).replace("toy-drafter", json.dumps(bad)[1:-1])
    text = text.replace("global", json.dumps(bad)[1:-1])
    study = json.loads(text)
    (name,) = study["config"]["groups"]
    study["config"]["groups"] = {bad: study["config"]["groups"][name]}
    study["groups"][0]["name"] = bad
    config = study["config"]["groups"][bad]
    config["schedulers"] = [s for s in config["schedulers"] if s != bad]
    page = Page(render(study_of(study)))
    assert "script" not in page.tags
    assert bad in page.headings
    assert any(bad in text for text in page.text)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda d: d.update(format="workbench.result/1"), "format"),
        (lambda d: d["config"].pop("command"), "config"),
        (lambda d: d["groups"][0]["runs"][0].pop("throughput_tok_s_gpu"), "runs[0]"),
        (lambda d: d["groups"][0]["runs"][1].update(seed="x"), "seed"),
        (lambda d: d["groups"][0]["runs"][1].pop("concurrency"), "runs[1]"),
        (lambda d: d["groups"][0].update(name="other"), "groups[0]"),
        (lambda d: d.update(groups=[]), "groups"),
        (lambda d: d["groups"][0].update(runs=[]), "groups"),
    ],
)
def test_a_file_that_is_no_sweep_is_refused(swept, tmp_path, change, place):
    document = msgspec.json.decode(msgspec.json.encode(swept))
    change(document)
    path = tmp_path / "bad.json"
    path.write_bytes(msgspec.json.encode(document))
    with pytest.raises(InputError) as error:
        read_study(path)
    assert str(path) in str(error.value) and place in str(error.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"format":1}'])
def test_what_is_no_json_object_is_refused(tmp_path, text):
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"bad\.json"):
        read_study(path)
