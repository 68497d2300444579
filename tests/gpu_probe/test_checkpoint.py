import json

import pytest

from gpu_probe.checkpoint import Checkpoint
from gpu_probe.errors import ProbeError

PLAN, DRAFTERS = ["a plan"], {"mtp": [7, {}]}


def made(tmp_path, plan=PLAN, drafters=DRAFTERS, names=("x", "y")):
    return Checkpoint([tmp_path / f"{name}.json" for name in names], plan, drafters, True)


@pytest.fixture
def saved(tmp_path):
    one = made(tmp_path)
    one.save({"verify": {"seconds": [1.0, 2.5]}}, {"power_w": 80.0})
    return one.path


def test_what_was_saved_is_loaded_by_the_same_plan(saved, tmp_path):
    assert made(tmp_path).load() == ({"verify": {"seconds": [1.0, 2.5]}}, {"power_w": 80.0})
    assert made(tmp_path, names=("z", "x")).path == saved
    assert made(tmp_path, names=("z",)).load() is None


def test_another_plan_or_another_kind_of_the_drafter_is_refused(saved, tmp_path):
    for other in ({"plan": ["other"]}, {"drafters": {"mtp": [3, {}]}}):
        with pytest.raises(ProbeError, match="other points or on another machine"):
            made(tmp_path, **other).load()


def test_drafters_that_a_later_run_lacks_are_remembered(saved, tmp_path):
    later = made(tmp_path, drafters={"none": [0, {}]})
    parts, before = later.load()
    later.save(parts, before)
    with pytest.raises(ProbeError, match="other points"):
        made(tmp_path, drafters={"mtp": [3, {}]}).load()


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "3", "{}", "[" * 100_000, '{"parts": {}, "before": {}}']
)
def test_what_is_no_checkpoint_is_called_damaged(saved, tmp_path, text):
    saved.write_text(text)
    with pytest.raises(ProbeError, match="is damaged"):
        made(tmp_path).load()


def test_a_changed_value_is_noticed(saved, tmp_path):
    document = json.loads(saved.read_text())
    document["parts"]["verify"]["seconds"][0] = 1.5
    saved.write_text(json.dumps(document))
    with pytest.raises(ProbeError, match="is damaged"):
        made(tmp_path).load()
    saved.unlink()
    saved.mkdir()
    with pytest.raises(ProbeError, match="cannot be read"):
        made(tmp_path).load()
