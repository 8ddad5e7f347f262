"""The command line: one JSON object last, errors that name the field, no tracebacks."""

from __future__ import annotations

import json
import sys

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


@pytest.mark.parametrize("command", ["train", "run", "eval", "generate-data"])
def test_unknown_flags_are_refused_by_name(command, capsys):
    """C3."""
    assert status(cli.main, [command, "--config", "tiny", "--stepz", "3"]) != 0
    said = capsys.readouterr()
    assert "stepz" in said.err + said.out


def test_run_ends_with_one_object(capsys):
    tools, query = json.dumps(TOOLS), "ring at den 3"
    code = status(run.main, ["--checkpoint", str(trained()), "--query", query, "--tools", tools, "--json"])
    said = capsys.readouterr()
    last = json.loads(said.out.splitlines()[-1])
    assert last["query"] == query
    # Six updates teach nothing; what counts is that a bad answer is an error with its text.
    assert (code == 0 and isinstance(last["calls"], list)) or (code == 1 and last["text"] is not None)
    assert "Traceback" not in said.err


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        ("nofile.json", "no such file, and not JSON"),
        ('[{"name": ', "not valid JSON"),
        ("[]", "no tools"),
        ('[{"description": "x"}]', "name"),
        ('[{"name": "a"}, {"name": "a", "parameters": {"x": "int"}}]', "share the name"),
    ],
)
def test_bad_tools_are_explained(tools, message, capsys):
    assert status(run.main, ["--checkpoint", str(trained()), "--query", "q", "--tools", tools]) == 1
    said = capsys.readouterr().err
    assert message in said and "Traceback" not in said


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
