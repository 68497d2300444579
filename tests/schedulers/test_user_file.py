"""Users' own schedulers from Python files."""

import numpy as np
import pytest

from tests.support import workbench
from workbench.errors import InputError
from workbench.schedulers import View, checked, checked_draft_length, create

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


FAULTY = """
import sys
from workbench.schedulers import Scheduler

class Mine(Scheduler):
    reads = "prefix"
    {declared}
    def draft_length(self, view):
        return {draft_length}
    def verify_lengths(self, view, survival):
        return {verify_lengths}
"""


def faulty(**parts):
    parts = {"declared": "pass", "draft_length": "1", "verify_lengths": "[1]"} | parts
    return FAULTY.format(**parts)


@pytest.mark.parametrize(
    "declared",
    [
        "lag = -1",
        "lag = 1025",
        "lag = 2.0",
        "lag = True",
        "lag = '2'",
        "history = -3",
        "history = 10**9",
        "history = None",
        "uniform = -1",
        "uniform = 8",
        "uniform = 1.5",
        "uniform = True",
        "new_survival = -0.1",
        "new_survival = 1.1",
        "new_survival = float('nan')",
        "new_survival = 'x'",
        "new_survival = None",
        "new_survival = True",
        "synchronous = 1",
        "drafter = None",
        "needs_confidence = 'no'",
        "exact_replay = 0",
        "name = 7",
        "reads = ['prefix']",
        "reads = None",
    ],
)
def test_what_cannot_be_declared_is_refused_when_loaded(file, declared):
    path = file(faulty(declared=declared))
    with pytest.raises(InputError) as caught:
        create(f"{path}:Mine", 7)
    message = str(caught.value)
    assert message.startswith(f"{path}: Mine.{declared.split()[0]} is ")
    assert "it has to be" in message


def test_what_may_be_declared(file):
    good = "lag = 1024; history = 0; uniform = 7; new_survival = 0; drafter = False; name = 'mine'"
    made = create(f"{file(faulty(declared=good))}:Mine", 7)
    assert (made.lag, made.uniform, made.name) == (1024, 7, "mine")
    assert made.source_file == str(file(GOOD))


LEAVING = {
    "exit 0": "sys.exit(0)",
    "exit 5": "sys.exit(5)",
    "base": "(_ for _ in ()).throw(BaseException('gone'))",
    "generator": "(_ for _ in ()).throw(GeneratorExit)",
    "memory": "(_ for _ in ()).throw(MemoryError)",
    "ordinary": "1 / 0",
    "deep": "(f := lambda n: f(n + 1))(0)",
}


def ask(scheduler):
    view = View(
        block_size=7,
        request=np.arange(1),
        context=np.ones(1),
        prefill_tokens=0,
        step_seconds=lambda n: np.ones(n + 1),
        past=None,
        draft_length=7,
    )
    return checked_draft_length(scheduler, view), checked(scheduler, view, np.ones((1, 7)))


@pytest.mark.parametrize("method", ["draft_length", "verify_lengths"])
@pytest.mark.parametrize("way", LEAVING)
def test_a_scheduler_that_leaves_names_its_file_and_line(file, method, way):
    path = file(faulty(**{method: LEAVING[way]}))
    with pytest.raises(InputError) as caught:
        ask(create(f"{path}:Mine", 7))
    line = 9 if method == "draft_length" else 11
    assert str(caught.value).startswith(f"{path}: line {line}: scheduler Mine: {method} raised ")
    assert "\n" not in str(caught.value)


def test_only_ctrl_c_passes(file):
    path = file(faulty(verify_lengths="(_ for _ in ()).throw(KeyboardInterrupt)"))
    with pytest.raises(KeyboardInterrupt):
        ask(create(f"{path}:Mine", 7))


@pytest.mark.parametrize(
    ("method", "answer", "says"),
    [
        ("draft_length", "-1", "draft_length is -1"),
        ("draft_length", "'x' * 10**6", "draft_length is 'xxx"),
        ("verify_lengths", "[[1, 2], [3]]", "the answer of verify_lengths is no array"),
        ("verify_lengths", "[8]", "is 8 in row 0"),
        ("verify_lengths", "None", "has shape []"),
        ("verify_lengths", "[2**70]", "holds object"),
    ],
)
def test_a_wrong_answer_names_the_file(file, method, answer, says):
    path = file(faulty(**{method: answer}))
    with pytest.raises(InputError) as caught:
        ask(create(f"{path}:Mine", 7))
    assert str(caught.value).startswith(f"{path}: scheduler Mine: ")
    assert says in str(caught.value) and len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "body",
    [
        "def __init__(self): sys.exit(0)",
        "name = property(lambda self: 1 / 0)",
        "lag = property(lambda self: sys.exit(3))",
        "def __setattr__(self, name, value): raise TypeError(name)",
    ],
)
def test_a_class_that_cannot_be_made(file, body):
    path = file(faulty(declared=body))
    with pytest.raises(InputError) as caught:
        create(f"{path}:Mine", 7)
    assert str(caught.value).startswith(f"{path}: line 7: Mine could not be made: ")


@pytest.mark.parametrize("name", ["folder.py", "x" * 300 + ".py"])
def test_what_is_no_python_file(tmp_path, name):
    (tmp_path / "folder.py").mkdir()
    with pytest.raises(InputError, match=r"is a folder|cannot be read \(File name too long\)"):
        create(f"{tmp_path}/{name}:Mine", 7)


@pytest.mark.parametrize("answer", ["sys.exit(0)", "sys.exit(5)"])
def test_leaving_ends_a_command_with_one_line(file, answer):
    path = file(faulty(verify_lengths=answer))
    for command in (["audit"], ["simulate", "--trace", "chat", "--concurrency", "2"]):
        code, out, err = workbench(*command, "--scheduler", f"{path}:Mine")
        assert (code, out) == (2, "") and err.count("\n") == 1
        assert err.startswith(f"workbench: {path}: line 11: scheduler Mine: verify_lengths raised")


def test_attributes_that_leave_when_copied_cannot_be_audited(file):
    for method in ("__reduce__(self)", "__setstate__(self, state)"):
        body = f"def {method}: sys.exit(0)"
        text = faulty(declared="def __init__(self): self.odd = Odd()")
        text = text.replace("class Mine", f"class Odd:\n    x = 1\n    {body}\n\nclass Mine")
        text = text.replace("x = 1", "def __init__(self): self.x = 1")
        path = file(text)
        code, _, err = workbench("audit", "--scheduler", f"{path}:Mine")
        assert code == 2 and err.startswith(f"workbench: {path}: scheduler Mine cannot be audited")


@pytest.mark.parametrize("lag", ["1025", "99999999", "9" * 5000])
def test_topk_looks_back_no_further_than_the_past_is_kept(lag):
    code, out, err = workbench("audit", "--scheduler", f"topk:{lag}")
    assert (code, out) == (2, "") and err.count("\n") == 1
    assert create("topk:1024", 7).lag == 1024
