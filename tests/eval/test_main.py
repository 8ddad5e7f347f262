"""The command: which rows are evaluated, what is printed and returned, how it refuses."""

import io
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

import needlex
from needlex.data.render import render_answer
from needlex.eval.__main__ import main
from needlex.schema import Example


@dataclass(frozen=True)
class Prediction:
    text: str
    error: str | None = None


class Model:
    """Answers every row right, unless the query asks for something else; remembers what it was asked."""

    def __init__(self):
        self.asked: list[list[Example]] = []
        self.settings: list[tuple[int, int | None]] = []

    def predict(
        self, examples: Sequence[Example], batch_size: int, max_new_tokens: int | None, constrained: bool
    ) -> list[Prediction]:
        assert constrained
        self.asked.append(list(examples))
        self.settings.append((batch_size, max_new_tokens))
        return [self.answer(e) for e in examples]

    def answer(self, example: Example) -> Prediction:
        if "long" in example.query:
            return Prediction("", "too_long: 900 tokens, the limit is 512")
        if "silent" in example.query:
            return Prediction("[]")
        return Prediction(render_answer(example.calls)[0])


@pytest.fixture
def model(monkeypatch, tmp_path):
    found = Model()

    def load(path):
        assert path == "run"
        return found

    (tmp_path / "run").mkdir()
    monkeypatch.setitem(vars(needlex), "load", load)
    monkeypatch.chdir(tmp_path)
    return found


TOOLS = [{"name": "ring", "parameters": {"at": "string"}}, {"name": "dial"}, {"name": "hush"}]


def rows(*queries: str) -> list[dict]:
    return [
        {"query": q, "tools": TOOLS, "answers": [{"name": "ring", "arguments": {"at": str(i)}}]}
        for i, q in enumerate(queries)
    ]


def write(path: str, data: list[dict], *others: str) -> str:
    lines = [json.dumps(row) for row in data] + list(others)
    Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def run(capsys, *flags: str) -> tuple[dict, str, str]:
    capsys.readouterr()
    result = main(["--checkpoint", "run", *flags])
    out, err = capsys.readouterr()
    return result, out, err


def test_the_embedded_sets_are_the_default_and_json_is_the_last_line(model, capsys):
    result, out, _ = run(capsys, "--max-samples", "7", "--json", "--batch-size", "3", "--max-gen-len", "40")
    assert json.loads(out.splitlines()[-1]) == result
    assert list(result) == ["seen_values", "unseen_values", "unseen_templates", "unseen_names"]
    for report in result.values():
        assert (report["rows"], report["available"], report["rejected"]) == (7, 7, 0)
        assert (report["exact_match"], report["errors"]) == (1.0, {"too_long": 0})
        assert "failures" not in report
    assert model.settings == [(3, 40)] * 4
    assert len({e.query for asked in model.asked for e in asked}) > 20


def test_without_json_the_output_is_tables(model, capsys):
    result, out, _ = run(capsys, "--data", write("a.jsonl", rows("one", "silent")))
    lines = out.splitlines()
    assert lines[0].split()[:5] == ["set", "rows", "errors", "parse", "name"]
    assert lines[1].split()[:4] == ["a", "2", "0", "1.000"]
    assert "call_type single" in out
    assert not out.rstrip().endswith("}")
    assert result["a"]["with_calls"] == {"rows": 2, "missed_call_rate": 0.5}


def test_unseen_names_are_the_held_out_kind_and_the_same_each_time(model, capsys):
    for _ in range(2):
        run(capsys, "--data", "unseen_names", "--max-samples", "30")
    assert model.asked[0] == model.asked[1]
    plain = {t.name for e in _embedded(model, capsys, "seen_values") for t in e.tools}
    restyled = {t.name for e in model.asked[0] for t in e.tools}
    assert not plain & restyled


def _embedded(model, capsys, name):
    run(capsys, "--data", name, "--max-samples", "200")
    return model.asked[-1]


def test_every_row_of_a_file_is_counted(model, capsys):
    data = rows("one", "long two", "silent three", "four")
    result, out, err = run(
        capsys, "--data", write("a.jsonl", data, "{", '{"query": "no tools"}'), "--failures", "9"
    )
    report = result["a"]
    assert (report["rows"], report["available"], report["rejected"]) == (4, 4, 2)
    assert report["errors"] == {"too_long": 1}
    assert (report["exact_match"], report["parse_rate"], report["call_recall"]) == (2 / 4, 3 / 4, 2 / 4)
    assert "a.jsonl:5:" in err and "a.jsonl:6:" in err and "2 of 6 rows rejected" in err
    assert "1 rows without an answer" in err
    assert [(f["query"], f["reason"]) for f in report["failures"]] == [
        ("long two", "too_long: 900 tokens, the limit is 512"),
        ("silent three", "missed_call: ring"),
    ]
    assert 'expected: [{"name":"ring","arguments":{"at":"2"}}]' in out


def test_max_samples_draws_from_the_whole_file_in_its_order(model, capsys):
    name = write("a.jsonl", rows(*(f"q{i:03}" for i in range(200))))
    for _ in range(2):
        result, _, _ = run(capsys, "--data", name, "--max-samples", "20")
        assert (result["a"]["rows"], result["a"]["available"]) == (20, 200)
    queries = [e.query for e in model.asked[0]]
    assert queries == sorted(set(queries)) and len(queries) == 20
    assert queries[-1] > "q100"
    assert model.asked[0] == model.asked[1]
    run(capsys, "--data", name, "--max-samples", "300")
    assert len(model.asked[-1]) == 200


def test_max_tools_keeps_the_called_tools(model, capsys):
    result, _, _ = run(capsys, "--data", write("a.jsonl", rows(*"abcdefgh")), "--max-tools", "2")
    assert all(len(e.tools) == 2 and "ring" in {t.name for t in e.tools} for e in model.asked[0])
    assert len({t.name for e in model.asked[0] for t in e.tools}) == 3
    assert list(result["a"]["breakdown"]["tools"]) == ["2"]


def test_sets_keep_apart_files_of_one_name(model, capsys):
    Path("x").mkdir()
    names = write("a.jsonl", rows("one")), write("x/a.jsonl", rows("one", "two"))
    write("b.json", [])
    Path("b.json").write_text(json.dumps(rows("three")))
    result, _, _ = run(capsys, "--data", *names, "--data", "b.json", "seen_values", "--max-samples", "9")
    assert {k: v["rows"] for k, v in result.items()} == {
        "a.jsonl": 1,
        "x/a.jsonl": 2,
        "b": 1,
        "seen_values": 9,
    }


def test_output_is_a_file_with_the_same_object(model, capsys):
    result, _, _ = run(capsys, "--data", write("a.jsonl", rows("one")), "--output", "eval.json")
    assert json.loads(Path("eval.json").read_text()) == result
    assert sorted(p.name for p in Path().iterdir()) == ["a.jsonl", "eval.json", "run"]


def test_a_terminal_without_unicode_gets_escapes(model, monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    data = rows("silent\n\u266b")
    main(["--checkpoint", "run", "--data", write("a.jsonl", data), "--failures", "1", "--json"])
    sys.stdout.flush()
    text = raw.getvalue().decode("ascii")
    assert "query: silent\\n\\u266b" in text
    assert json.loads(text.splitlines()[-1])["a"]["failures"][0]["query"] == "silent\n\u266b"


REFUSED = [
    (["--checkpoint", "nowhere"], "no checkpoint at nowhere"),
    (["--checkpoint", "run", "--data", "nowhere.jsonl"], "no data file at nowhere.jsonl.*seen_values"),
    (["--checkpoint", "run", "--data", "bad.jsonl"], "no usable row in bad.jsonl: 2 of 2"),
    (["--checkpoint", "run", "--data", "empty.jsonl"], "empty.jsonl"),
    (["--checkpoint", "run", "--data", "a.csv"], "unknown format"),
    (["--checkpoint", "run", "--data", "a.jsonl", "a.jsonl"], "a.jsonl: named twice"),
    (["--checkpoint", "run", "--data", "a.jsonl", "--output", "no/such.json"], "no/such.json"),
    (["--checkpoint", "run", "--data", "a.jsonl", "--output", "run"], "--output run"),
]


@pytest.mark.parametrize(("flags", "message"), REFUSED)
def test_what_cannot_be_used_is_refused_with_a_message_before_anything_is_decoded(model, flags, message):
    write("bad.jsonl", [], "{", "[]")
    write("a.jsonl", rows("one"))
    write("a.csv", rows("one"))
    Path("empty.jsonl").touch()
    with pytest.raises(SystemExit, match=message) as refused:
        main(flags)
    assert isinstance(refused.value.code, str)  # printed to stderr, status 1
    assert not model.asked


def test_a_checkpoint_that_cannot_be_loaded_is_refused(model, monkeypatch):
    def broken(path):
        raise ValueError("no params in it")

    monkeypatch.setitem(vars(needlex), "load", broken)
    with pytest.raises(SystemExit, match="checkpoint run cannot be loaded: no params in it"):
        main(["--checkpoint", "run", "--data", write("a.jsonl", rows("one"))])


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--max-samples", "0"], "--max-samples is 0; it must be at least 1"),
        (["--batch-size", "-1"], "--batch-size is -1"),
        (["--failures", "-1"], "--failures is -1"),
        (["--data"], "--data without a value"),
        (["--max-sample", "3"], "--max-samples"),
    ],
)
def test_wrong_flags_are_refused(model, capsys, flags, message):
    with pytest.raises(SystemExit) as refused:
        main(["--checkpoint", "run", *flags])
    assert refused.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_as_a_module_it_exits_with_1_and_no_traceback(tmp_path):
    nowhere, root = str(tmp_path / "nowhere"), Path(needlex.__file__).parents[1]
    command = [sys.executable, "-m", "needlex.eval", "--checkpoint", nowhere, "--json"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith(f"needlex.eval: no checkpoint at {nowhere}")
    assert "Traceback" not in done.stderr
