"""The command line: one JSON object last, errors that name the field, no tracebacks."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from needlex import cli, generate_data, run
from needlex.eval.__main__ import main as evaluate
from needlex.train.__main__ import main as train
from tests.train.runs import TOOLS, trained, write_rows


def status(function, argv) -> int:
    """Exit status of a command, whether it returns one or exits with one."""
    try:
        found = function(argv)
    except SystemExit as e:
        if isinstance(e.code, str):  # what the interpreter prints when it exits with a message
            print(e.code, file=sys.stderr)
        return 0 if e.code is None else e.code if isinstance(e.code, int) else 1
    return found if isinstance(found, int) else 0


def plain(text: str) -> str:
    """What tyro prints, in one line without boxes."""
    return " ".join(re.sub(r"[│╭╮╰╯─]|-{5,}", " ", text).split())


def test_commands_are_listed_and_unknown_ones_refused(capsys):
    cli.main([])
    listed = capsys.readouterr().out
    assert all(name in listed for name in ("train", "run", "eval", "generate-data"))
    assert status(cli.main, ["trian"]) == 2
    assert "unknown command 'trian'" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["train", "run", "eval", "generate-data"])
def test_every_command_explains_its_flags(command, capsys):
    assert status(cli.main, [command, "--help"]) == 0
    assert "--json" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "unknown", "nearest"),
    [
        (["train", "--config", "tiny", "--optim.lrr", "3"], "--optim.lrr", "--optim.lr FLOAT"),
        (["run", "--checkpoint", "x", "--query", "q", "--tools", "[]", "--max-length", "3"], "--max-length", "--max-len"),
        (["eval", "--checkpoint", "x", "--max-sampels", "3"], "--max-sampels", "--max-samples"),
        (["generate-data", "--output-jsonl", "x", "--num-sample", "3"], "--num-sample,", "--num-samples INT"),
    ],
)  # fmt: skip
def test_unknown_flags_are_refused_with_the_nearest_name(argv, unknown, nearest, capsys):
    """C3."""
    assert status(cli.main, argv) == 2
    said = plain(capsys.readouterr().err)
    refused, _, meant = said.partition("Perhaps you meant:")
    assert f"Unrecognized options: {unknown}" in refused
    assert nearest in meant


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"data": {"batchsize": 3}}, "unknown field data.batchsize; did you mean data.batch_size?"),
        ({"steps": "many"}, "steps is 'many'"),
    ],
)
def test_unknown_keys_of_a_configuration_are_refused_with_the_nearest_name(raw, message, capsys, tmp_path):
    """C3, in a file."""
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(raw))
    assert status(cli.main, ["train", "--config", str(path), "--run-dir", str(tmp_path / "run")]) == 2
    said = plain(capsys.readouterr().err)
    assert message in said and str(path) in said
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["eval", "--checkpoint", "x", "--batch-size", "0"], "--batch-size is 0; it must be at least 1"),
        (["eval", "--checkpoint", "x", "--batch-size", "1e5"], "--batch-size"),
        (["generate-data", "--output-jsonl", "x", "--num-samples", "0"], "num_samples must be at least 1, got 0"),
        (["generate-data", "--output-jsonl", "x", "--split", "tests"], "invalid choice 'tests' for argument '--split'"),
        (["run", "--query", "q", "--tools", "[]"], "--checkpoint"),
    ],
)  # fmt: skip
def test_impossible_values_are_refused_with_status_2_by_name(argv, message, capsys):
    assert status(cli.main, argv) == 2
    said = capsys.readouterr()
    assert message in plain(said.err) and said.out == ""


def test_train_ends_with_one_object(capsys, tmp_path):
    config = str(trained() / "config.json")
    run_dir = str(tmp_path / "run")
    assert (
        status(cli.main, ["train", "--config", config, "--run-dir", run_dir, "--steps", "1", "--json"]) == 0
    )
    out = capsys.readouterr().out.splitlines()
    last = json.loads(out[-1])
    assert (last["run_dir"], last["steps"], last["finished"]) == (run_dir, 1, True)
    assert last["validation"]["rows"] == 1 and last["train_loss"] > 0  # 2% of 60 rows
    assert [line for line in out if line.startswith("{")] == [out[-1]]


def test_run_ends_with_one_object(capsys):
    tools, query = json.dumps(TOOLS), "ring at den 3"
    argv = ["run", "--checkpoint", str(trained()), "--query", query, "--tools", tools, "--json"]
    assert status(cli.main, argv) == 0  # of what six updates have taught, the grammar still makes calls
    out = capsys.readouterr().out.splitlines()
    last = json.loads(out[-1])
    assert last["query"] == query and {c["name"] for c in last["calls"]} <= {t["name"] for t in TOOLS}
    assert len(out) == 1 + max(1, len(last["calls"]))


def test_an_answer_that_is_no_list_of_calls_is_an_error_with_its_text(capsys):
    argv = ["--checkpoint", str(trained()), "--query", "q", "--tools", json.dumps(TOOLS), "--json"]
    assert status(run.main, [*argv, "--no-constrained", "--max-len", "1"]) == 1
    said = capsys.readouterr()
    last = json.loads(said.out.splitlines()[-1])
    assert last["calls"] is None and isinstance(last["text"], str) and last["error"] in said.err
    assert "Traceback" not in said.err


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        ("nofile.json", "--tools nofile.json: no such file, and not JSON"),
        ('"x"', "no such file, and not JSON"),
        ('[{"name": ', "--tools is not valid JSON"),
        ("[]", "no tools"),
        ("{}", "name"),
        ('[{"description": "x"}]', "name"),
        ('[{"name": "a"}, {"name": "a", "parameters": {"x": "int"}}]', "share the name ['a']"),
        ('[{"name": "a", "parameters": {"x": {"minimum": NaN}}}]', "NaN is not a finite number"),
        ('[{"name": "a", "parameters": {"x": {"minimum": ' + "7" * 5000 + "}}}]", "thousands of digits"),
        ("[" * 100_000, "nested too deeply"),
        ('[{"name": "a", "parameters": {"x": {"pattern": "(", "type": "string"}}}]', "tool 'a', parameters/x: 'pattern'"),
        ('[{"name": "\\ud800"}]', "not valid Unicode"),
    ],
    ids=range(12),
)  # fmt: skip
def test_bad_tools_are_explained(tools, message, capsys):
    assert status(run.main, ["--checkpoint", str(trained()), "--query", "q", "--tools", tools]) == 1
    said = capsys.readouterr().err
    assert message in said and "Traceback" not in said


def test_tools_are_read_from_a_file_whose_faults_are_located(capsys, tmp_path):
    path = tmp_path / "tools.json"
    path.write_text(json.dumps(TOOLS), encoding="utf-8-sig")  # with the mark that some editors write
    assert run.read_tools(str(path)) == TOOLS == run.read_tools(json.dumps(TOOLS))
    argv = ["--checkpoint", str(trained()), "--query", "q", "--tools", str(path)]
    for content, message in [
        (b'[\n{"name": "a"},\n{"name" "b"}\n]', r"is not valid JSON: .* at line 3, column 9"),
        (b"[\xff]", "is not UTF-8 text: byte 1"),
        (b"", "is not valid JSON"),
    ]:
        path.write_bytes(content)
        assert status(run.main, argv) == 1
        assert re.search(f"--tools {re.escape(str(path))} {message}", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("query", "flags", "message"),
    [
        ("ring " * 2000, [], r"too_long.*the limit is 384"),
        ("q", ["--max-len", "0"], r"the budget is 1 tokens.*raise"),
        ("q", ["--tokenizer", "gone.model"], r"no tokenizer at gone\.model"),
        ("\udcff", [], "not valid Unicode"),
    ],
    ids=range(4),
)
def test_bad_queries_and_budgets_are_explained(query, flags, message, capsys):
    argv = ["--checkpoint", str(trained()), "--query", query, "--tools", json.dumps(TOOLS), *flags]
    assert status(run.main, argv) == 1
    said = capsys.readouterr().err
    assert re.search(message, said) and "Traceback" not in said


def test_a_missing_checkpoint_is_explained(capsys, tmp_path):
    gone = str(tmp_path / "gone")
    assert status(run.main, ["--checkpoint", gone, "--query", "q", "--tools", "[]"]) == 1
    assert "gone" in capsys.readouterr().err
    assert status(evaluate, ["--checkpoint", gone]) == 1
    assert "gone" in capsys.readouterr().err


def test_eval_ends_with_one_object_that_counts_every_row(capsys, tmp_path):
    data = write_rows(tmp_path / "some.jsonl")
    assert (
        status(evaluate, ["--checkpoint", str(trained()), "--data", data, "--max-samples", "9", "--json"])
        == 0
    )
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert "name_f1" in json.dumps(last) and '"rows": 9' in json.dumps(last)


def test_generate_data_is_the_same_twice_and_never_overwrites(capsys, tmp_path):
    argv = ["--output-jsonl", str(tmp_path / "a.jsonl.gz"), "--num-samples", "30", "--seed", "4", "--json"]
    assert status(generate_data.main, argv) == 0
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last["rows"] == 30 and sum(last["calls"].values()) == 30
    before = (tmp_path / "a.jsonl.gz").read_bytes()
    assert status(generate_data.main, argv) == 1
    assert "--overwrite" in capsys.readouterr().err
    assert status(generate_data.main, [*argv, "--overwrite"]) == 0
    assert (tmp_path / "a.jsonl.gz").read_bytes() == before


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--config", "tyni"], ("tyni", "tiny")),
        (["--config", "tiny", "--steps", "0"], ("steps",)),
        (["--config", "tiny", "--model.heads", "3"], ("heads",)),
        (["--config", "tiny", "--precision", "float61"], ("float61", "float32")),
        (["--config", "tiny", "--data.train", "gone.jsonl"], ("gone.jsonl",)),
    ],
)
def test_train_refuses_what_cannot_be(flags, words, capsys, tmp_path):
    assert status(train, [*flags, "--run-dir", str(tmp_path / "run")]) != 0
    said = capsys.readouterr()
    for word in words:
        assert word in said.err + said.out
    assert "Traceback" not in said.err
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_bad_rows_of_eval_are_explained(capsys, tmp_path):
    (tmp_path / "bad.jsonl").write_text('nope\n{"tools": []}\n')
    for data, words in [
        (str(tmp_path / "bad.jsonl"), ("2 of 2 rows rejected", "bad.jsonl:1:", "bad.jsonl:2: row without a query")),
        ("unseen_value", ("no data file at unseen_value", "unseen_values")),
    ]:  # fmt: skip
        assert status(evaluate, ["--checkpoint", str(trained()), "--data", data]) == 1
        said = capsys.readouterr().err
        assert all(word in said for word in words) and "Traceback" not in said


def test_the_process_fails_with_a_message_and_no_traceback(tmp_path):
    """A status that a command returns is the status of the console script; run in an empty directory."""
    (tmp_path / "folder").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "needlex.cli", "generate-data", "--num-samples", "3", "--overwrite",
         "--output-jsonl", str(tmp_path / "folder")],
        capture_output=True, text=True, timeout=120, cwd=tmp_path,
        env={"PYTHONPATH": str(Path(cli.__file__).parents[1]), "PATH": ""},
    )  # fmt: skip
    assert done.returncode == 1
    assert "is a folder; give a file in it" in done.stderr and "Traceback" not in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]
