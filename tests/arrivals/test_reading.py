"""Every format's published rows: values, clocks, slices, what is dropped and said."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.arrivals import samples
from tests.support import write_trace
from workbench.arrivals import Arrivals, read_arrivals


def test_azure_rows(tmp_path):
    found = read_arrivals(samples.write(tmp_path / "conv", samples.AZURE))
    assert found.at == pytest.approx([0, 4.314579, 4.541877, 4.710427, 5.892655], abs=1e-9)
    assert found.prompt_tokens.tolist() == [374, 396, 879, 91, 91]
    assert found.output_tokens.tolist() == [44, 109, 55, 16, 16]
    assert found.at.dtype == np.float64 and found.prompt_tokens.dtype == np.int32
    assert found.session is None and found.cached_prompt_tokens is None and found.notes == []
    assert found.span_s == found.at[-1] and found.requests == 5


def test_azure_rows_in_utc_are_the_same_times(tmp_path):
    plain = read_arrivals(samples.write(tmp_path / "a", samples.AZURE))
    zoned = samples.AZURE.replace(",374", "+00:00,374").replace(",879", "Z,879")
    assert (read_arrivals(samples.write(tmp_path / "b", zoned)).at == plain.at).all()


@pytest.mark.parametrize("suffix", ["", ".csv", ".gz", ".zst"])
def test_content_decides_not_the_name(tmp_path, suffix):
    path = samples.write(tmp_path / f"strange.json{suffix}", "\n\n" + samples.AZURE)
    assert read_arrivals(path).requests == 5


def test_a_byte_order_mark_is_no_part_of_the_header(tmp_path):
    path = samples.write(tmp_path / "a.csv", "\ufeff" + samples.AZURE)
    assert read_arrivals(path).requests == 5


def test_slice_is_half_open_on_the_files_clock_and_speedup_divides(tmp_path):
    text = "arrival_s,prompt_tokens,output_tokens\n" + "".join(
        f"{t},{t + 1},9\n" for t in (5, 6, 8, 10, 11)
    )
    path = samples.write(tmp_path / "a.csv", text)
    assert read_arrivals(path).at.tolist() == [0, 1, 3, 5, 6]
    assert read_arrivals(path, start=0).at.tolist() == [5, 6, 8, 10, 11]
    assert read_arrivals(path, speedup=2).at.tolist() == [0, 0.5, 1.5, 2.5, 3]
    cut = read_arrivals(path, start=6, stop=10, speedup=4)
    assert cut.at.tolist() == [0, 0.5] and cut.prompt_tokens.tolist() == [7, 9]
    assert cut.notes == ["2 of 5 requests taken"]


@settings(max_examples=40)
@given(st.floats(0, 5), st.floats(0.01, 3), st.floats(0.01, 100))
def test_a_slice_is_the_wholes_part(tmp_path_factory, start, length, speedup):
    path = samples.write(tmp_path_factory.mktemp("s") / "a", samples.AZURE)
    whole = read_arrivals(path)
    inside = (whole.at >= start) & (whole.at < start + length)
    if inside.any():
        cut = read_arrivals(path, start=start, stop=start + length, speedup=speedup)
        assert cut.at == pytest.approx((whole.at[inside] - start) / speedup, abs=1e-9)
        assert (cut.output_tokens == whole.output_tokens[inside]).all()


def test_unsorted_rows_are_sorted_ties_in_file_order_and_said(tmp_path):
    text = "arrival_s,prompt_tokens,output_tokens,session\n2,1,1,b\n1,2,1,\n2,3,1,a\n1,4,1,b\n"
    found = read_arrivals(samples.write(tmp_path / "a", text))
    assert found.prompt_tokens.tolist() == [2, 4, 1, 3]
    assert found.session.tolist() == [-1, 0, 0, 1]
    assert found.notes == ["rows were not in order of arrival: sorted, ties in the file's order"]


def test_generic_with_times_only_and_with_cached_prompts(tmp_path):
    bare = read_arrivals(samples.write(tmp_path / "a", "arrival_s\n0\n1.5\n"))
    assert bare.at.tolist() == [0, 1.5] and bare.prompt_tokens is None
    text = "arrival_s,prompt_tokens,output_tokens,cached_prompt_tokens,user\n0,10,1,10,x\n"
    cached = read_arrivals(samples.write(tmp_path / "b", text))
    assert cached.cached_prompt_tokens.tolist() == [9]  # the last prompt token is always computed
    assert cached.notes == ["columns ignored: user"]


def test_agent_calls_keep_their_clock_and_sessions_and_drop_failures(tmp_path):
    found = read_arrivals(samples.write(tmp_path / "agents.csv.gz", samples.AGENTS))
    assert found.session.tolist() == [0, 0, 1, 1, 2, 1, 2]
    assert found.at.tolist() == [0, 32.05, 3086.166, 3108.041, 3117.151, 3117.724, 3163.475]
    assert found.prompt_tokens[2] == 16477 and found.output_tokens[-1] == 77
    assert "2 failed calls (is_error) dropped" in found.notes
    assert "rows of 2 models together: azure/DeepSeek-V3.2, azure/Kimi-K2.5" in found.notes
    one = read_arrivals(tmp_path / "agents.csv.gz", model="azure/Kimi-K2.5", start=3086.166)
    assert one.at[:2] == pytest.approx([0, 21.875]) and one.requests == 5


def test_agent_sessions_that_all_start_at_0_are_spread(tmp_path):
    rows = [f"{s},{t},1,100,10,x,b,h,m,0" for s in range(400) for t in (0.0, 7.0, 50.0)]
    text = samples.AGENTS.split("\n")[0] + "\n" + "\n".join(rows)
    path = samples.write(tmp_path / "a", text)
    found = read_arrivals(path, seed=3, start=0)
    starts = np.array([found.at[found.session == s][0] for s in range(400)])
    for s in range(400):  # the calls of a session keep their distances
        assert found.at[found.session == s] - starts[s] == pytest.approx([0, 7, 50])
    assert starts.min() >= 0 and starts.max() <= 50
    assert starts.mean() == pytest.approx(25, abs=5 * 50 / np.sqrt(12 * 400))
    assert any("spread uniformly over 50 s" in note for note in found.notes)
    assert (read_arrivals(path, seed=3).at == read_arrivals(path, seed=3).at).all()
    assert (read_arrivals(path, seed=4, start=0).at != found.at).any()


def test_one_tokenizer_of_the_same_requests(tmp_path):
    path = samples.write(tmp_path / "a.csv", samples.SHAREGPT)
    first = read_arrivals(path)
    assert first.output_tokens.tolist() == [531, 769]
    assert first.at == pytest.approx([0, 0.301012143])
    assert first.notes == ["rows of llama-3.1-8b only; the file also has qwen3-32b"]
    assert read_arrivals(path, model="qwen3-32b").prompt_tokens.tolist() == [2367]


def test_lengths_without_times_arrive_at_once(tmp_path):
    found = read_arrivals(samples.write(tmp_path / "a.csv", samples.VIDUR))
    assert found.at.tolist() == [0, 0, 0] and not found.timed
    assert found.output_tokens.tolist() == [54, 156, 133]
    assert found.notes == ["the file has no arrival times: all requests arrive at 0"]
    timed = "arrived_at,num_prefill_tokens,num_decode_tokens\n1.5,3,4\n2,5,6\n"
    found = read_arrivals(samples.write(tmp_path / "b.csv", timed))
    assert found.at.tolist() == [0, 0.5] and found.timed


def test_a_recorded_trace_gives_its_own_arrivals(tmp_path):
    requests = [
        {"accepted": [1, 0], "arrival_s": 4.0, "prompt_tokens": 20, "session": "u"},
        {"accepted": [], "arrival_s": 2.5, "prompt_tokens": 9, "cached_prompt_tokens": 9},
    ]
    path = write_trace(tmp_path / "t.jsonl", requests)
    found = read_arrivals(path, speedup=3)
    assert found.at.tolist() == [0, 0.5]
    assert found.output_tokens.tolist() == [1, 3] and found.session.tolist() == [-1, 0]
    assert found.cached_prompt_tokens.tolist() == [8, 0]


def test_arrays_that_disagree_are_refused():
    with pytest.raises(ValueError, match="session has 1 rows"):
        Arrivals("x", np.zeros(2), session=np.zeros(1, np.int32))
    with pytest.raises(ValueError, match="decreases"):
        Arrivals("x", np.array([1.0, 0.5]))
