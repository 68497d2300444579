"""What a server does as it starts, and how it ends."""

from __future__ import annotations

import subprocess
import sys
import time

from app import workers
from tests.app.pages import open_page

_ENDING = """
from dataclasses import replace
from app import sweeps
from app.controls import defaults, points
from app.scene import usual_scene

scene = usual_scene()
long = points(scene, replace(defaults(scene), requests=100_000))
sweeps.begin(scene.demand, long)
sweeps.close()
"""


def test_the_first_visitor_finds_the_first_view_simulated():
    from app.controls import defaults, points
    from app.scene import usual_scene
    from app.sweeps import _shared
    from app.warm import warm

    warm()
    scene, (_, results) = usual_scene(), _shared()
    wanted = points(scene, defaults(scene))
    quick = [one.quick.key for one in wanted if one.quick]
    assert quick
    until = time.monotonic() + 120
    while not all(results.get(key) for key in quick):
        assert time.monotonic() < until
        time.sleep(0.05)
    signature, sweep = open_page("frontier").session_state["sweep"]
    assert signature == tuple(one.full.key for one in wanted)  # it is what the app opens on
    assert not {task.key for task in sweep.steps} & set(quick)
    sweep.cancel()


def test_a_process_at_work_ends_when_it_is_told_to():
    # 54 points of 100,000 requests: many minutes, were they finished
    subprocess.run([sys.executable, "-c", _ENDING], check=True, timeout=120, capture_output=True)


def test_the_copy_that_runs_is_the_one_that_is_compiled(tmp_path, monkeypatch):
    (tmp_path / "workbench").mkdir()
    (tmp_path / "workbench" / "__init__.py").write_text("raise SystemExit(9)")
    monkeypatch.chdir(tmp_path)  # where another copy lies, as a checkout does
    monkeypatch.setattr(workers, "is_cold", lambda _: True)
    ended, run = [], subprocess.run
    monkeypatch.setattr(
        subprocess, "run", lambda *args, **kept: ended.append(run(*args, **kept).returncode)
    )
    workers.compile_loops()
    assert ended == [0]
