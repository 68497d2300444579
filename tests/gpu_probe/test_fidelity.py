import json

import pytest

from gpu_probe import fidelity


def made_up(factor=1.0):
    return {
        "name": "x",
        "verify": {"batch_tokens": [1, 2]},
        "attention": {
            "query_tokens": [1], "requests": [64], "context_tokens": [2048], "seconds": [[[0.002]]],
        },
        "draft": {
            "context_tokens": [16], "requests": [1], "tokens": [7],
            "seconds": [[[0.001 * factor]]],
        },
        "measured": {
            "verify_whole": {
                "context_tokens": [16, 64],
                "seconds": [[0.004 * factor, 0.005]] * 2,
                "without_attention": [[0.004, 0.005], [0.005, 0.005]],
            },
            "whole_steps": [],
            "target_kv_bytes": 1000,
            "copy_bandwidth": 64 * 2048 * 1000 / 0.001,
            "sequential": [
                {
                    "block_size": 4, "requests": 8, "context_tokens": context,
                    "dspark_seconds": 0.002, "dflash_seconds": 0.003, "verify_seconds": 0.008,
                    "loop_seconds": 0.0001,
                }
                for context in (512, 4096)
            ],
        },
    }  # fmt: skip


def test_agreement_is_counted_point_by_point():
    parts = fidelity.agreement(made_up(), made_up(1.1))
    assert sorted(parts["verify"]) == pytest.approx([0, 0, 0.1, 0.1])
    assert parts["draft"] == pytest.approx([0.1]) and parts["attention"] == [0]
    assert "| all | 6 |" in fidelity.agreement_table(made_up(), made_up(1.1))


def test_whole_steps_of_different_contexts_are_not_compared():
    other = made_up(1.1)
    other["measured"]["verify_whole"]["context_tokens"] = [16, 1024]
    assert sorted(fidelity.agreement(made_up(), other)["verify"]) == pytest.approx([0, 0.1])


def test_attention_over_the_bytes_it_must_read():
    assert fidelity.attention_bandwidth(made_up()).splitlines()[-1] == "| 64 | 2048 | 2.00 |"


def test_decode_steps_as_timed_and_as_charged_beside_the_engine():
    cell = {"requests": 8, "query_tokens": 1, "context_tokens": 1024}
    measured = {
        "whole_steps": [{**cell, "seconds": 0.0055, "tables_ratio": 1.1}],
        "streamed_weight_bytes": 5e6 - 8 * 1024 * 100,
        "target_kv_bytes": 100,
        "copy_bandwidth": 1e9,
    }
    names = {"target": {"name": "Qwen3-8B"}, "hardware": {"gpu": "NVIDIA H200"}}
    row = fidelity.decode_steps({**names, "measured": measured}).splitlines()[-1]
    # vLLM's step of 8 requests takes 5.6905 ms
    assert row == "| 8 | 5.50 | 6.05 | 5.69 | 0.97 | 1.06 | 1.10 | 1.14 |"


def test_the_forward_pass_from_either_context_side_by_side():
    table = fidelity.contexts_apart(made_up()).splitlines()
    assert table[0] == "| batch tokens | at 16 tokens, ms | at 64 tokens, ms | ratio |"
    assert table[2:] == ["| 1 | 4.00 | 5.00 | 1.250 |", "| 2 | 5.00 | 5.00 | 1.000 |"]


def test_of_the_forward_pass_powers_of_two_and_steps_just_past_a_tile_are_shown():
    tokens = [64, 65, 128, 129, 160, 256, 257]
    seconds = [[0.004] * len(tokens), [0.003] * len(tokens)]
    whole = {"context_tokens": [16, 1024], "without_attention": seconds}
    document = {"verify": {"batch_tokens": tokens}, "measured": {"verify_whole": whole}}
    table = fidelity.contexts_apart(document).splitlines()
    assert "| at 1,024 tokens, ms |" in table[0]
    assert table[2:] == [f"| {n} | 4.00 | 3.00 | 0.750 |" for n in (64, 128, 129, 256, 257)]


def test_share_of_the_sequential_block():
    row = fidelity.sequential_block(made_up()).splitlines()[-1]
    assert row == "| 4 | 8.00 | 2.00 | 3.00 | 0.10 | 1.00% | -9.1% |"


def test_two_profiles_of_one_name_are_compared(tmp_path, capsys):
    paths = []
    for i, factor in enumerate((1.0, 1.1)):
        document = {**made_up(factor), "target": {"name": "t"}, "hardware": {"gpu": "g"}}
        paths.append(tmp_path / f"{i}.json")
        paths[-1].write_text(json.dumps(document))
    assert fidelity.main(list(map(str, paths))) == 0
    out = capsys.readouterr().out
    assert "x, two probes" in out and "x, sequential block" in out


def test_what_no_drafter_changes_is_printed_once_for_a_target(tmp_path, capsys):
    cell = {"requests": 8, "query_tokens": 1, "context_tokens": 1024, "seconds": 0.0055}
    names = {"target": {"name": "Qwen3-8B"}, "hardware": {"gpu": "NVIDIA H200"}}
    paths = []
    for name in ("x", "y"):
        document = {**made_up(), **names, "name": name}
        document["measured"]["whole_steps"] = [{**cell, "tables_ratio": 1.1}]
        document["measured"]["streamed_weight_bytes"] = 1e9
        paths.append(tmp_path / f"{name}.json")
        paths[-1].write_text(json.dumps(document))
    assert fidelity.main(list(map(str, paths))) == 0
    out = capsys.readouterr().out
    assert out.count(fidelity.contexts_apart(made_up())) == 1
    assert "x, decode steps" in out and "y, decode steps" not in out


OLD = '{"verify": {"batch_tokens": [1]}, "measured": {"verify_whole": [0.004]}}'


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"measured": null}', "[" * 100_000, OLD])
def test_a_file_that_is_no_measured_profile_is_one_line(tmp_path, capsys, text):
    path = tmp_path / "x.json"
    path.write_text(text)
    for wrong in (path, tmp_path / "missing.json", tmp_path):
        assert fidelity.command([str(wrong)]) == 2
        assert str(wrong) in capsys.readouterr().err


def test_whole_steps_that_are_not_one_a_point_are_refused(tmp_path, capsys):
    document = {**made_up(), "target": {"name": "t"}, "hardware": {"gpu": "g"}}
    document["measured"]["verify_whole"]["seconds"][1] = [0.004]
    path = tmp_path / "x.json"
    path.write_text(json.dumps(document))
    assert fidelity.command([str(path)]) == 2
    assert "differ in length" in capsys.readouterr().err


def test_profiles_that_share_no_point_agree_on_nothing():
    empty = {"query_tokens": [], "requests": [], "context_tokens": [], "seconds": []}
    first = {**made_up(), "verify": {"batch_tokens": [], "seconds": []}, "attention": empty}
    first["measured"] = {**first["measured"], "whole_steps": []}
    first["measured"]["verify_whole"] = {"context_tokens": [], "seconds": []}
    first.pop("draft", None)
    assert fidelity.agreement_table(first, made_up()).count("\n") == 1
