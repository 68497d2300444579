"""The diagram draws the report's numbers and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from workbench.calibration import Calibration
from workbench.calibration.diagram import reliability_diagram
from workbench.calibration.evaluate import evaluate
from workbench.calibration.sample import Sample


def reports(positions: int):
    rng = np.random.default_rng(0)
    c = rng.random((300, positions)).astype(np.float32)
    accepted = np.cumprod(rng.random(c.shape) < c, axis=1).sum(axis=1)
    sample = Sample(c, accepted, np.full(300, positions), 1)
    return evaluate(sample, Calibration((2.0,) * positions))


def test_points_are_the_bins():
    found = reports(3)
    figure = reliability_diagram(found, "a $name_of_x$")
    for axes, report in zip(figure.axes, found, strict=False):
        drawn = [scatter.get_offsets() for scatter in axes.collections]
        for points, quality in zip(drawn, (report.before, report.after), strict=True):
            bins = quality.reliability
            np.testing.assert_allclose(points, np.column_stack([bins.predicted, bins.observed]))


@pytest.mark.parametrize(("positions", "panels"), [(1, 1), (7, 7), (12, 12), (40, 12)])
def test_panels_begin_with_the_first_position_and_end_with_the_last(positions, panels):
    titles = [a.get_title() for a in reliability_diagram(reports(positions)).axes if a.axison]
    assert len(titles) == panels
    assert titles[0].startswith("k = 1,") and titles[-1].startswith(f"k = {positions},")
