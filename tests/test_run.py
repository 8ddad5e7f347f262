"""`run`: calls printed while they are written, one JSON object last, no traceback."""

from __future__ import annotations

import io
import json
import sys

import pytest

import needlex
from needlex import run
from needlex.api import ToolCaller
from needlex.decode.loop import Sampling
from tests.test_api import with_lively_head
from tests.test_api_stream import QUERY, loaded, writes
from tests.train.runs import TOOLS

DRAWN = range(1, 7)


@pytest.fixture(autouse=True)
def model(monkeypatch) -> ToolCaller:
    """Loaded once: that a run loads is tested with the other commands."""
    monkeypatch.setattr(needlex, "load", lambda *_, **__: loaded())
    return loaded()


def argv(*flags: str, query: str = QUERY, tools=TOOLS) -> list[str]:
    return ["--checkpoint", "x", "--query", query, "--tools", json.dumps(tools), *flags]


def failed(*args, **kwargs) -> None:
    with pytest.raises(SystemExit) as e:
        run.main(argv(*args, **kwargs))
    assert e.value.code == 1


def line(call) -> str:
    parts = [f"{k}={json.dumps(v, ensure_ascii=False)}" for k, v in call.arguments.items()]
    return f"{call.name}({', '.join(parts)})"


@pytest.mark.parametrize("seed", DRAWN)
def test_what_is_printed_are_the_calls_one_a_line(model, capsys, seed):
    wanted = model.call(QUERY, TOOLS, sampling=Sampling(1.5, 0.9, seed))
    found = run.main(argv("--temperature", "1.5", "--top-p", "0.9", "--seed", str(seed), "--json"))
    *lines, last, end = capsys.readouterr().out.split("\n")
    assert lines == ([line(c) for c in wanted] or ["no call: none of the tools serves this query"])
    assert json.loads(last) == {"query": QUERY, "calls": found} and end == ""
    assert found == [c.to_json() for c in wanted]


def test_without_a_temperature_the_seed_is_nothing(model, capsys):
    wanted = [c.to_json() for c in model.call(QUERY, TOOLS)]
    assert run.main(argv("--seed", "1")) == run.main(argv("--seed", "2")) == wanted
    assert "{" not in capsys.readouterr().out  # no JSON that nobody asked for


TWO = '[{"name":"dim","arguments":{"lamp":4,"to":[1,{"a":null}]}},{"name":"ring","arguments":{"at":"den \\"3\\"\\n"}}]'
PRINTED = 'dim(lamp=4, to=[1, {"a": null}])\nring(at="den \\"3\\"\\n")\n'


def test_parts_are_printed_while_the_model_writes(monkeypatch, capsys):
    shown: list[str] = []

    def look():
        shown.append((shown[-1] if shown else "") + capsys.readouterr().out)

    writes(monkeypatch, TWO, between=look)
    run.main(argv())
    look()
    assert shown[-1] == PRINTED and all(PRINTED.startswith(s) for s in shown)
    for state in ("", "dim(", "dim(lamp=4", PRINTED[: PRINTED.index("\n") + 1] + "ring("):
        assert state in shown


@pytest.mark.parametrize(
    "text",
    [
        '[{"name":"dim","arguments":{"lamp":1,"to":2,"lamp":4}}]',  # the last one counts
        '[{"name":"stop","function":{"name":"dim","arguments":{"lamp":4,"to":2}}}]',
        '[{"arguments":{"lamp":4,"to":2},"name":"dim"}]',
    ],
)
def test_whatever_the_form_a_free_answer_is_printed_as_what_it_means(monkeypatch, capsys, text):
    writes(monkeypatch, text)
    assert run.main(argv("--no-constrained")) == [{"name": "dim", "arguments": {"lamp": 4, "to": 2}}]
    assert capsys.readouterr().out == "dim(lamp=4, to=2)\n"


def test_a_broken_answer_ends_its_line_and_is_an_error(monkeypatch, capsys):
    text = TWO[: TWO.index(',"to"') + 1]
    writes(monkeypatch, text)
    failed("--json")
    said = capsys.readouterr()
    first, last, end = said.out.split("\n")
    report = json.loads(last)
    assert first == "dim(lamp=4" and end == "" and report["text"] == text
    assert (report["query"], report["calls"]) == (QUERY, None)
    assert said.err == f"needlex.run: {report['error']}\n"


@pytest.mark.parametrize(
    ("flags", "changes", "why"),
    [
        ([], {"query": ""}, "the query is empty; say in words"),
        ([], {"query": "  "}, "the query is empty"),
        ([], {"query": "ring " * 20_000}, "takes 40001 tokens, the limit is 384"),
        ([], {"query": "\udcff"}, "not valid Unicode"),
        ([], {"tools": []}, "no tools"),
        ([], {"tools": [{"name": "a", "parameters": {"x": {"$ref": "#"}}}]}, "tool 'a', parameters/x"),
        (["--max-len", "1"], {}, "raise max_new_tokens"),
        (["--temperature", "-1"], {}, "temperature is -1.0; it must be 0"),
        (["--top-p", "0"], {}, "top_p is 0.0; it must be above 0"),
        (["--max-tools", "0"], {}, "max_tools is 0; it must be at least 1"),
    ],
    ids=range(10),
)  # fmt: skip
def test_what_cannot_be_answered_is_one_object_too(flags, changes, why, capsys):
    failed(*flags, "--json", **changes)
    said = capsys.readouterr()
    report = json.loads(said.out)
    assert report == {"query": changes.get("query", QUERY), "calls": None, "error": report["error"]}
    assert (
        why in report["error"]
        and said.err == f"needlex.run: {report['error']}\n".encode("utf-8", "backslashreplace").decode()
    )
    failed(*flags, **changes)
    assert capsys.readouterr().out == ""


def test_invalid_tools_are_one_object_too(capsys):
    with pytest.raises(SystemExit, match="1"):
        run.main(["--checkpoint", "x", "--query", QUERY, "--tools", '[{"name": ', "--json"])
    assert "--tools is not valid JSON" in json.loads(capsys.readouterr().out)["error"]


def test_a_choice_of_tools_is_said_and_in_the_object(model, monkeypatch, capsys):
    ranking = with_lively_head(model)
    monkeypatch.setattr(needlex, "load", lambda *_, **__: ranking)
    found = run.main(argv("--max-tools", "2", "--json"))
    said = capsys.readouterr()
    report = json.loads(said.out.splitlines()[-1])
    note = "3 tools were offered, max_tools is 2"
    chosen = sorted(r.tool.name for r in ranking.retrieve(QUERY, TOOLS, 2))
    assert report == {"query": QUERY, "calls": found, "tools": chosen, "note": note}
    assert said.err == f"needlex.run: {note}\n"
    writes(monkeypatch, "[")  # the choice is told of a failure, too
    failed("--max-tools", "2", "--json")
    report = json.loads(capsys.readouterr().out)
    assert (report["tools"], report["note"], report["text"]) == (chosen, note, "[")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_any_output_can_show_any_answer(monkeypatch, encoding):
    tools = [{"name": "grüße_端", "parameters": {"ö": "string"}}]
    value = "é 端 \ud800"
    writes(monkeypatch, '[{"name":"grüße_端","arguments":{"ö":"é 端 \\ud800"}}]')
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, encoding=encoding))
    found = run.main(argv("--json", query="é 端", tools=tools))
    sys.stdout.flush()
    first, last, _ = out.getvalue().decode(encoding).split("\n")
    assert json.loads(last) == {"query": "é 端", "calls": found}
    assert found == [{"name": "grüße_端", "arguments": {"ö": value}}]
    name = "grüße_端".encode(encoding, "backslashreplace").decode(encoding)
    key = "ö".encode(encoding, "backslashreplace").decode(encoding)
    head = f"{name}({key}="
    assert first.startswith(head) and json.loads(first[len(head) : -1]) == value
