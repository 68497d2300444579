"""The guide: its example runs as printed, and its table names every scheduler."""

import re
from pathlib import Path

from tests.support import write_trace
from workbench.cli.main import cli, run
from workbench.schedulers import create
from workbench.schedulers.audit import audit
from workbench.schedulers.registry import forms

GUIDE = (Path(__file__).parents[2] / "docs" / "schedulers.md").read_text(encoding="utf-8")


def example(folder: Path) -> Path:
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    path = folder / "cautious.py"
    path.write_text(code)
    return path


def test_the_example_is_lossless(tmp_path):
    verdict = audit(f"{example(tmp_path)}:Cautious")
    assert verdict.verdict == "lossless" and verdict.found == "prefix" and verdict.agrees


def test_the_example_simulates(tmp_path, capfd):
    requests = [{"accepted": [2, 1, 0, 3, 0, 1], "confidence": [[0.9, 0.5, 0.4]] * 6}] * 4
    trace = write_trace(tmp_path / "chat.jsonl", requests)
    spec = f"{example(tmp_path)}:Cautious:floor=0.2,busy=32"
    arguments = ["simulate", "--trace", str(trace), "--scheduler", spec, "--concurrency", "2"]
    assert run(cli, "workbench", arguments) == 0
    assert "Cautious" in capfd.readouterr().out


def test_the_table_shows_every_scheduler_as_it_declares_itself():
    rows = dict(
        (cells[1].strip("` "), cells)
        for line in GUIDE.splitlines()
        if len(cells := line.split("|")) == 7 and cells[1].startswith(" `")
    )
    assert list(rows) == forms()
    for form in forms()[:-1]:
        made = create(form.replace(":k", ":2").replace(":h", ":0.5").partition("[")[0], 7)
        _, _, _, reads, replay, pipeline, _ = (cell.strip() for cell in rows[form])
        assert reads == made.reads
        assert replay == ("exact" if made.exact_replay else "approximate")
        assert pipeline == ("synchronous" if made.synchronous else "overlapped")
