"""The report as a user asks for it: from a finished sweep or from its options."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support import random_requests, workbench, write_profile, write_trace


@pytest.fixture
def toy(tmp_path):
    trace = write_trace(tmp_path / "toy.jsonl", random_requests(np.random.default_rng(0), 30, 3))
    profile = write_profile(tmp_path / "p.json", [1, 8, 64], [0.01, 0.012, 0.03])
    more = ["--cache", tmp_path / "cache", "--jobs", 1, "--concurrency", "1,4"]
    return ["--trace", trace, "--profile", profile, *more]


def refused(*args) -> str:
    code, out, err = workbench("report", *args)
    assert (code, out) == (2, ""), (code, out, err)
    assert err.count("\n") == 1 and "Traceback" not in err
    return err


def test_a_finished_sweep_and_its_options_give_the_same_bytes(toy, tmp_path):
    sweep, one, two = (tmp_path / name for name in ("s.json", "1.html", "2.html"))
    assert workbench("sweep", *toy, "--json", sweep)[0] == 0
    code, out, err = workbench("report", one, *toy)
    assert code == 0 and "10 from the cache, 0 simulated" in err
    assert "users" in out and "tok/s/GPU" in out and f"{one}: " in out
    code, again, err = workbench("report", two, "--sweep", sweep)
    assert (code, err) == (0, "") and again == out.replace("1.html", "2.html")
    assert one.read_bytes() == two.read_bytes()
    assert one.read_text().startswith("<!doctype html>")


def test_the_command_in_the_page_repeats_it(toy, tmp_path):
    page = tmp_path / "p.html"
    assert workbench("report", page, *toy, "--seed", 3, "--sla", "50")[0] == 0
    (line,) = (
        line for line in page.read_text().splitlines() if line.startswith("workbench report")
    )
    words = line.removesuffix("</pre>").split()
    assert words[:3] == ["workbench", "report", "report.html"]
    again = tmp_path / "again.html"
    code, _, err = workbench("report", again, *words[3:], *toy[4:8])
    assert code == 0 and "0 simulated" in err
    assert again.read_bytes() == page.read_bytes()


def test_a_scheduler_in_a_file_is_audited_only_if_the_user_names_it(toy, tmp_path):
    rules, ran = tmp_path / "mine.py", tmp_path / "ran"
    rules.write_text(
        "from workbench.schedulers import Scheduler\n"
        f"open({str(ran)!r}, 'w').close()\n"
        "class Mine(Scheduler):\n"
        "    name, reads = 'mine', 'nothing'\n"
        "    def verify_lengths(self, view, survival):\n"
        "        return view.context * 0 + 1\n"
    )
    more = ["--scheduler", f"{rules}:Mine", "--scheduler", "none"]
    sweep, page = tmp_path / "s.json", tmp_path / "p.html"
    assert workbench("sweep", *toy, *more, "--json", sweep)[0] == 0
    assert workbench("report", page, *toy, *more)[0] == 0
    assert page.read_text().count("enumerated cases") == 3  # none, static:1 and it
    ran.unlink()
    assert workbench("report", page, "--sweep", sweep)[0] == 0
    assert not ran.exists()
    assert page.read_text().count("enumerated cases") == 2
    assert "not audited: name its file" in page.read_text()


def test_refusals(toy, tmp_path):
    sweep, page = tmp_path / "s.json", tmp_path / "p.html"
    assert workbench("sweep", *toy, "--json", sweep)[0] == 0
    assert "end it in .html" in refused(sweep, "--sweep", sweep)
    assert "--trace" in refused(page)
    assert "--seed: is settled" in refused(page, "--sweep", sweep, "--seed", 1)
    assert "--stagger" in refused(page, "--sweep", sweep, "--no-stagger")
    assert "no such file" in refused(page, "--sweep", tmp_path / "none.json")
    assert "folder does not exist" in refused(tmp_path / "no" / "p.html", "--sweep", sweep)
    assert "is read too" in refused(_renamed(sweep), "--sweep", _renamed(sweep))
    assert not page.exists()
    assert "OUT.html" in refused()


def _renamed(sweep):
    path = sweep.with_suffix(".html")
    path.write_bytes(sweep.read_bytes())
    return path


def test_an_empty_name_is_no_sweep(tmp_path):
    assert "name a file that `workbench sweep --json` has written" in refused(
        tmp_path / "p.html", "--sweep", ""
    )
