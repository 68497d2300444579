"""Heads of the public traces, as published, and where the full files lie."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest
import zstandard

AZURE = """\
TIMESTAMP,ContextTokens,GeneratedTokens\r
2023-11-16 18:15:46.6805900,374,44\r
2023-11-16 18:15:50.9951690,396,109\r
2023-11-16 18:15:51.2224670,879,55\r
2023-11-16 18:15:51.3910170,91,16\r
2023-11-16 18:15:52.5732450,91,16"""  # as published: CRLF, no end of line at the end

MOONCAKE = """\
{"timestamp": 0, "input_length": 2290, "output_length": 316, "hash_ids": [0, 42, 43, 44, 45]}
{"timestamp": 0, "input_length": 6760, "output_length": 3, "hash_ids": [0, 46, 47, 48, 49, 50, 51, \
52, 53, 54, 55, 56, 57, 58]}
{"timestamp": 3000, "input_length": 2012, "output_length": 354, "hash_ids": [0, 427, 428, 429]}
{"timestamp": 3000, "input_length": 915, "output_length": 355, "hash_ids": [0, 462]}
"""

AGENTS = """\
session,start_time_s,duration_ms,input_tokens,output_tokens,finish_reasons,benchmark,harness,\
request_model,is_error
0,0.0,9805.9,18621,88,tool_calls,swebench,claude_code,azure/DeepSeek-V3.2,0
0,32.05,31442.4,19047,53,tool_calls,swebench,claude_code,azure/DeepSeek-V3.2,0
1,3086.166,5812.5,16477,180,tool_calls,swebench,claude_code,azure/Kimi-K2.5,0
1,3099.594,0.0,0,0,,swebench,claude_code,azure/Kimi-K2.5,1
1,3108.041,7566.7,17992,124,tool_calls,swebench,claude_code,azure/Kimi-K2.5,0
2,3117.151,4680.7,16566,75,tool_calls,swebench,claude_code,azure/Kimi-K2.5,0
1,3117.724,4456.0,18669,93,tool_calls,swebench,claude_code,azure/Kimi-K2.5,0
2,3126.693,0.0,0,0,,swebench,claude_code,azure/Kimi-K2.5,1
2,3163.475,5133.2,16603,77,tool_calls,swebench,claude_code,azure/Kimi-K2.5,0
"""

SHAREGPT = """\
tokenizer_model,arrival_time_ns,input_toks,output_toks
llama-3.1-8b,46926808,2358,531
llama-3.1-8b,347938951,1034,769
qwen3-32b,46926808,2367,543
"""

VIDUR = "num_prefill_tokens,num_decode_tokens\n3772,54\n2015,156\n3858,133\n"

WINDOWS = """\
model,client,window_start_s,rate_req_s,cv,pattern,shape,scale
m-small,17,172800,0.45667,0.92921,Gamma,1.1582,0.09258
m-small,17,173400,3.49,1.3384,Gamma,0.55826,0.20913
m-small,12,172800,2.5,2.2588,Weibull,0.53269,0.033402
m-large,20,173400,1.5,1,Gamma,1,0.66667
"""

LENGTHS = """\
{"model":"m-small","client":17,"window_start_s":172800,"input_tokens":{"13":0.287,"14":0.441,\
"15":0.185,"16":0.0541,"17":0.0242,"18":0.00599,"19":0.0023},"output_tokens":{"1":0.2,"2":0.6}}
{"model":"m-small","client":12,"window_start_s":172800,"input_tokens":{"100":1},\
"output_tokens":{"7":1}}
{"model":"m-large","client":20,"window_start_s":172800,"input_tokens":{"274":0.5,"278":0.5},\
"output_tokens":{"900":1}}
"""


def write(path: Path, text: str) -> Path:
    """Write ``text``, compressed as the suffix says."""
    data = text.encode()
    if path.suffix == ".gz":
        data = gzip.compress(data)
    elif path.suffix == ".zst":
        data = zstandard.compress(data)
    path.write_bytes(data)
    return path


def full(name: str) -> Path:
    """A full public file; skips the test where it is not to be had."""
    beside = Path(__file__).parents[3] / "shared" / "data"
    path = Path(os.environ.get("WORKBENCH_DATA", beside)) / "workloads" / name
    if not path.is_file():
        pytest.skip(f"no {path}; set WORKBENCH_DATA to the folder that holds workloads/{name}")
    return path
