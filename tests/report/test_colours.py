"""Schedulers are told apart also by those who see fewer colours."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from workbench.report.colours import style
from workbench.schedulers import default_schedulers

# Linear-RGB matrices of full dichromacy, Machado, Oliveira and Fernandes (2009)
VISION = {
    "all": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                   [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                     [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                   [0.004733, 0.691367, 0.303900]],
}  # fmt: skip
DEFAULT = default_schedulers(7)


def linear(colour: str) -> np.ndarray:
    values = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    ratio = xyz @ np.clip(rgb, 0, 1) / [0.9505, 1.0, 1.089]
    f = np.where(ratio > 0.008856, np.cbrt(ratio), 7.787 * ratio + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("vision", VISION)
def test_the_default_schedulers_differ_in_every_vision(vision):
    seen = {name: lab(VISION[vision] @ linear(style(name).colour)) for name in DEFAULT}
    for one, other in itertools.combinations(DEFAULT, 2):
        # CIE 1976: 2.3 is just noticeable
        assert np.linalg.norm(seen[one] - seen[other]) > 10, (one, other)


@pytest.mark.parametrize("ground", ["#FFFFFF", "#1A1A1A"])
def test_every_colour_stands_out_on_light_and_dark(ground):
    def luminance(colour):
        return float(np.array([0.2126, 0.7152, 0.0722]) @ linear(colour))

    for name in (*DEFAULT, "global", "oracle", "threshold:0.5", "mine.py:Rule"):
        low, high = sorted((luminance(ground), luminance(style(name).colour)))
        assert (high + 0.05) / (low + 0.05) > 1.5, name


def test_default_schedulers_differ_without_colour():
    looks = [(style(name).marker, style(name).dash) for name in DEFAULT]
    assert len(set(looks)) == len(DEFAULT)


def test_a_style_depends_on_the_name_alone():
    assert style("static:3") == style("static:3") != style("static:4")
    assert style("topk:lag=4").colour == style("topk").colour
    assert style("topk:lag=4") != style("topk")
    assert style("a.py:Mine") == style("a.py:Mine")
    assert style("threshold:0.2") != style("threshold:0.8")


@pytest.mark.parametrize("odd", ["", "static", "static:", "static:x", "threshold:999", "static:-5"])
def test_odd_names_have_a_style_too(odd):
    assert len(style(odd).colour) == 7
