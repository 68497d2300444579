"""The full public files, where they are to be had: counts and means as published, and the time."""

import numpy as np
import pytest

from tests.arrivals import samples
from workbench.arrivals import read_arrivals, stretch


@pytest.mark.parametrize(
    ("name", "requests", "prompt", "output", "span"),
    [
        ("azure2023_code.csv.gz", 8819, 2048, 28, 3435.948056),
        ("azure2023_conv.csv.gz", 19366, 1155, 211, 3501.721937),
        ("mooncake_conversation.jsonl.gz", 12031, 12035, 343, 3536.999),
        ("sharegpt_lengths_600.csv", 300, 857.5, 652.5, None),
        ("arxiv_summarization_lengths.csv.gz", 28257, 2588, 291, 0),
        ("exgentic_agent_calls.csv.gz", 2294 - 148, 29441, 261, 425542.97),
    ],
)
def test_counts_means_and_span(name, requests, prompt, output, span):
    found = read_arrivals(samples.full(name))
    assert found.requests == requests
    assert found.prompt_tokens.mean() == pytest.approx(prompt, abs=0.5)
    assert found.output_tokens.mean() == pytest.approx(output, abs=0.5)
    assert found.at[0] == 0
    if span is not None:
        assert found.span_s == pytest.approx(span, abs=1e-6)


def test_azure_slice_at_double_speed():
    found = read_arrivals(samples.full("azure2023_conv.csv.gz"), speedup=2, start=600, stop=1800)
    assert found.requests == 7241 and found.at[0] >= 0 and found.at[-1] < 600


def test_mooncake_shares_prefixes():
    found = read_arrivals(samples.full("mooncake_conversation.jsonl.gz"))
    cached = found.cached_prompt_tokens
    assert (cached < found.prompt_tokens).all()
    assert cached.sum() / found.prompt_tokens.sum() == pytest.approx(0.374, abs=0.001)


def test_agent_sessions():
    found = read_arrivals(samples.full("exgentic_agent_calls.csv.gz"))
    assert len(np.unique(found.session)) == 46


def test_servegen_windows_reach_their_rates():
    path = samples.full("servegen_language_windows.csv.gz")
    found = read_arrivals(path, start=201000, stop=202800)
    rows = np.genfromtxt(path, delimiter=",", names=True, usecols=(2, 3))
    inside = (rows["window_start_s"] >= 201000) & (rows["window_start_s"] < 202800)
    assert found.requests == pytest.approx(600 * rows["rate_req_s"][inside].sum(), rel=0.02)
    assert found.prompt_tokens.min() >= 1


def test_a_million_requests_of_an_azure_like_day():
    source = read_arrivals(samples.full("azure2023_conv.csv.gz"))
    day = stretch(source, 1_000_000, np.random.default_rng(0))
    assert day.requests == 1_000_000 and day.span_s < 86400
    assert day.output_tokens.mean() == pytest.approx(211, rel=0.02)
