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


def test_a_profile_without_drafts_or_of_an_interrupted_probe_is_said(tmp_path):
    trace = write_trace(tmp_path / "t.jsonl", [{"accepted": [1, 0, 2]}])
    common = ["--trace", trace, "--concurrency", 1, "--json", "-"]

    def notes_of(scheduler, **fields):
        profile = write_profile(tmp_path / "p.json", drafter={"kind": "none"}, **fields)
        code, out, err = workbench("simulate", *common, "--profile", profile, *scheduler)
        assert code == 0, err
        return " ".join(json.loads(out)["notes"])

    static, none = (["--scheduler", name] for name in ("static:1", "none"))
    free, cut = "whatever drafts comes out too well", "measurement was interrupted"
    assert free in notes_of(static) and free not in notes_of(none)
    assert "draft pass costs" not in notes_of(static)
    assert cut in notes_of(none, measured={"complete": False})
    assert cut not in notes_of(none, measured={"complete": True})
    profile = write_profile(tmp_path / "q.json", measured={"complete": False})
    code, out, _ = workbench("profile", "info", profile)
    assert code == 0 and "interrupted: parts may be missing" in out
