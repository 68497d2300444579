"""The Tune page: a study that is started, watched, ended, and says what the tuner found."""

from __future__ import annotations

import shlex

import pytest

from tests.app.pages import charts, errors, open_page
from tests.support import workbench

pytest.importorskip("optuna", reason="Optuna is not installed")


def _start(trials: int, **fields):
    page = open_page("tune")
    page.number_input("tune users").set_value(4)
    page.number_input("tune trials").set_value(trials)
    for name, value in fields.items():
        page.number_input(name.replace("_", " ")).set_value(value)
    page.run()
    start = next(button for button in page.button if button.label == "Start")
    start.click().run()
    return page, page.session_state["study"]


def test_a_study_is_found_again_by_its_command():
    page, study = _start(8)
    assert study.wait(90) and not study.error
    page.run()
    assert not errors(page)
    assert charts(page) == 1
    best = study.pareto()
    assert page.dataframe[0].value["trial"].tolist() == [one.number for one in best]
    words = shlex.split(page.code[0].value)
    assert words[:2] == ["workbench", "simulate"]
    code, out, err = workbench(*words[1:], "--json", "-")
    assert code == 0, err
    assert f'"throughput_tok_s_gpu": {best[0].values[0]!r}'[:45] in out


def test_a_study_can_be_ended():
    _, study = _start(1000)
    study.cancel()
    assert study.wait(60)
    assert study.done < 1000 and not study.error


def test_limits_that_nothing_keeps():
    page, study = _start(5, at_least=100_000)
    assert study.wait(90)
    page.run()
    assert not errors(page)
    assert "keeps all limits" in page.warning[0].value
