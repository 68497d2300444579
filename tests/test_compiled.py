"""Compiled functions: kept machine code may not outlive a change of what they call."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import workbench
from workbench.compiled import SOURCES, why_slow

PACKAGE = Path(workbench.__file__).parent


def test_every_file_with_compiled_functions_is_watched():
    users = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if "import njit" in path.read_text() or "@njit" in path.read_text()
    }
    assert users <= set(SOURCES)
    assert all((PACKAGE / name).is_file() for name in SOURCES)


@pytest.mark.skipif(why_slow() is not None, reason="nothing is compiled")
def test_a_changed_callee_is_compiled_again(tmp_path):
    def run():
        (tmp_path / "caller.py").touch(exist_ok=True)
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": str(tmp_path)}, check=True,
        )  # fmt: skip
        return done.stdout.strip()

    (tmp_path / "callee.py").write_text(
        "from workbench.compiled import njit\n@njit\ndef f():\n    return 1\n"
    )
    (tmp_path / "caller.py").write_text(
        "from workbench.compiled import njit\nfrom callee import f\n"
        "@njit\ndef g():\n    return f()\n"
    )
    assert run() == "1"
    (tmp_path / "callee.py").write_text(
        "from workbench.compiled import njit\n@njit\ndef f():\n    return 22\n"
    )
    assert run() == "22"


PROGRAM = """
from pathlib import Path
import workbench.compiled as compiled
here = Path("callee.py").resolve()
compiled.SOURCES = (here, here.with_name("caller.py"))
from caller import g
print(g())
"""


def test_without_numba_the_same_code_runs_and_says_so():
    program = (
        "import sys; sys.modules['numba'] = None\n"
        "from workbench.compiled import why_slow\n"
        "from workbench.schedulers.admission import Workspace\n"
        "import numpy as np\n"
        "print(why_slow()); print(Workspace().ordered(np.array([[0.5, 0.2], [0.9, 0.0]]), 2)[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    words, count = done.stdout.splitlines()
    assert "numba cannot be imported" in words and count == "3"
