"""Users' own schedulers from Python files."""

import pytest

from workbench.errors import InputError
from workbench.schedulers import create

GOOD = """
import numpy as np
from workbench.schedulers import Scheduler

class Mine(Scheduler):
    reads = "nothing"
    def __init__(self, k=1, label="x"):
        self.k, self.label = k, label
    def verify_lengths(self, view, survival):
        return np.full(view.requests, self.k)

class Other(Scheduler):
    reads = "all"

class Plain:
    pass
"""


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "rules.py"
        path.write_text(text)
        return path

    return write


def test_a_class_with_arguments(file):
    path = file(GOOD)
    made = create(f"{path}:Mine:k=3,label=busy", 7)
    assert (made.name, made.k, made.label) == ("Mine:k=3,label=busy", 3, "busy")
    assert create(f"{path}:Mine", 7).k == 1


def test_an_edited_file_is_read_again(file):
    path = file(GOOD)
    assert create(f"{path}:Mine", 7).k == 1
    path.write_text(GOOD.replace("k=1,", "k=22,"))
    assert create(f"{path}:Mine", 7).k == 22


@pytest.mark.parametrize(
    ("text", "tail", "words"),
    [
        (GOOD, ":Missing", ["no class 'Missing'", "Mine, Other"]),
        (GOOD, "", ["names no class", "Mine, Other"]),
        (GOOD, ":Plain", ["does not subclass", "Mine"]),
        (GOOD, ":np", ["no class 'np'"]),
        (GOOD, ":Scheduler", ["no class 'Scheduler'"]),
        (GOOD, ":Other", ["reads is 'all'", "prefix"]),
        (GOOD, ":Mine:depth=3", ["could not be made", "depth"]),
        (GOOD, ":Mine:3", ["'3' is no argument", "key=value"]),
        ("x = 1\nimport nothing_like_this\n", ":Mine", ["line 2", "nothing_like_this"]),
        ("def broken(:\n", ":Mine", ["line 1", "SyntaxError"]),
        ("raise SystemExit(3)\n", ":Mine", ["cannot be imported", "SystemExit"]),
    ],
)
def test_faults_name_the_file_and_the_mend(file, text, tail, words):
    path = file(text)
    with pytest.raises(InputError) as caught:
        create(f"{path}{tail}", 7)
    message = str(caught.value)
    assert str(path) in message and "\n" not in message
    assert all(word in message for word in words), message


def test_a_missing_file(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        create(f"{tmp_path}/absent.py:Mine", 7)
