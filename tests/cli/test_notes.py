"""What simulate says before it is believed."""

from __future__ import annotations

import json

import pytest

from tests.support import workbench, write_profile, write_trace


@pytest.mark.parametrize(("kind", "said"), [("mtp", True), ("dspark", False), (None, False)])
def test_drafts_of_one_drafter_priced_as_anothers_are_said(tmp_path, kind, said):
    trace = write_trace(tmp_path / "t.jsonl", [{"accepted": [1, 0, 2]}], drafter="dspark-markov")
    drafter = {} if kind is None else {"drafter": {"kind": kind}}
    profile = write_profile(tmp_path / "p.json", **drafter)
    args = ["--trace", trace, "--profile", profile, "--concurrency", 1, "--scheduler", "static:1"]
    code, out, err = workbench("simulate", *args, "--json", "-")
    assert code == 0, err
    line = "the drafts are of dspark-markov, the draft pass costs what mtp's does"
    assert (line in json.loads(out)["notes"]) == said
