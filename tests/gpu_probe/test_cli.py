import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from gpu_probe import autotune, cli, parts, session
from gpu_probe.grid import TINY as TINY_GRID
from gpu_probe.settings import Setting
from gpu_probe.shapes import DRAFTERS, MODELS
from workbench.profiles.reader import read_profile

TINY = ["--device", "cpu", "--model", "tiny", "--repeats", "3"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("probe") / "tiny.json"
    command = [sys.executable, "-m", "gpu_probe", *TINY, "--out", str(out)]
    return out, subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_a_cpu_run_ends_with_a_profile_and_a_short_table(run):
    out, done = run
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("tiny: cpu, 3 repeats")
    assert len(done.stdout.splitlines()) < 25
    assert "verify done" in done.stderr
    document = json.loads(out.read_text())
    assert document["format"] == "workbench.profile/1"
    assert document["measured"]["complete"] is True
    assert len(document["measured"]["spread"]) == len(document["verify"]["seconds"])
    assert str(out.parent) not in out.read_text()


def test_tables_are_full_matrices_of_sane_seconds(run):
    document = json.loads(run[0].read_text())
    for name, layers, rows, columns in (
        ("attention", "query_tokens", "requests", "context_tokens"),
        ("prefill", None, "chunk_tokens", "context_tokens"),
        ("draft", "context_tokens", "requests", "tokens"),
    ):
        part = document[name]
        tables = part["seconds"] if layers else [part["seconds"]]
        assert layers is None or len(tables) == len(part[layers])
        for table in tables:
            assert len(table) == len(part[rows])
            for row in table:
                assert len(row) == len(part[columns]) and min(row) >= 0
    assert min(document["verify"]["seconds"]) > 0
    assert document["verify"]["prefill_token_seconds"] <= 0
    fit = document["measured"]["fit_error"]
    assert fit["cells"] == fit["verify"]["cells"] == len(document["measured"]["held_out"])
    whole = document["measured"]["verify_whole"]
    assert whole["context_tokens"] == list(TINY_GRID.curve_contexts)
    assert len(whole["seconds"]) == len(whole["without_attention"]) == 2
    for line, bare in zip(whole["seconds"], whole["without_attention"], strict=True):
        assert all(0 < b < s for s, b in zip(line, bare, strict=True))
    mean = [sum(pair) / 2 for pair in zip(*whole["without_attention"], strict=True)]
    assert document["verify"]["seconds"] == pytest.approx(mean, abs=2e-9)
    assert len(document["measured"]["sustained"]) == 2 * len(TINY_GRID.power)
    assert set(document["graphs"]["batch_tokens"]) <= set(document["verify"]["batch_tokens"])


def test_the_workbench_reads_it(run):
    assert read_profile(run[0]).name == "tiny"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--model", "gpt-9"], "no model 'gpt-9'; there are qwen3-8b, "),
        (["--drafter", "eagle"], "no drafter 'eagle'"),
        (["--graphs", "some"], "--graphs: 'some' is no ladder"),
        (["--contexts", "8,64"], "--contexts: '8,64'"),
        (["--max-tokens", "0"], "--max-tokens: 0"),
        (["--drafter", "dspark,mtp"], "is one file for 2 drafters"),
        (["--model", "nowhere.json"], "no readable config.json"),
        (["--repeats", "1"], "--repeats: 1 is not within 2"),
        (["--block-size", "0"], "--block-size: 0"),
        (["--out", "nowhere/x.json"], "is no .json file in an existing folder"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, said, capsys, tmp_path):
    assert cli.main([*TINY, "--out", str(tmp_path / "x.json"), *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1 and error.startswith("gpu-probe: ")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu_is_said_in_one_line(capsys, tmp_path):
    assert cli.main(["--out", str(tmp_path / "x.json")]) == 2
    assert "no NVIDIA GPU is visible" in capsys.readouterr().err
    assert not (tmp_path / "x.json").exists()


def test_an_interrupt_keeps_what_was_measured_and_resume_goes_on(monkeypatch, capsys, tmp_path):
    def interrupt(rounds):
        raise KeyboardInterrupt

    out = tmp_path / "x.json"
    with monkeypatch.context() as patch:
        patch.setattr(parts, "draft", interrupt)
        assert cli.main([*TINY, "--out", str(out)]) == 130
    first = json.loads(out.read_text())
    assert "attention" in first and "draft" not in first
    assert first["measured"]["complete"] is False
    assert read_profile(out).draft is None
    said = capsys.readouterr().err.splitlines()[-1]
    assert "parts that were done are in" in said and "x.json; --resume" in said
    assert sorted(p.name for p in tmp_path.iterdir()) == [".x.checkpoint.json", "x.json"]

    def again(probe):
        raise AssertionError("measured already")

    monkeypatch.setattr(parts, "verify", again)
    assert cli.main([*TINY, "--resume", "--out", str(out)]) == 0
    second = json.loads(out.read_text())
    assert second["measured"]["complete"] is True and "draft" in second
    assert second["measured"]["verify_whole"] == first["measured"]["verify_whole"]
    assert [p.name for p in tmp_path.iterdir()] == ["x.json"]


def test_a_checkpoint_of_other_points_is_refused(monkeypatch, capsys, tmp_path):
    def interrupt(rounds):
        raise KeyboardInterrupt

    monkeypatch.setattr(parts, "draft", interrupt)
    out = str(tmp_path / "x.json")
    cli.main([*TINY, "--out", out])
    for other in (["--repeats", "4"], ["--block-size", "3"]):
        assert cli.main([*TINY, *other, "--resume", "--out", out]) == 2
        assert "belongs to a run with other points" in capsys.readouterr().err


def test_held_out_rounds_go_on_in_the_middle_and_are_the_same_for_all(monkeypatch, tmp_path):
    real, calls = parts.held_out, []

    def twice(drafters, cells):
        calls.append(len(cells))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(drafters, cells)

    monkeypatch.setattr(session, "HELD_OUT_AT_ONCE", 3)
    monkeypatch.setattr(parts, "held_out", twice)
    options = [*TINY, "--drafter", "dspark,mtp", "--out", str(tmp_path)]
    out = tmp_path / "cpu-tiny-fp32-dspark7.json"
    assert cli.main(options) == 130
    first = json.loads(out.read_text())["measured"]
    assert len(first["held_out"]) == 3 == first["fit_error"]["cells"]
    assert cli.main([*options, "--resume"]) == 0
    assert calls == [3, 3, 3, 2]
    second = json.loads(out.read_text())["measured"]["held_out"]
    assert len(second) == TINY_GRID.held_out
    assert [row["seconds"] for row in second[:3]] == [row["seconds"] for row in first["held_out"]]
    other = json.loads((tmp_path / "cpu-tiny-fp32-mtp7.json").read_text())["measured"]["held_out"]
    for row, same in zip(second, other, strict=True):
        for field in ("requests", "query_tokens", "mean_context", "chunk", "chunk_context"):
            assert row[field] == same[field]
        assert row["verify_seconds"] < row["seconds"]


def test_the_most_useful_parts_come_first(tmp_path):
    outs = {key: tmp_path / f"{key}.json" for key in ("dspark", "none", "mtp")}
    sizes = {"dspark": 7, "none": 0, "mtp": 7}
    made = session.Session(
        MODELS["tiny"], outs, sizes, "cpu", torch.float32, TINY_GRID, 3, "gpu-probe"
    )
    order = {name: i for i, name in enumerate(made.names)}
    assert order["verify"] < order["draft mtp"] < order["held_out dspark"] < order["host mtp"]
    assert made.names[-3:] == ["mixed", "sequential dspark", "power"]
    assert "held_out none" in order and "draft none" not in order


def test_a_checkpoint_keeps_the_attention_kernel(monkeypatch, tmp_path):
    def again(probe, most):
        raise AssertionError("chosen already")

    monkeypatch.setattr(autotune, "attention_settings", again)
    outs = {"dspark": tmp_path / "x.json"}
    made = session.Session(
        MODELS["tiny"], outs, {"dspark": 7}, "cpu", torch.float32, TINY_GRID, 3, "gpu-probe"
    )
    row = {"bucket": "16 rows, few", **Setting("spans", 128, 4, 3)._asdict()}
    made.parts["attention_kernel"] = {"most_queries": 8, "buckets": [row]}
    kernels = SimpleNamespace(attention=SimpleNamespace())
    made._measure("attention_kernel", SimpleNamespace(decoder=SimpleNamespace(kernels=kernels)), {})
    assert kernels.attention.chosen == {"16 rows, few": Setting("spans", 128, 4, 3)}


def test_one_run_measures_the_target_once_for_every_drafter(tmp_path):
    options = ["--drafter", "none,eagle3,mtp", "--block-size", "3", "--contexts", "32,64"]
    assert cli.main([*TINY, *options, "--graphs", "1,2,8,16", "--out", str(tmp_path)]) == 0
    names = ["cpu-tiny-fp32-eagle3-3", "cpu-tiny-fp32-mtp3", "cpu-tiny-fp32-none"]
    assert sorted(p.stem for p in tmp_path.iterdir()) == names
    documents = [json.loads((tmp_path / f"{name}.json").read_text()) for name in names]
    assert len({json.dumps(d["verify"]) for d in documents}) == 1
    eagle, _, none = documents
    assert eagle["draft"]["tokens"] == [1, 3] and "draft" not in none
    assert none["graphs"]["batch_tokens"] == [1, 2, 8, 16]
    assert none["attention"]["context_tokens"] == [16, 32, 64]
    for name in names:
        assert read_profile(tmp_path / f"{name}.json").name == name


@pytest.mark.parametrize(
    "few",
    [
        ["--graphs", "1,2,4"],
        ["--max-tokens", "4"],
        ["--contexts", "1024"],
        ["--graphs", "8"],
        ["--contexts", "17,18"],
        ["--contexts", "30008"],
    ],
)
def test_few_sizes_and_long_contexts_are_measured_to_the_end(few, tmp_path):
    out = tmp_path / "x.json"
    assert cli.main([*TINY, *few, "--out", str(out)]) == 0
    document = json.loads(out.read_text())
    assert document["measured"]["complete"] is True
    last, past = document["graphs"]["batch_tokens"][-1], document["graphs"]["beyond"]
    assert len(past["seconds"]) >= 2 and last < past["batch_tokens"][0] <= 2 * last
    assert read_profile(out).graphs is not None
    assert set(TINY_GRID.curve_contexts) <= set(document["attention"]["context_tokens"])


def test_a_resumed_run_finds_the_checkpoint_whichever_drafter_came_first(monkeypatch, tmp_path):
    def interrupt(rounds):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(parts, "host", interrupt)
        options = [*TINY, "--drafter", "dspark,mtp", "--out", str(tmp_path)]
        assert cli.main(options) == 130
    first = json.loads((tmp_path / "cpu-tiny-fp32-mtp7.json").read_text())
    # the drafters of the first run are remembered by a run without them
    with monkeypatch.context() as patch:
        patch.setattr(parts, "mixed", interrupt)
        options = [*TINY, "--drafter", "none,dspark", "--resume", "--out", str(tmp_path)]
        assert cli.main(options) == 130
    other = [*TINY, "--drafter", "mtp,dspark", "--block-size", "3", "--resume"]
    names = [".cpu-tiny-fp32-dspark7.checkpoint.json", ".cpu-tiny-fp32-mtp3.checkpoint.json"]
    (tmp_path / names[0]).rename(tmp_path / names[1])  # as its files are called otherwise
    assert cli.main([*other, "--out", str(tmp_path)]) == 2
    (tmp_path / names[1]).rename(tmp_path / names[0])
    (tmp_path / "cpu-tiny-fp32-none.json").unlink()
    options = [*TINY, "--drafter", "eagle3,mtp,dspark", "--resume", "--out", str(tmp_path)]
    assert cli.main(options) == 0
    names = [f"cpu-tiny-fp32-{key}.json" for key in ("dspark7", "eagle3-7", "mtp7")]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    second = json.loads((tmp_path / "cpu-tiny-fp32-mtp7.json").read_text())
    assert second["measured"]["verify_whole"] == first["measured"]["verify_whole"]


def test_a_place_that_cannot_be_written_is_said_in_one_line(capsys):
    assert cli.main([*TINY, "--out", "/proc/x.json"]) == 2
    assert "/proc" in capsys.readouterr().err.splitlines()[-1]


def test_a_whole_profile_is_not_given_up_for_an_interrupted_run(run, monkeypatch, tmp_path):
    out = tmp_path / "tiny.json"
    out.write_text(run[0].read_text())
    with monkeypatch.context() as patch:

        def interrupt(rounds):
            raise KeyboardInterrupt

        patch.setattr(parts, "draft", interrupt)
        assert cli.main([*TINY, "--out", str(out)]) == 130
    assert out.read_text() == run[0].read_text()
    assert cli.main([*TINY, "--resume", "--out", str(out)]) == 0
    again = json.loads(out.read_text())
    assert again["measured"]["complete"] is True and out.read_text() != run[0].read_text()


def test_a_drafter_that_joins_catches_up_with_the_held_out_rounds(monkeypatch, tmp_path):
    def interrupt(*rounds):
        raise KeyboardInterrupt

    out = tmp_path / "cpu-tiny-fp32-dspark7.json"
    with monkeypatch.context() as patch:
        patch.setattr(parts, "host", interrupt)
        assert cli.main([*TINY, "--drafter", "dspark", "--out", str(tmp_path)]) == 130
    before = json.loads(out.read_text())["measured"]["held_out"]
    monkeypatch.setattr(session, "HELD_OUT_AT_ONCE", 3)
    both = [*TINY, "--drafter", "dspark,mtp", "--resume", "--out", str(tmp_path)]
    real, calls = parts.held_out, []

    def once(drafters, cells):
        calls.append((len(drafters), len(cells)))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(drafters, cells)

    monkeypatch.setattr(parts, "held_out", once)
    assert cli.main(both) == 130
    kept = json.loads((tmp_path / ".cpu-tiny-fp32-dspark7.checkpoint.json").read_text())["parts"]
    assert len(kept["held_out dspark"]["cells"]) == len(before) == TINY_GRID.held_out
    assert len(kept["held_out mtp"]["cells"]) == 3
    assert cli.main(both) == 0
    assert calls == [(1, 3), (1, 3), (1, 3), (1, 2)]
    assert [row["seconds"] for row in json.loads(out.read_text())["measured"]["held_out"]] == [
        row["seconds"] for row in before
    ]


@pytest.mark.parametrize("deep", [["--draft-layers", "9"], ["--drafter", "dflash"]])
def test_a_drafter_may_be_deeper_than_its_target(deep, tmp_path):
    out = tmp_path / "x.json"
    assert cli.main([*TINY, *deep, "--out", str(out)]) == 0


@pytest.mark.parametrize(
    "options",
    [
        ["--graphs", "1000000000"], ["--contexts", "9999999999"], ["--repeats", "99999999"],
        ["--draft-layers", "1000"], ["--markov-rank", "1000000000"], ["--graphs", ""],
    ],
)  # fmt: skip
def test_sizes_past_all_measure_are_refused_at_once(options, capsys, tmp_path):
    assert cli.main([*TINY, *options, "--out", str(tmp_path / "x.json")]) == 2
    assert options[0] in capsys.readouterr().err


def test_weights_larger_than_the_memory_are_refused(capsys, tmp_path):
    path = tmp_path / "huge.json"
    sizes = {"num_hidden_layers": 10**9, "hidden_size": 4096, "num_attention_heads": 32}
    path.write_text(json.dumps({**sizes, "intermediate_size": 1, "vocab_size": 100}))
    command = ["--device", "cpu", "--model", str(path), "--out", str(tmp_path / "x.json")]
    assert cli.main(command) == 2
    assert "the weights of huge take" in capsys.readouterr().err


def test_options_of_one_call_do_not_change_the_next(tmp_path):
    before = {key: vars(shape).copy() for key, shape in DRAFTERS.items()}
    options = ["--draft-layers", "3", "--markov-rank", "8", "--out", str(tmp_path / "x.json")]
    assert cli.main([*TINY, *options]) == 0
    document = json.loads((tmp_path / "x.json").read_text())
    assert (document["drafter"]["layers"], document["drafter"]["markov_rank"]) == (3, 8)
    assert {key: vars(shape) for key, shape in DRAFTERS.items()} == before


@pytest.mark.parametrize("out", [["--out", "{}/"], ["--out", "{}"], ["--out={}"]])
def test_the_recorded_command_names_no_place_of_this_machine(out, tmp_path):
    given = [*TINY, *(word.format(tmp_path) for word in out)]
    command = cli._command(given, tmp_path)
    assert str(tmp_path.parent) not in command and command.endswith(tmp_path.name)
