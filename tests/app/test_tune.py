"""The Tune page: a study that is started, watched, ended, and says what the tuner found."""

from __future__ import annotations

import json
import shlex

import pytest

from app import tuning
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


def test_shorter_blocks_are_searched_and_named():
    page, study = _start(24)
    assert study.wait(120) and not study.error
    page.run()
    assert not errors(page)
    shorter = [one for one in study.found() if one.chosen.block_size]
    assert shorter and set(page.dataframe[0].value["drafts a block"]) <= set("1234567") | {"all"}
    words = shlex.split(tuning.command(study.problem, shorter[0], study.traces, study.profile))
    code, out, err = workbench(*words[1:], "--json", "-")
    assert code == 0, err
    assert json.loads(out)["runs"][0]["throughput_tok_s_gpu"] == shorter[0].values[0]


def test_traces_whose_confidences_see_the_token_have_fewer_choices():
    page = open_page("tune", trace="chat-dflash")
    page.number_input("tune users").set_value(4)
    page.number_input("tune trials").set_value(3)
    page.run()
    next(button for button in page.button if button.label == "Start").click().run()
    study = page.session_state["study"]
    assert study.wait(60) and not study.error
    assert study.problem.space.families == ("none", "static") and not study.problem.space.blocks
