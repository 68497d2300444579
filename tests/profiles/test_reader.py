import json
import re

import pytest

from tests.profiles.samples import COST_MODEL, FULL, V4_FLASH, changed, profile, worked_example
from tests.support import workbench
from workbench import files
from workbench.errors import InputError
from workbench.profiles import default_profile_name, read_profile


def test_every_field_is_read():
    document = changed(FULL, "attention.mixed", 1.2)
    document["draft"] |= {"per_prefill_token_seconds": 1e-7, "context_layers": 5}
    document["host"] |= {
        "per_request_seconds": 1e-5,
        "per_new_request_seconds": 1e-4,
        "admission_lag_steps": 1,
    }
    document["graphs"]["requests"] = [1, 4]
    read = profile(document)
    assert read.hardware.gpus == 2 and read.hardware.power_limit_w == 700
    assert (read.target.layers, read.drafter.block_size, read.drafter.markov_rank) == (36, 7, 256)
    assert read.attention.mixed == 1.2 and read.mixed.seconds == [[0.02, 0.03]]
    assert read.draft.context_layers == 5 and read.draft.per_prefill_token_seconds == 1e-7
    assert read.host.admission_lag_steps == 1 and read.host.per_new_request_seconds == 1e-4
    assert read.graphs.requests == [1, 4] and read.graphs.beyond.seconds == [0.040, 0.044]
    assert read.kv_cache.bytes_per_token == 147456 and read.power.watts == [300, 600]
    assert read.measured.fit_error.max == 0.05 and read.measured.repeats == 20


def test_only_three_fields_are_required():
    read = profile({k: FULL[k] for k in ("format", "name", "verify")})
    assert read.hardware.gpus == 1 and read.verify.reference_context == 0
    assert read.attention is None and read.graphs is None


def test_unknown_fields_are_kept_and_ignored():
    document = FULL | {"note": {"deep": [1, [2]]}}
    document = changed(document, "verify.p90", [1, 2, 3, 4])
    read = profile(document)
    assert read.document["note"] == {"deep": [1, [2]]}
    assert read.document["verify"]["p90"] == [1, 2, 3, 4]


def test_found_by_path_and_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "shipped", lambda kind: tmp_path / kind)
    (tmp_path / "profiles").mkdir()
    path = tmp_path / "profiles" / f"{default_profile_name}.json"
    path.write_text(json.dumps(FULL))
    assert read_profile().name == read_profile(default_profile_name).name == FULL["name"]
    assert read_profile(V4_FLASH).name == "v4-flash-b300-tp4"
    with pytest.raises(InputError, match=default_profile_name):
        read_profile("h100")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"format": "workbench.profile/1",\n "name" 1}', "line 2, column 9: not JSON"),
        (b"", "line 1, column 1: not JSON"),
        (b"[1]", "is no JSON object"),
        (b"\xff\xfe", "byte 0: is not UTF-8"),
        (b"[" * 100_000, "not JSON that can be read"),
        (json.dumps(FULL).replace("0.011", "NaN").encode(), r"verify\.seconds\[1\]: is nan"),
        (json.dumps(FULL).replace("0.011", "1e999").encode(), r"verify\.seconds\[1\]: is inf"),
        (json.dumps(FULL | {"name": "\ud800"}).encode(), "name: holds half of a surrogate pair"),
        (json.dumps(FULL | {"\udfff": 1}).encode(), r"\?: holds half of a surrogate pair"),
        (
            json.dumps(FULL | {"note": [2**63]}).encode(),
            r"note\[0\]: is an integer of more than 64",
        ),
        (json.dumps(FULL | {"note": -(10**400)}).encode(), "note: is an integer of more than 64"),
        (b'{"a":' * 200 + b"1" + b"}" * 200, "nested more than 100 deep; make it flatter"),
        (b'{"a":' + b"9" * 5000 + b"}", "not JSON that can be read"),
        (json.dumps(FULL).encode("utf-16"), "byte 0: is not UTF-8"),
    ],
)
def test_bad_files(tmp_path, content, words):
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=words) as caught:
        read_profile(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)
    assert caught.value.mend and str(caught.value).isprintable()


def test_a_byte_order_mark_is_harmless(tmp_path):
    path = tmp_path / "marked.json"
    path.write_text(json.dumps(FULL), encoding="utf-8-sig")
    assert read_profile(path).name == FULL["name"]


@pytest.mark.parametrize("name", ["folder", "/dev/null", "x" * 300, ""])
def test_what_is_no_file_is_not_called_missing(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match=r"is a (folder|device)|too long|no file is named"):
        read_profile(name)


def test_the_largest_numbers_taken_can_be_shown(tmp_path):
    document = changed(FULL, "verify.seconds", [1e-12, 1e6, 1e6, 1e6])
    document = changed(document, "verify.batch_tokens.3", 2**24)
    document["measured"]["spread"] = [1e6, 0, 1, 2**62]
    (tmp_path / "p.json").write_text(json.dumps(document))
    for options in ([], ["--json", "-"]):
        code, out, err = workbench("profile", "info", tmp_path / "p.json", *options)
        assert (code, err) == (0, "") and "inf" not in out.replace("profile-info", "")


THREE_AXES = [[[0.001]], [[0.002]]]

BAD = [
    ("format", ..., "format", "is missing"),
    ("format", "workbench.profile/2", "format", "workbench.profile/2"),
    ("name", ..., None, "missing required field `name`"),
    ("name", " ", "name", "is empty"),
    ("verify", ..., None, "missing required field `verify`"),
    ("verify.seconds", ..., "verify", "missing required field `seconds`"),
    ("verify.batch_tokens", [], "verify.batch_tokens", "is empty"),
    ("verify.batch_tokens.0", 0, "verify.batch_tokens[0]", "is 0"),
    ("verify.batch_tokens.2", 8, "verify.batch_tokens[2]", "8 does not come after 8"),
    ("verify.batch_tokens.2", 7, "verify.batch_tokens[2]", "7 does not come after 8"),
    ("verify.batch_tokens.1", 8.5, "verify.batch_tokens[1]", "expected `int`"),
    ("verify.batch_tokens.3", 10**12, "verify.batch_tokens[3]", "not in 1"),
    ("verify.seconds", [1, 2], "verify.seconds", "2 values for the 4 points"),
    ("verify.seconds.3", 0, "verify.seconds[3]", "more than 0"),
    ("verify.seconds.3", -1, "verify.seconds[3]", "more than 0"),
    ("verify.seconds.3", float("nan"), "verify.seconds[3]", "finite"),
    ("verify.seconds.3", float("inf"), "verify.seconds[3]", "finite"),
    ("verify.seconds.3", "x", "verify.seconds[3]", "expected `float`"),
    ("verify.seconds.3", None, "verify.seconds[3]", "expected `float`"),
    ("verify.reference_context", -1, "verify.reference_context", "at least 0"),
    ("hardware.gpus", 0, "hardware.gpus", "is 0"),
    ("hardware.power_limit_w", 0, "hardware.power_limit_w", "more than 0"),
    ("drafter.block_size", 0, "drafter.block_size", "is 0"),
    ("drafter", "dspark", "drafter", "expected `object"),
    ("attention.seconds", [[0, 1]], "attention.seconds", "1 rows for the 2 points"),
    ("attention.seconds.1", [0], "attention.seconds[1]", "1 values for the 2 points"),
    ("attention.seconds.1.0", -1, "attention.seconds[1][0]", "at least 0"),
    ("attention.requests", [4, 1], "attention.requests[1]", "1 does not come after 4"),
    ("attention.context_tokens.0", -1, "attention.context_tokens[0]", "is -1"),
    ("attention.mixed", -1.0, "attention.mixed", "at least 0"),
    ("attention.mixed", {"requests": [1]}, "attention.mixed", "missing required field"),
    (
        "attention.mixed",
        {"requests": [1], "context_tokens": [0], "seconds": [[-1]]},
        "attention.mixed.seconds[0][0]",
        "at least 0",
    ),
    ("prefill.chunk_tokens.0", 0, "prefill.chunk_tokens[0]", "is 0"),
    ("prefill.seconds.0.1", -1e-9, "prefill.seconds[0][1]", "at least 0"),
    ("draft.tokens", [0], "draft.tokens[0]", "is 0"),
    ("draft.seconds.0.0", -1, "draft.seconds[0][0]", "at least 0"),
    ("draft.per_prefill_token_seconds", -1, "draft.per_prefill_token_seconds", "at least 0"),
    ("draft.context_layers", -1, "draft.context_layers", "at least 0"),
    ("draft.reference_context", -1, "draft.reference_context", "at least 0"),
    ("host.sync_seconds", -1, "host.sync_seconds", "at least 0"),
    ("host.async_seconds", -1, "host.async_seconds", "at least 0"),
    ("host.admission_lag_steps", -1, "host.admission_lag_steps", "at least 0"),
    ("graphs.batch_tokens", [], "graphs.batch_tokens", "is empty"),
    ("graphs.batch_tokens", [8, 32, 16], "graphs.batch_tokens[2]", "16 does not come after 32"),
    ("graphs.requests", [4, 4], "graphs.requests[1]", "4 does not come after 4"),
    ("graphs.beyond.batch_tokens", [32, 64], "graphs.beyond.batch_tokens[0]", "not past"),
    ("graphs.beyond.seconds", [0.04, 0], "graphs.beyond.seconds[1]", "more than 0"),
    ("graphs.beyond", {"batch_tokens": [], "seconds": []}, "graphs.beyond.batch_tokens", "empty"),
    ("mixed.seconds", [[0.02, 0]], "mixed.seconds[0][1]", "more than 0"),
    ("mixed.prefill_tokens", [0], "mixed.prefill_tokens[0]", "is 0"),
    ("kv_cache.capacity_tokens", 0, "kv_cache.capacity_tokens", "more than 0"),
    ("kv_cache.block_tokens", 0, "kv_cache.block_tokens", "more than 0"),
    ("power.watts", [300, 0], "power.watts[1]", "more than 0"),
    ("power.watts", [300], "power.watts", "1 values for the 2 points"),
    # numbers whose sums, reciprocals or tables would overflow
    ("verify.seconds.3", 1e308, "verify.seconds[3]", "is 1e+308; it may be at most 1e+06"),
    ("verify.seconds.3", 1.1e6, "verify.seconds[3]", "at most 1e+06"),
    ("verify.seconds.0", 1e-310, "verify.seconds[0]", "at least 1e-12"),
    ("attention.seconds.1.0", 1e308, "attention.seconds[1][0]", "at most 1e+06"),
    ("attention.mixed", 1e308, "attention.mixed", "at most 1e+06"),
    ("prefill.seconds.0.1", 1e308, "prefill.seconds[0][1]", "at most 1e+06"),
    ("draft.seconds.0.0", 1e308, "draft.seconds[0][0]", "at most 1e+06"),
    ("draft.per_prefill_token_seconds", 1e308, "draft.per_prefill_token_seconds", "at most"),
    ("graphs.beyond.seconds.0", 1e308, "graphs.beyond.seconds[0]", "at most 1e+06"),
    ("mixed.seconds.0.0", 1e308, "mixed.seconds[0][0]", "at most 1e+06"),
    ("host.sync_seconds", 1e308, "host.sync_seconds", "at most 1e+06"),
    ("host.per_request_seconds", 1e308, "host.per_request_seconds", "at most 1e+06"),
    ("host.admission_lag_steps", 10**6, "host.admission_lag_steps", "at most 1024"),
    ("power.watts.0", 1e308, "power.watts[0]", "at most 1e+12"),
    ("verify.batch_tokens.3", 2**24 + 1, "verify.batch_tokens[3]", "points end at 16777216"),
    ("graphs.batch_tokens", [8, 2**25], "graphs.batch_tokens[1]", "points end at 16777216"),
    ("graphs.requests", [2**25], "graphs.requests[0]", "points end at 16777216"),
    ("graphs.beyond.batch_tokens", [2**25], "graphs.beyond.batch_tokens[0]", "end at 16777216"),
    ("power.batch_tokens.1", 2**25, "power.batch_tokens[1]", "points end at 16777216"),
    ("draft.tokens", [10**6], "draft.tokens[0]", "points end at 65535"),
    ("attention.context_tokens.1", 10**10, "attention.context_tokens[1]", "end at 1000000000"),
    ("drafter.block_size", 10**6, "drafter.block_size", "1 to 65535"),
    ("hardware.gpus", 10**9, "hardware.gpus", "1 to 1000000"),
    ("kv_cache.capacity_tokens", 15, "kv_cache.capacity_tokens", "hold no block of 16"),
    ("kv_cache.block_tokens", 10**6, "kv_cache.capacity_tokens", "hold no block of 1000000"),
    # a table with an axis that the reader does not know
    ("attention.seconds", [THREE_AXES, THREE_AXES], "attention.seconds", "4 axes"),
    ("draft.seconds", THREE_AXES, "draft.seconds", "3 axes"),
    ("verify.seconds", [[0.1]] * 4, "verify.seconds", "2 axes"),
    ("graphs.beyond.seconds", [[0.1]] * 2, "graphs.beyond.seconds", "2 axes"),
    ("power.watts", [[300]] * 2, "power.watts", "2 axes"),
    ("mixed.seconds", [[[0.1]]], "mixed.seconds", "3 axes"),
    # optional axes
    ("attention.seconds.0.0", "x", "attention.seconds[0][0]", "expected `float`"),
    ("attention.query_tokens", [1, 2], "attention.seconds", "2 axes and query_tokens makes 3"),
    ("attention.query_tokens", [1, 1], "attention.seconds", "2 axes and query_tokens"),
    ("attention.query_tokens", "x", "attention.seconds", "2 axes and query_tokens"),
    ("draft.context_tokens", [16], "draft.seconds", "2 axes and context_tokens makes 3"),
    ("verify.prefill_token_seconds", 1e7, "verify.prefill_token_seconds", "at most 1e+06"),
    ("verify.prefill_token_seconds", -1e7, "verify.prefill_token_seconds", "at least -1e+06"),
]

QUERIES = worked_example() | {
    "attention": {
        "query_tokens": [1, 8],
        "requests": [1],
        "context_tokens": [0, 99],
        "seconds": [[[0, 0.1]], [[0, 0.2]]],
    },
    "draft": {
        "context_tokens": [0, 99],
        "requests": [1],
        "tokens": [7],
        "seconds": [[[0.1]], [[0.2]]],
    },
}
BAD_AXES = [
    ("attention.query_tokens", [8, 1], "attention.query_tokens[1]", "1 does not come after 8"),
    ("attention.query_tokens", [0, 1], "attention.query_tokens[0]", "is 0"),
    ("attention.query_tokens", [1], "attention.seconds", "2 tables for the 1 points"),
    ("attention.query_tokens", ..., "attention.seconds", "3 axes"),
    ("attention.seconds.1.0.1", "x", "attention.seconds[1][0][1]", "expected `float`"),
    ("attention.seconds.1.0.1", -1, "attention.seconds[1][0][1]", "at least 0"),
    ("attention.seconds.1", [[0]], "attention.seconds[1][0]", "1 values for the 2 points"),
    ("attention.seconds.1", [], "attention.seconds[1]", "0 rows for the 1 points"),
    ("draft.context_tokens", [0, 0], "draft.context_tokens[1]", "0 does not come after 0"),
    ("draft.seconds.1.0.0", -1, "draft.seconds[1][0][0]", "at least 0"),
    ("draft.context_layers", 3, "draft.context_layers", "so does draft.context_tokens"),
]


@pytest.mark.parametrize(("path", "value", "place", "words"), BAD_AXES)
def test_bad_optional_axes(path, value, place, words):
    read = profile(QUERIES)
    assert [q for q, _ in read.attention.slices()] == [1, 8]
    assert read.draft.slices()[1] == (99, [[0.2]])
    with pytest.raises(InputError) as caught:
        profile(changed(QUERIES, path, value))
    assert caught.value.place == place and words in str(caught.value)
    assert caught.value.file == "test.json" and caught.value.mend


@pytest.mark.parametrize(("path", "value", "place", "words"), BAD)
def test_bad_fields(path, value, place, words):
    with pytest.raises(InputError) as caught:
        profile(changed(FULL, path, value))
    assert caught.value.place == place
    assert words in str(caught.value)
    assert caught.value.file == "test.json" and caught.value.mend


def test_an_unknown_axis_is_named():
    draft = {"requests": [1, 4], "tokens": [7], "layer_counts": [0], "seconds": THREE_AXES}
    with pytest.raises(InputError, match="layer_counts"):
        profile(worked_example() | {"draft": draft})


def test_context_layers_need_the_targets_layers():
    document = changed(worked_example(), "draft.context_layers", 5)
    with pytest.raises(InputError, match=r"target\.layers: is missing"):
        profile(document)


def test_the_smallest_profile_of_the_readme_is_one():
    text = (COST_MODEL.parents[1] / "profiles" / "README.md").read_text()
    document = json.loads(re.search(r"```json\n(.*?)```", text, re.S)[1])
    assert profile(document).verify.batch_tokens[-1] == 1024
