from gpu_probe import progress
from gpu_probe.progress import SHARES, Progress

NAMES = ["verify", "attention", "held_out mtp", "power"]


def made(monkeypatch, seconds):
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    one = Progress(NAMES, 64)
    clock[0] = seconds
    return one


def test_the_time_left_follows_the_parts_done(monkeypatch):
    one = made(monkeypatch, 2.0 * SHARES["verify"])
    left = 2 * (SHARES["attention"] + SHARES["held_out"] + SHARES["power"])
    assert one.left({"verify": {}}) == f"about {left:.0f} s left"
    half = {"verify": {}, "held_out mtp": {"cells": [0] * 32}}
    assert one.left(half) != one.left({"verify": {}})
    whole = {name: {"cells": [0] * 64} for name in NAMES}
    assert one.left(whole) == "all measured"


def test_what_an_earlier_run_did_took_no_time(monkeypatch):
    one = made(monkeypatch, 1.0 * SHARES["attention"])
    one.resumed({"verify": {}})
    left = SHARES["held_out"] + SHARES["power"]
    assert one.left({"verify": {}, "attention": {}}) == f"about {left:.0f} s left"


def test_a_part_of_less_than_a_second_is_still_left(monkeypatch):
    monkeypatch.setattr(progress.time, "monotonic", lambda: 0.0)
    one = Progress(["verify", "memory mtp"], 64)
    assert 0 < SHARES["memory"] < 1
    assert one.left({"verify": {}}) == "about 0 s left"
    assert one.left({"verify": {}, "memory mtp": {}}) == "all measured"
