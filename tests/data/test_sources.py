"""Every row of a file is used or listed with number and reason; a useless file is an error that names it."""

from __future__ import annotations

import datetime
import decimal
import gzip
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from needlex.data.sources import DataError, Rejects, limit_tools, read_rows
from needlex.schema import Call, Example, Tool
from tests.data.rows import ROWS, examples

_LINES = [json.dumps(row, ensure_ascii=False) for row in ROWS]


def _row(**change) -> bytes:
    return json.dumps(ROWS[2] | change).encode()


BAD_LINES = {
    "broken JSON": (b'{"query": "x", ', "the line is not valid JSON: "),
    "not an object": (b"[1, 2]", "a row must be an object, not list"),
    "a number": (b"5", "a row must be an object, not int"),
    "no query": (_row(query=None), "row without a query"),
    "empty query": (_row(query="  "), "row without a query"),
    "no tools": (_row(tools=[]), "no tools"),
    "tools that are no JSON": (_row(tools="oops"), "'tools' is not valid JSON"),
    "tool without a name": (_row(tools=[{"description": "d"}]), "tool without a name"),
    "a tool that is a string": (_row(tools=["get_time"]), "a tool must be an object, not str"),
    "two tools of one name": (
        _row(tools=[{"name": "get_time"}, {"name": "get_time", "description": "d"}]),
        "share the name ['get_time']",
    ),
    "malformed parameters": (_row(tools=[{"name": "f", "parameters": 3}]), "tool 'f': 'parameters' must be"),
    "no answers": (_row(answers=None), "row without 'answers'"),
    "unknown tool": (_row(answers=[{"name": "fly"}]), "the answer calls unknown tool 'fly'"),
    "unknown argument": (
        _row(answers=[{"name": "get_time", "arguments": {"a": 1}}]),
        "undeclared arguments ['a']",
    ),
    "not a number": (b'{"query": NaN}', "NaN is not a finite number"),
    "invalid UTF-8": (b'{"query": "\xff"}', "invalid UTF-8 at byte 11"),
    "lone surrogate in the query": (_row(query="a\ud800"), "invalid Unicode: a lone surrogate in 'query'"),
    "lone surrogate in a tool": (_row(tools=[{"name": "f\ud800"}], answers=[]), "a lone surrogate in tool"),
    "nested without end": (b"[" * 50_000, "nested too deeply"),
}


@pytest.mark.parametrize("kind", BAD_LINES)
def test_each_kind_of_bad_row_is_listed_with_line_and_reason(kind, tmp_path):
    line, reason = BAD_LINES[kind]
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\n".join([_LINES[0].encode(), b"", line, _LINES[1].encode(), line]))
    rows, rejects = read_rows(path)
    assert [e.to_json() for e in rows] == [e.to_json() | {"source": "rows.jsonl"} for e in examples()[:2]]
    assert [number for number, _ in rejects.rows] == [3, 5]
    assert all(reason in why for _, why in rejects.rows)
    assert len(rejects) == 2
    assert rejects.accepted == 2


def test_rejects_are_counted_shown_and_written(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\n".join([_LINES[0].encode(), *(line for line, _ in BAD_LINES.values())]))
    _, rejects = read_rows(path)
    assert [number for number, _ in rejects.rows] == list(range(2, 2 + len(BAD_LINES)))
    text = rejects.summary(2)
    assert text.startswith(f"{path}: {len(BAD_LINES)} of {len(BAD_LINES) + 1} rows rejected")
    assert f"{path}:2: the line is not valid JSON" in text
    assert f"and {len(BAD_LINES) - 2} more" in text
    assert f"{path}:4:" not in text
    assert sum(rejects.kinds().values()) == len(BAD_LINES)
    assert rejects.kinds()["a row must be an object, not list"] == 1
    rejects.write(tmp_path / "rejects.jsonl")
    written = [json.loads(line) for line in (tmp_path / "rejects.jsonl").read_text().splitlines()]
    assert [(w["file"], w["line"], w["reason"]) for w in written] == [
        (str(path), n, r) for n, r in rejects.rows
    ]


def test_reasons_that_differ_in_names_are_one_kind():
    reasons = [
        "the answer calls unknown tool 'a'; known: ['b']",
        "the answer calls unknown tool 'c'; known: ['d']",
    ]
    rejects = Rejects("f", 1, list(enumerate(reasons, 1)))
    assert list(rejects.kinds().values()) == [2]
    assert "all 4 rows accepted" in Rejects("f", 4).summary()


def _strings(row: dict) -> dict:
    return row | {"tools": json.dumps(row["tools"]), "answers": json.dumps(row["answers"])}


def _write_parquet(path: Path, rows: list[dict]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist(rows), path)


def _write(path: Path, rows: list[dict]) -> None:
    lines = "\n".join(json.dumps(r, ensure_ascii=False) for r in rows) + "\n"
    if path.name.endswith(".gz"):
        path.write_bytes(gzip.compress(lines.encode()))
    elif path.suffix == ".jsonl":
        path.write_text(lines, encoding="utf-8")
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows), encoding="utf-8-sig")
    else:
        _write_parquet(path, rows)


@pytest.mark.parametrize("form", [dict, _strings], ids=["objects", "strings"])
@pytest.mark.parametrize("name", ["r.jsonl", "r.jsonl.gz", "r.json", "r.parquet"])
def test_every_format_gives_the_same_rows(name, form, tmp_path):
    path = tmp_path / name
    rows = [form(r | {"source": "mine"}) for r in ROWS]
    _write(path, rows)
    read, rejects = read_rows(path)
    assert read == [Example(e.query, e.tools, e.calls, "mine") for e in examples()]
    assert not rejects.rows
    assert read_rows(path, limit=2)[0] == read[:2]


def test_a_source_is_given_to_rows_without_one(tmp_path):
    _write(tmp_path / "r.jsonl", [ROWS[0], ROWS[1] | {"source": "other"}])
    assert [e.source for e in read_rows(tmp_path / "r.jsonl")[0]] == ["r.jsonl", "other"]
    assert [e.source for e in read_rows(tmp_path / "r.jsonl", source="s")[0]] == ["s", "other"]


@pytest.mark.parametrize("name", ["r.json", "r.parquet"])
def test_rows_of_json_and_parquet_are_numbered_from_one(name, tmp_path):
    _write(tmp_path / name, [_strings(r) for r in [ROWS[0], ROWS[1] | {"query": ""}, ROWS[2]]])
    rows, rejects = read_rows(tmp_path / name)
    assert len(rows) == 2
    assert [n for n, _ in rejects.rows] == [2]


def test_repeated_tools_are_held_once(tmp_path):
    _write(tmp_path / "r.jsonl", [ROWS[0]] * 3)
    rows, _ = read_rows(tmp_path / "r.jsonl")
    assert all(a is b for row in rows for a, b in zip(row.tools, rows[0].tools, strict=True))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("r.jsonl", b"", "r.jsonl is empty"),
        ("r.jsonl", b"\n \n", "r.jsonl is empty"),
        ("r.json", b"", "r.json is empty"),
        ("r.json", b"[]", "r.json is empty"),
        ("r.jsonl", b"{}\n[]\n", "(?s)no usable row in .*r.jsonl: 2 of 2 .*r.jsonl:1: row without a query"),
        ("r.jsonl", "{}".encode("utf-16"), "(?s)no usable row in .*r.jsonl:1: invalid UTF-8 at byte 0"),
        ("r.json", b"{}", "r.json: must hold a list of rows, not dict"),
        ("r.json", b'{"query": 1}\n{"query": 2}', "r.json: the file is not valid JSON.*use .*jsonl"),
        ("r.json", b"\xff", "r.json: invalid UTF-8 at byte 0"),
        ("r.csv", b"query", r"r.csv: unknown format; use one of .jsonl, .jsonl.gz, .json, .parquet"),
        ("r.jsonl.gz", b"no gzip", "r.jsonl.gz: broken gzip after line 0"),
        ("r.jsonl.gz", gzip.compress(b"{}\n" * 9, mtime=0)[:-9], "r.jsonl.gz: broken gzip"),
        ("r.parquet", b"PAR1 no parquet PAR1", "r.parquet: not a readable Parquet file"),
        ("r.parquet", b"", "r.parquet: not a readable Parquet file"),
    ],
)  # fmt: skip
def test_a_useless_file_is_an_error_that_names_it(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_rows(tmp_path / name)


def test_a_missing_file_is_an_error_that_names_it(tmp_path):
    with pytest.raises(DataError, match=r"no data file at .*no\.jsonl"):
        read_rows(tmp_path / "no.jsonl")


def test_parquet_without_pyarrow_names_the_extra(tmp_path, monkeypatch):
    (tmp_path / "r.parquet").write_bytes(b"x")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError, match=r"pip install 'needlex\[parquet\]'"):
        read_rows(tmp_path / "r.parquet")


@given(st.integers(1, 6), st.integers(0, 8), st.sets(st.integers(0, 5), max_size=3), st.integers(0, 99))
def test_limit_keeps_the_called_tools_and_draws_the_others(count, limit, called, seed):
    tools = tuple(Tool(f"t{i}") for i in range(count))
    calls = tuple(Call(f"t{i}") for i in called if i < count)
    example = Example("q", tools, calls)
    cut = limit_tools(example, limit, np.random.default_rng(seed))
    assert (cut.query, cut.calls) == (example.query, example.calls)
    assert len(cut.tools) == min(count, max(limit, len(calls)))
    assert len(set(cut.tools)) == len(cut.tools)
    assert {c.name for c in calls} <= {t.name for t in cut.tools} <= {t.name for t in tools}
    assert cut == limit_tools(example, limit, np.random.default_rng(seed))


def test_limit_draws_evenly_and_shuffles():
    example = Example("q", tuple(Tool(f"t{i}") for i in range(5)), (Call("t0"),))
    rng = np.random.default_rng(0)
    drawn = [[t.name for t in limit_tools(example, 3, rng).tools] for _ in range(600)]
    for i in range(1, 5):
        assert abs(sum(f"t{i}" in names for names in drawn) / 600 - 0.5) < 0.08
    for place in range(3):
        assert abs(sum(names[place] == "t0" for names in drawn) / 600 - 1 / 3) < 0.08


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (datetime.datetime(2026, 1, 2, 3, 4, 5), "2026-01-02T03:04:05"),
        (datetime.time(3, 4), "03:04:00"),
        (decimal.Decimal("2.50"), 2.5),
        (decimal.Decimal("7.00"), 7),
        (1.5, 1.5),
        (b"raw", None),
        (datetime.timedelta(seconds=3), None),
        (math.nan, None),
        (math.inf, None),
    ],
    ids=str,
)
@pytest.mark.parametrize("place", ["answers", "tools", "a single tool"])
def test_values_of_parquet_become_json_or_are_reported(value, wanted, place, tmp_path):
    """In a call and in a definition: a row that JSON cannot hold is left out and named, the others stay."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    argument = value if place == "answers" else "x"
    schema = {"type": "string"} | ({"default": value} if place != "answers" else {})
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"a": schema}}}
    plain = {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}
    rows = [
        {"query": "one", "tools": [tool], "answers": [{"name": "f", "arguments": {"a": argument}}]},
        {"query": "two", "tools": [plain], "answers": [{"name": "f", "arguments": {}}]},
    ]
    if place == "a single tool":
        rows = [row | {"tools": row["tools"][0]} for row in rows]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    examples, rejects = read_rows(tmp_path / "rows.parquet")
    if wanted is None:
        assert [e.query for e in examples] == ["two"]
        assert [n for n, _ in rejects.rows] == [1]
        assert rejects.rows[0][1].startswith(
            f"'{'answers' if place == 'answers' else 'tools'}' hold a value that JSON has no form for: "
        )
        return
    assert [e.query for e in examples] == ["one", "two"] and not rejects.rows
    assert examples[0].calls[0].arguments == {"a": wanted if place == "answers" else "x"}
    (parameter,) = examples[0].tools[0].parameters
    assert parameter.schema.get("default") == (wanted if place != "answers" else None)
