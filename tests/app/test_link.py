"""Links: every choice of every page stands in the URL, and a URL brings every choice back."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from tests.app.pages import QUICK, errors, open_page, settle

OTHER = object()  # another than the default, whichever wins
SIDEBAR = [
    ("selectbox", "profile", "h200-qwen3-4b-bf16-dspark7"),
    ("multiselect", "trace", ["chat", "code"]),
    ("text_input", "graphs", "1,2,4,8-256:8"),
]
SWEEP = [
    ("multiselect", "scheduler", ["none", "static:5"]),
    ("button_group", "load", "requests/s"),
    ("text_input", "baseline", "static:5"),
    ("number_input", "running", 96),
    ("number_input", "budget", 4096),
    ("number_input", "requests", 30),
    ("number_input", "seed", 3),
]
SWEEPS = ("frontier", "load", "export")
PAGES = {
    "frontier": [*SWEEP, ("toggle", "log", True), ("slider", "sla", 7), ("slider", "ttft", 1990)],
    "load": [*SWEEP, ("button_group", "figure", "TTFT p99")],
    "export": [
        *SWEEP,
        ("button_group", "engine", "SGLang"),
        ("select_slider", "my load", "rate 32/s"),
        ("selectbox", "export", OTHER),
    ],
    "lab": [
        ("multiselect", "lab scheduler", ["topk:lag=1", "none"]),
        ("select_slider", "R", 64),
        ("number_input", "round", 9),
        ("number_input", "chunk", 128),
        ("number_input", "draw", 4),
        ("slider", "K", 5),
        ("button_group", "cells of", "none"),
    ],
    "profiles": [("button_group", "stairs as", "ms"), ("select_slider", "stairs to", 128)],
    "traces": [
        ("button_group", "look into", "code"),
        ("slider", "k", 3),
        ("number_input", "request", 5),
    ],
    "calibration": [
        ("button_group", "calibrated", "code"),
        ("number_input", "split", 2),
        ("slider", "calibrated k", 3),
    ],
    "tune": [
        ("number_input", "tune users", 12),
        ("number_input", "tune trials", 9),
        ("number_input", "tune seed", 1),
        ("multiselect", "objective", ["speed"]),
        ("number_input", "at least", 30),
        ("number_input", "ttft limit", 250),
        ("number_input", "tpot limit", 7.5),
    ],
}


def _element(test, kind: str, key: str):
    return next(one for one in test.get(kind) if one.key == key)


def _ready(test):
    """What a sweep draws is there only once it has ended."""
    return settle(test) if "sweep" in test.session_state else test


@pytest.mark.parametrize("page", PAGES)
def test_a_link_brings_every_choice_back(page):
    few = (
        {"scheduler": ["none"], "rate": ["4", "16", "32"], "requests": "40"}
        if page in SWEEPS
        else {}
    )
    test, chosen = _ready(open_page(page, **few)), {}
    for kind, key, value in [*SIDEBAR, *PAGES[page]]:
        element = _element(test, kind, key)
        if value is OTHER:
            value = next(option for option in element.options if option != element.value)
        element.set_value(value)
        test = _ready(test.run())
        assert not errors(test), key
        chosen[kind, key] = value
    query = dict(test.query_params)
    assert set(query) == {key for _, key in chosen} | set(few)

    other = _ready(open_page(page, **query))
    assert not errors(other)
    for (kind, key), value in chosen.items():
        assert _element(other, kind, key).value == value, key
    assert dict(other.query_params) == query


def test_no_widget_is_left_out_of_the_link():
    ours = {key for choices in (SIDEBAR, *PAGES.values()) for _, key, _ in choices}
    ours |= {"concurrency", "rate", "share chat", "share code"}  # tested below
    kinds = {kind for choices in (SIDEBAR, *PAGES.values()) for kind, _, _ in choices}
    for page in PAGES:
        test = _ready(open_page(page, trace=["chat", "code"], **QUICK))
        for kind in kinds:
            for one in test.get(kind):
                assert one.key in ours, (page, kind, one.label)


def test_shares_and_loads():
    query = {**QUICK, "trace": ["chat", "code"], "share code": "3", "share chat": "1"}
    test = settle(open_page("load", **query))
    assert test.session_state["sweep"][1].demand.weights.tolist() == [0.25, 0.75]
    assert test.slider("share code").value == 3
    test.multiselect("concurrency").set_value(["4"])
    test = settle(test.run())
    assert test.query_params["concurrency"] == "4"
    assert {run["concurrency"] for run in test.session_state["sweep"][1].runs()} == {4}


def test_defaults_are_left_out():
    test = open_page("lab", R="64")
    test.select_slider("R").set_value(32).run()
    assert not dict(test.query_params)


def test_an_emptied_list_is_not_the_default():
    test = open_page("lab")
    test.multiselect("lab scheduler").set_value([]).run()
    assert test.query_params["lab scheduler"] == ""
    other = open_page("lab", **{"lab scheduler": ""})
    assert "choose at least one" in errors(other)[0]


@pytest.mark.parametrize(
    ("page", "key", "given", "shown"),
    [
        ("lab", "round", "999", 200),
        ("lab", "round", "-3", 0),
        ("lab", "round", "nine", 6),
        ("lab", "R", "33", 32),
        ("tune", "tpot limit", "nan", 0.0),
        ("traces", "k", "99", 7),
        ("profiles", "profile", "none such", "h200-qwen3-8b-bf16-dspark7"),
    ],
)
def test_what_a_widget_cannot_show(page, key, given, shown):
    test = open_page(page, **{key: given})
    assert not errors(test)
    elements = [*test.number_input, *test.slider, *test.select_slider, *test.selectbox]
    assert next(one for one in elements if one.key == key).value == shown


@pytest.mark.parametrize(
    "kind", ["slider", "number_input", "select_slider", "selectbox", "button_group", "multiselect"]
)
@pytest.mark.parametrize("given", [{}, {"x": "4"}])
def test_a_widget_whose_range_grows_keeps_its_value(kind, given):
    def script(kind):
        import streamlit as st

        from app import widgets

        high = st.session_state.get("high", 8)
        options = [str(n) for n in range(1, high)]
        if kind == "slider":
            widgets.slider(st, "x", 1, high, 5, key="x")
        elif kind == "number_input":
            widgets.number(st, "x", 1, high, 5, key="x")
        elif kind == "multiselect":
            widgets.multiselect(st, "x", options, ["5"], key="x")
        else:
            draw = {
                "select_slider": widgets.select_slider,
                "selectbox": widgets.selectbox,
                "button_group": widgets.segmented,
            }[kind]
            draw(st, "x", options, "5", key="x")

    test = AppTest.from_function(script, kwargs={"kind": kind})
    for key, value in given.items():
        test.query_params[key] = value
    test.run()
    before = _element(test, kind, "x").value
    assert str(before).strip("[]'") == given.get("x", "5")
    test.session_state["high"] = 16
    test.run()
    assert _element(test, kind, "x").value == before
    assert dict(test.query_params) == given


def test_a_late_word_of_the_browser_is_no_choice():
    def script():
        import streamlit as st

        from app import widgets

        widgets.selectbox(st, "x", ["a", "b", "c"], st.session_state.get("default", "a"), key="x")

    test = AppTest.from_function(script).run()
    test.session_state["default"] = "b"
    test.run()
    assert test.selectbox("x").value == "b"
    test.selectbox("x").set_value("a").run()  # sent before the browser knew of b
    assert test.selectbox("x").value == "b" and not dict(test.query_params)
    test.run()  # now it knows
    test.selectbox("x").set_value("a").run()
    assert test.selectbox("x").value == "a" and dict(test.query_params) == {"x": "a"}


@pytest.mark.parametrize("value", ["", "nan", "inf", "-1", "9" * 40, "1e999", "None", "\x00", "💥"])
def test_no_link_breaks_a_widget(value):
    def script():
        import streamlit as st

        from app import widgets

        widgets.number(st, "a", 0, 2**31, 6, key="a")
        widgets.number(st, "b", 0.0, 1e6, 1.0, key="b")
        widgets.slider(st, "c", 1, 9, 3, key="c")
        widgets.select_slider(st, "d", [1, 2, 3], 2, key="d")
        widgets.selectbox(st, "e", ["x", "y"], "x", key="e")
        widgets.segmented(st, "f", ["x", "y"], "x", key="f")
        widgets.multiselect(st, "g", ["x", "y"], ["x"], key="g")
        widgets.multiselect(st, "h", ["x"], ["x"], key="h", accept_new_options=True)
        widgets.toggle(st, "i", key="i")
        widgets.text(st, "j", key="j")

    test = AppTest.from_function(script)
    for key in "abcdefghij":
        test.query_params[key] = value
    assert not errors(test.run())


@pytest.mark.parametrize("page", PAGES)
def test_no_link_breaks_a_page(page):
    keys = [key for _, key, _ in PAGES[page]]
    test = open_page(page, **dict.fromkeys([*keys, "concurrency", "rate", "point"], "9" * 40))
    assert not any("failed" in line for line in errors(test))
    if "sweep" in test.session_state:
        test.session_state["sweep"][1].cancel()
