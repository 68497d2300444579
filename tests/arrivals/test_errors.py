"""Every fault of a file is one line that names the file, the place and the mend."""

import math

import pytest

from tests.arrivals import samples
from tests.support import write_trace
from workbench.arrivals import read_arrivals
from workbench.errors import InputError

AZURE, AGENTS, WINDOWS = samples.AZURE, samples.AGENTS, samples.WINDOWS
GENERIC = "arrival_s,prompt_tokens,output_tokens,session,cached_prompt_tokens\n"

FAULTS = {
    "no tokens": (
        AZURE.replace("396,109", "396,0"),
        "line 3, GeneratedTokens: 0 is not in 1..2147",
    ),
    "negative": (AZURE.replace(",91,16", ",-91,16", 1), "line 5, ContextTokens: -91 is not in 1.."),
    "too many": (AZURE.replace(",91,", ",3000000000,", 1), "line 5, ContextTokens: 3000000000 is"),
    "fraction": (AZURE.replace("396,", "396.5,"), "line 3, ContextTokens: '396.5' is not a whole"),
    "no number": (AZURE.replace("396,", ","), "line 3, ContextTokens: '' is not a whole number"),
    "underscore": (AZURE.replace("396,", "3_96,"), "line 3, ContextTokens: '3_96' is not a whole"),
    "timestamp": (AZURE.replace("18:15:51.22", "tea time"), "line 4, TIMESTAMP: '2023-11-16 tea"),
    "no such day": (AZURE.replace("11-16", "11-31"), "line 2, TIMESTAMP: '2023-11-31"),
    "year": (AZURE.replace("2023", "9023", 1), "line 2, TIMESTAMP: '9023"),
    "zone": (AZURE.replace(",879", "+02:00,879"), "line 4, TIMESTAMP: .* is not in UTC; give"),
    "short row": (AZURE.replace(",109", ""), "line 3: has 2 fields where the header has 3"),
    "long row": (AZURE.replace(",109", ",109,1"), "line 3: has 4 fields where the header has 3"),
    "header only": ("TIMESTAMP,ContextTokens,GeneratedTokens\n", "has a header but no rows"),
    "twice": ("arrival_s,arrival_s\n1,2\n", "line 1: a column name appears twice"),
    "empty": ("\n \n", "is empty; formats read: Azure"),
    "no header": (
        "1,2,3\n4,5,6\n",
        "line 1: unknown columns 1,2,3; formats read: Azure .TIMESTAMP",
    ),
    "other columns": (
        "time,tokens\n1,2\n",
        "unknown columns time,tokens; .*generic .arrival_s.*Moon",
    ),
    "other keys": ('{"when": 1}\n', "line 1: unknown fields when; formats read: "),
    "no json": ('{"when": \n', "line 1: is no JSON"),
    "quote": (AZURE.replace("396", '"396'), "is no CSV text"),
    "time": (GENERIC + "soon,1,1,,0\n", "line 2, arrival_s: 'soon' is not a number"),
    "nan": (GENERIC + "nan,1,1,,0\n", "line 2, arrival_s: 'nan' is not a number"),
    "before 0": (GENERIC + "1,1,1,,0\n-1,1,1,,0\n", "line 3, arrival_s: -1 is less than 0"),
    "cached": (GENERIC + "1,5,1,,6\n", "line 2, cached_prompt_tokens: is more than prompt_tokens"),
    "far off": (GENERIC + "2e12,1,1,,0\n", "line 2, arrival_s: 2e12 is more than 1e.12; correct"),
    "far off ns": (
        "arrival_time_ns,input_toks,output_toks\n1e300,1,1\n",
        "line 2, arrival_time_ns: 1e300 is more than 1e.21",
    ),
    "far off ms": (samples.MOONCAKE.replace("3000", "1e300", 1), "line 3, timestamp: expected"),
    "half the lengths": ("arrival_s,prompt_tokens\n1,2\n", "has prompt_tokens but not the other"),
    "unfailed call": (
        AGENTS.replace("azure/Kimi-K2.5,1", "azure/Kimi-K2.5,0"),
        "line 5, input_tok",
    ),
    "no session": (AGENTS.replace("\n2,3117", "\n,3117"), "line 7, session: is empty"),
    "pattern": (
        WINDOWS.replace("Weibull", "Pareto"),
        "line 4, pattern: 'Pareto' is unknown; there",
    ),
    "shape": (WINDOWS.replace("0.55826", "0"), "line 3, shape: is not in 0.02..2500"),
    "rate": (WINDOWS.replace("3.49", "-3"), "line 3, rate_req_s: -3 is less than 0"),
    "lengths alone": (samples.LENGTHS, "which have no arrivals; name the windows file"),
    "mooncake length": (
        samples.MOONCAKE.replace("915", "0"),
        "line 4, input_length: expected `int`",
    ),
    "mooncake type": (samples.MOONCAKE.replace("354", '"x"'), "line 3, output_length: expected"),
    "mooncake field": (
        samples.MOONCAKE.replace('"output_length": 3,', ""),
        "line 2: object missing required field `output_length`",
    ),
    "mooncake time": (samples.MOONCAKE.replace("3000", "-1", 1), "line 3, timestamp: expected"),
    "mooncake line": (samples.MOONCAKE + "{", "line 5: input data was truncated"),
    "other blocks": (
        samples.MOONCAKE.replace("915", "500"),
        "line 4, hash_ids: 2 hashes, but 500 tokens are 1 blocks of 512",
    ),
}


def fault(path, **options) -> str:
    with pytest.raises(InputError) as caught:
        read_arrivals(path, **options)
    text = str(caught.value)
    assert "\n" not in text and text.startswith(str(path))
    return text


@pytest.mark.parametrize("case", FAULTS)
def test_faults_in_a_file(tmp_path, case):
    text, says = FAULTS[case]
    path = samples.write(tmp_path / "arrivals.gz", text)
    with pytest.raises(InputError, match=says) as caught:
        read_arrivals(path)
    assert "\n" not in str(caught.value) and str(caught.value).startswith(str(path))
    assert caught.value.mend


def test_a_byte_order_mark_is_harmless(tmp_path):
    for name in ("AZURE", "MOONCAKE", "SHAREGPT", "VIDUR"):
        text = getattr(samples, name)
        plain = read_arrivals(samples.write(tmp_path / "plain.gz", text))
        marked = read_arrivals(samples.write(tmp_path / "marked.gz", "\ufeff" + text))
        assert plain.at.tolist() == marked.at.tolist()


def test_no_file_a_folder_and_damaged_data(tmp_path):
    assert "no such file; name a file" in fault(tmp_path / "none.csv")
    assert "is a folder" in fault(tmp_path)
    assert "File name too long" in fault(tmp_path / ("x" * 300))
    assert "is a device" in fault("/dev/null")
    whole = samples.write(tmp_path / "a.gz", samples.AZURE * 50).read_bytes()
    (tmp_path / "cut.gz").write_bytes(whole[:-20])
    assert "cut short" in fault(tmp_path / "cut.gz")
    (tmp_path / "picture").write_bytes(b"\x89PNG\r\n\x1a\n")
    assert "line 1: is no CSV text" in fault(tmp_path / "picture")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"speedup": 0}, "a speedup of 0; give more than 0"),
        ({"speedup": -2}, "a speedup of -2"),
        ({"speedup": math.nan}, "a speedup of nan"),
        ({"start": 5, "stop": 5}, "a slice from 5 to 5 s is empty"),
        ({"start": 9, "stop": 5}, "a slice from 9 to 5 s is empty"),
        ({"start": -1}, "a slice from -1 s; give seconds ≥ 0"),
        ({"stop": math.inf}, "a slice to inf s"),
        ({"speedup": 1e-300}, "a speedup of 1e-300; give at least 1e-12"),
        ({"speedup": 1e-12}, "a speedup of 1e-12 spreads it over 5.89e.12 s; give one"),
    ],
)
def test_impossible_slices(tmp_path, options, says):
    with pytest.raises(InputError, match=says):
        read_arrivals(samples.write(tmp_path / "a", samples.AZURE), **options)


def test_an_empty_slice_says_what_the_file_spans(tmp_path):
    path = samples.write(tmp_path / "a", samples.AZURE)
    assert "no requests from 6 to 9 s; the file spans 0 to 5.892655 s" in fault(
        path, start=6, stop=9
    )
    assert "no requests from 0.5 to 1 s" in fault(path, start=0.5, stop=1)


def test_lengths_cannot_be_sliced(tmp_path):
    path = samples.write(tmp_path / "a", samples.VIDUR)
    assert "no arrival times to slice" in fault(path, start=1)
    assert "no arrival times to slice" in fault(path, speedup=2)


def test_models(tmp_path):
    path = samples.write(tmp_path / "a", samples.SHAREGPT)
    assert "there are llama-3.1-8b, qwen3-32b" in fault(path, model="gpt")
    assert "names no models" in fault(samples.write(tmp_path / "b", samples.AZURE), model="gpt")
    assert "names no models" in fault(samples.write(tmp_path / "c", samples.MOONCAKE), model="gpt")


def test_agents_that_all_failed(tmp_path):
    lines = samples.AGENTS.splitlines()
    text = "\n".join(lines[:1] + [line for line in lines[1:] if line.endswith(",1")])
    assert "every call failed" in fault(samples.write(tmp_path / "a", text))


def test_a_trace_without_arrivals(tmp_path):
    path = write_trace(tmp_path / "t", [{"accepted": [0], "arrival_s": 1.0}, {"accepted": [0]}])
    assert "request r1: 1 of 2 requests have no arrival_s" in fault(path)
