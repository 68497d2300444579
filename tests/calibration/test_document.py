"""Calibration files in both formats, and what is wrong with others."""

from __future__ import annotations

import json

import pytest

from workbench.calibration import Calibration, read_calibration
from workbench.calibration.document import sglang_table
from workbench.calibration.evaluate import PositionReport, Quality, Reliability
from workbench.errors import InputError

OURS = {"format": "workbench.calibration/1", "temperatures": [1.25, 0.5, 3]}


def write(path, document):
    path.write_bytes(document if isinstance(document, bytes) else json.dumps(document).encode())
    return path


def report(k: int, ece: float) -> PositionReport:
    quality = Quality(
        survival_ece=ece,
        auc=0.8,
        brier=0.2,
        reliability=Reliability(predicted=[0.5], observed=[0.5], rows=[1]),
    )
    return PositionReport(
        position=k, temperature=1.0, at_edge=False, rows=1, judged=1, before=quality, after=quality
    )


def test_both_formats_read_the_same(tmp_path):
    ours = write(tmp_path / "a.json", OURS | {"traces": ["chat", "code"], "newer": {"x": [1]}})
    theirs = write(tmp_path / "b.json", {"temperatures": [1.25, 0.5, 3.0], "dataset": "d"})
    for path, name in ((ours, "chat, code"), (theirs, "d")):
        found = read_calibration(path)
        assert found == Calibration((1.25, 0.5, 3.0), path=path, fitted_on=name)


def test_a_byte_order_mark_is_skipped(tmp_path):
    path = write(tmp_path / "a.json", b"\xef\xbb\xbf" + json.dumps(OURS).encode())
    assert read_calibration(path).temperatures == (1.25, 0.5, 3.0)


def test_sglang_gets_numbers_only(tmp_path):
    calibration = Calibration((1.5, 2.0), fitted_on="chat")
    table = sglang_table(calibration, [report(1, 0.02), report(2, 0.01)], rows=77)
    assert table == {
        "temperatures": [1.5, 2.0],
        "dataset": "chat",
        "num_samples": 77,
        "ece_before": [0.02, 0.01],
        "ece_after": [0.02, 0.01],
    }
    unknown = sglang_table(calibration, [report(1, 0.02), report(2, float("nan"))], rows=77)
    assert unknown == {"temperatures": [1.5, 2.0], "dataset": "chat", "num_samples": 77}
    assert read_calibration(write(tmp_path / "s.json", unknown)).temperatures == (1.5, 2.0)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"temperatures": [1, 0]}, r"temperatures\[1\]: is 0; give a number more than 0"),
        ({"temperatures": [-1.0]}, r"temperatures\[0\]: is -1"),
        ({"temperatures": []}, "temperatures: .*length >= 1; give at least 1 values"),
        ({"temperatures": 2}, "temperatures: expected `array`"),
        ({"temperatures": [1, "x"]}, r"temperatures\[1\]: expected `float`"),
        ({"temperatures": [1, None]}, r"temperatures\[1\]: expected `float`"),
        ({"dataset": "d"}, "missing required field `temperatures`; add the field"),
        (OURS | {"format": "workbench.trace/1"}, "format: is 'workbench.trace/1'.*need workbench."),
        ([1.0], "expected `object`"),
        (b'{"temperatures":[NaN]}', "is not JSON"),
        (b"", "is not JSON"),
        (b'{"temperatures":[1e999]}', "range|finite|is inf"),
        (b'{"dataset":"\xff","temperatures":[1]}', "is not JSON"),
        (b'{"temperatures":[1],"x":' + b"[" * 100_000, "is not JSON"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_faults_name_the_file_the_place_and_the_mend(tmp_path, document, said):
    path = write(tmp_path / "bad.json", document)
    with pytest.raises(InputError, match=said) as caught:
        read_calibration(path)
    assert str(caught.value).startswith(str(path)) and caught.value.mend


def test_no_such_file(tmp_path):
    with pytest.raises(InputError, match="no such file; name a file that"):
        read_calibration(tmp_path / "none.json")
    with pytest.raises(InputError, match="is a folder"):
        read_calibration(tmp_path)
