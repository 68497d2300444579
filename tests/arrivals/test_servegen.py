"""ServeGen windows: rates, gap shapes and lengths as given, and slices that agree."""

import math
import time

import numpy as np
import pytest

from tests.arrivals import samples
from workbench.arrivals import read_arrivals
from workbench.errors import InputError

HEAD = samples.WINDOWS.splitlines()[0] + "\n"


@pytest.fixture
def windows(tmp_path):
    samples.write(tmp_path / "a_lengths.jsonl.gz", samples.LENGTHS)
    return samples.write(tmp_path / "a_windows.csv.gz", samples.WINDOWS)


def one_window(tmp_path, rate, pattern, shape):
    text = f"{HEAD}m,1,600,{rate},1,{pattern},{shape},1\n"
    return samples.write(tmp_path / "w.csv", text)


@pytest.mark.parametrize(
    ("pattern", "shape", "cv"),
    [("Gamma", 0.1, math.sqrt(10)), ("Gamma", 4.0, 0.5), ("Weibull", 0.5, math.sqrt(5))],
)
def test_a_window_is_a_stationary_renewal_process_of_its_rate(tmp_path, pattern, shape, cv):
    path = one_window(tmp_path, 0.2, pattern, shape)
    runs = [read_arrivals(path, seed=seed, start=600) for seed in range(400)]
    counts = np.array([run.requests for run in runs])
    # stationary from its first second: 120 in all and a third of them in each third
    spread = 5 * counts.std() / math.sqrt(len(counts))
    assert abs(counts.mean() - 120) < spread
    first = np.array([run.at[0] for run in runs])  # mean residual gap of a stationary process
    residual = (1 + cv**2) / (2 * 0.2)
    assert abs(first.mean() - residual) < 5 * first.std() / math.sqrt(len(first))
    for third in range(3):
        inside = [((run.at >= 200 * third) & (run.at < 200 * (third + 1))).sum() for run in runs]
        assert abs(np.mean(inside) - 40) < 5 * np.std(inside) / math.sqrt(len(inside))
    gaps = np.concatenate([np.diff(run.at[:30]) for run in runs if run.requests > 60])
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.1)


def test_shape_1_is_poisson(tmp_path):
    path = one_window(tmp_path, 50.0, "Weibull", 1.0)
    at = read_arrivals(path).at
    counts = np.bincount((at // 1.0).astype(int), minlength=600)
    assert counts.var() / counts.mean() == pytest.approx(1.0, abs=5 * math.sqrt(2 / 600))


def test_clients_are_superposed_each_with_its_lengths(windows):
    found = read_arrivals(windows, seed=1)
    small, alone, large = (
        (found.prompt_tokens < 20).sum(),
        (found.prompt_tokens == 100).sum(),
        (found.prompt_tokens > 200).sum(),
    )
    assert small + alone + large == found.requests
    assert small == pytest.approx(600 * (0.45667 + 3.49), rel=0.1)
    assert alone == pytest.approx(600 * 2.5, rel=0.25)
    assert large == pytest.approx(900, abs=5 * 30)
    assert (found.at[found.prompt_tokens > 200] >= 600).all()
    assert set(found.output_tokens[found.prompt_tokens == 100]) == {7}
    assert found.at[-1] < 1200 and (np.diff(found.at) >= 0).all()
    assert "rows of 2 models together: m-small, m-large" in found.notes
    only = read_arrivals(windows, seed=1, model="m-large")
    assert only.requests == large and set(only.output_tokens) == {900}


def test_lengths_follow_the_renormalised_shares(windows):
    found = read_arrivals(windows)
    mine = found.prompt_tokens < 20
    ones = (found.output_tokens[mine] == 1).mean()
    assert abs(ones - 0.25) < 5 * math.sqrt(0.25 * 0.75 / mine.sum())  # shares 0.2 and 0.6
    share = 0.441 / (0.287 + 0.441 + 0.185 + 0.0541 + 0.0242 + 0.00599 + 0.0023)
    assert abs((found.prompt_tokens[mine] == 14).mean() - share) < 5 * 0.5 / math.sqrt(mine.sum())


def test_a_slice_holds_the_requests_that_the_whole_has_there(windows):
    whole = read_arrivals(windows, seed=5)
    cut = read_arrivals(windows, seed=5, start=173000, stop=173500, speedup=2)
    inside = (whole.at >= 200) & (whole.at < 700)
    assert cut.at == pytest.approx((whole.at[inside] - 200) / 2, abs=1e-6)
    assert (cut.prompt_tokens == whole.prompt_tokens[inside]).all()
    assert (cut.output_tokens == whole.output_tokens[inside]).all()
    assert (read_arrivals(windows, seed=5).at == whole.at).all()
    assert read_arrivals(windows, seed=6).requests != whole.requests


def test_another_day_takes_the_lengths_of_its_time_of_day(tmp_path):
    def lengths(start, prompt):
        return (
            f'{{"model":"m","client":1,"window_start_s":{start},'
            f'"input_tokens":{{"{prompt}":1}},"output_tokens":{{"1":1}}}}\n'
        )

    text = "".join(lengths(6 * 3600 * i, 10 + i) for i in range(4))
    samples.write(tmp_path / "w_lengths.jsonl", text)
    rows = [f"m,1,{s},1,1,Gamma,1,1\n" for s in (21600, 86400, 86400 + 43200, 5 * 86400 + 64800)]
    path = samples.write(tmp_path / "w_windows.csv", HEAD + "".join(rows))
    found = read_arrivals(path)
    order = [
        p for i, p in enumerate(found.prompt_tokens) if i == 0 or found.prompt_tokens[i - 1] != p
    ]
    assert order == [11, 10, 12, 13]


def test_without_a_lengths_file_there_are_none_and_it_is_said(tmp_path):
    found = read_arrivals(samples.write(tmp_path / "x_windows.csv", samples.WINDOWS))
    assert found.prompt_tokens is None and found.output_tokens is None
    assert any("no lengths file" in note for note in found.notes)


def test_an_idle_window_brings_nothing_and_an_empty_slice_names_the_span(tmp_path):
    path = one_window(tmp_path, 0, "Gamma", 1)
    with pytest.raises(InputError, match="the file spans 600 to 1200 s"):
        read_arrivals(path)
    with pytest.raises(InputError, match="the file spans 600 to 1200 s"):
        read_arrivals(path, start=5000)


def test_more_than_memory_bears_is_refused_with_a_slice_that_fits(tmp_path):
    rows = "m,1,600,5000,1,Gamma,1,1\nm,1,1200,5000,1,Gamma,1,1\n"
    path = samples.write(tmp_path / "w.csv", HEAD + rows)
    with pytest.raises(InputError, match=r"about 6e\+06 requests, .*, such as 600 to 1200"):
        read_arrivals(path)
    assert read_arrivals(path, start=600, stop=1200).requests == pytest.approx(3e6, rel=0.003)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"14":0.441', '"1.4":0.441', "line 1, input_tokens: a length is not a whole number > 0"),
        ('"14":0.441', '"0":0.441', "line 1, input_tokens: a length is not a whole number > 0"),
        ('"14":0.441', '"14":-1', "line 1, input_tokens: shares must be"),
        ('{"7":1}', "{}", "line 2, output_tokens: shares must be"),
        ('{"7":1}', "[7]", "line 2, output_tokens: expected `object`"),
        ('"client":12', '"client":99', "no lengths of client 12 of m-small"),
    ],
)
def test_faults_of_the_lengths_file(windows, old, new, says):
    lengths = windows.with_name("a_lengths.jsonl.gz")
    samples.write(lengths, samples.LENGTHS.replace(old, new))
    with pytest.raises(InputError, match=says) as caught:
        read_arrivals(windows)
    assert str(caught.value).startswith(str(lengths))


def test_the_heaviest_tails_end_with_an_error_not_with_the_memory(tmp_path):
    """Weibull of shape 0.05: most windows are empty, the others hold a burst of millions."""
    path = one_window(tmp_path, 8000.0, "Weibull", 0.05)
    kinds = set()
    for seed in range(8):
        try:
            assert read_arrivals(path, seed=seed).requests <= 5_000_000
        except InputError as error:
            kinds.add(str(error).partition(": ")[2].partition(" ")[0])
    assert kinds == {"no", "line"}  # "no requests in it" and "line 2, shape: bursts of …"


def test_a_window_of_many_requests_is_read_in_a_blink(tmp_path):
    path = one_window(tmp_path, 1000.0, "Gamma", 0.5)
    start = time.process_time()
    assert read_arrivals(path).requests == pytest.approx(600_000, rel=0.01)
    assert time.process_time() - start < 2.0
