"""Every page, opened by its link, with shipped data, other choices and bad ones."""

from __future__ import annotations

import json

import pytest

from tests.app.pages import QUICK, charts, errors, open_page, settle


def test_the_entry_point_opens_the_frontier():
    from streamlit.testing.v1 import AppTest

    from workbench.files import shipped

    frame = shipped("traces").parent / "app" / "frame.py"
    test = AppTest.from_file(str(frame), default_timeout=120).run()
    assert not errors(test)
    assert test.title[0].value == "Frontier"


@pytest.mark.parametrize("page", ["frontier", "load", "export"])
def test_pages_of_a_sweep(page):
    test = settle(open_page(page, **QUICK))
    assert not errors(test)
    assert charts(test) >= (0 if page == "export" else 1)


@pytest.mark.parametrize(
    ("page", "least"), [("lab", 4), ("profiles", 5), ("traces", 4), ("calibration", 2)]
)
def test_pages_that_are_computed_at_once(page, least):
    test = open_page(page)
    assert not errors(test)
    assert charts(test) >= least


def test_the_sla_table_is_what_the_frontier_package_says():
    from workbench.frontier import group_frontier

    test = settle(open_page("frontier", sla="200", baseline="none", **QUICK))
    runs = test.session_state["sweep"][1].runs()
    assert len(runs) == 6 and not any(run["quick"] for run in runs)
    rows = group_frontier("", runs, "none", [200.0]).sla[200.0]
    shown = test.dataframe[0].value.set_index("scheduler")
    for row in rows:
        figure = row.throughput
        text = shown.loc[row.scheduler, "tok/s/GPU at 200 tok/s/user"]
        assert text.removeprefix("≥ ") == ("–" if figure is None else f"{figure.mean:,.0f}")
    assert shown.loc["none", "against none"] == "baseline"


def test_a_point_is_the_same_as_from_the_command_line():
    from tests.support import simulate

    test = settle(open_page("frontier", **QUICK))
    mine = {
        (run["scheduler"], run["concurrency"]): run["throughput_tok_s_gpu"]
        for run in test.session_state["sweep"][1].runs()
    }
    command = simulate(
        "--trace", "chat", "--scheduler", "topk", "--scheduler", "static:1",
        "--concurrency", "1,8", "--requests", "40", "--stagger",
    )  # fmt: skip
    for run in command:
        assert mine[run["scheduler"], run["concurrency"]] == run["throughput_tok_s_gpu"]


def test_a_sweep_that_changes_keeps_what_it_has():
    test = settle(open_page("frontier", **QUICK))
    first = test.session_state["sweep"][1]
    test.multiselect("scheduler").set_value([*QUICK["scheduler"], "static:2"])
    test = settle(test.run())
    second = test.session_state["sweep"][1]
    assert second is not first
    assert len(second.steps) == 2  # the two new points alone
    assert len(second.runs()) == 8


def test_open_loop():
    quick = {**QUICK, "load": "requests/s", "rate": ["2", "8"]}
    test = settle(open_page("frontier", **quick))
    assert not errors(test)
    assert {run["rate"] for run in test.session_state["sweep"][1].runs()} == {2.0, 8.0}


def test_traces_are_mixed():
    test = settle(open_page("load", trace=["chat", "code"], **QUICK))
    assert not errors(test)
    weights = test.session_state["sweep"][1].demand.weights
    assert weights.tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"scheduler": ["static:9"]}, "Schedulers: static:9: "),
        ({"scheduler": ["nonsense"]}, "Schedulers: nonsense: no scheduler"),
        ({"scheduler": ["evil.py:Mine"]}, "Schedulers: evil.py:Mine: "),
        ({"concurrency": ["0"]}, "no whole number"),
        ({"concurrency": ["1e9"]}, "no whole number"),
        ({"baseline": "static:5"}, "not compared"),
        ({"baseline": "nonsense"}, "Baseline: nonsense: no scheduler"),
        ({"graphs": "twelve"}, "Captured graph sizes: 'twelve' is neither a size"),
    ],
)
def test_bad_choices_are_one_line(query, said):
    test = open_page("frontier", **{**QUICK, **query})
    (line,) = errors(test)
    assert said in line.replace("\\", "")
    assert "Traceback" not in line


def test_code_named_in_a_link_is_not_run(tmp_path):
    file = tmp_path / "evil.py"
    file.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Mine: pass\n")
    for page, field in (("frontier", "scheduler"), ("lab", "lab scheduler")):
        test = open_page(page, **{field: [f"{file}:Mine"]})
        assert errors(test)
    assert not (tmp_path / "ran").exists()


def test_a_link_to_an_upload_that_is_gone_says_so():
    test = open_page("traces", trace=["mine.jsonl · 0123456789ab"])
    assert "upload it again" in test.warning[0].value.replace("\\", "")
    assert charts(test) >= 4  # with the default


def test_export_gives_a_command_and_a_table():
    test = settle(open_page("export", engine="SGLang", **QUICK))
    spec = next(box for box in test.selectbox if box.label == "Scheduler")
    spec.set_value("topk").run()
    assert not errors(test)
    command, table = test.code[0].value, json.loads(test.code[1].value)
    assert "--speculative-dspark-sps-table-path sps_table.json" in command
    assert table["bias_seconds"] > 0


def test_drilling_into_a_point_draws_its_step():
    test = settle(open_page("frontier", point="topk@8", **QUICK))
    assert not errors(test)
    assert charts(test) == 2
    run = next(
        run
        for run in test.session_state["sweep"][1].runs()
        if run["scheduler"] == "topk" and run["concurrency"] == 8
    )
    assert test.metric[0].value == f"{run['throughput_tok_s_gpu']:,.0f}"
    batch = round(8 * run["verification_budget"])
    assert any(f"8 requests, {batch:,} batch tokens" in one.value for one in test.caption)
    next(one for one in test.button if one.label == "Close").click().run()
    assert charts(test) == 1 and "point" not in test.query_params


def test_calibration_is_what_the_command_says(tmp_path):
    from tests.support import workbench

    out = tmp_path / "c.json"
    assert workbench("calibrate", "--trace", "chat", "--out", out)[0] == 0
    said = json.loads(out.read_text())
    shown = open_page("calibration").dataframe[0].value
    assert shown["temperature"].tolist() == [round(t, 3) for t in said["temperatures"]]
    after = [round(100 * error, 2) for error in said["ece_after"]]
    assert shown["ECE after (%)"].tolist() == after
