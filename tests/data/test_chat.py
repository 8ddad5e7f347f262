"""Chat rows become rows; conversations that are more than one query and its answer are refused with the reason."""

from __future__ import annotations

import json

import pytest

from needlex.data.sources import read_rows

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "dim",
            "parameters": {"type": "object", "properties": {"to": {"type": "integer"}}},
        },
    }
]
CALL = {"id": "c1", "type": "function", "function": {"name": "dim", "arguments": '{"to": 5}'}}
USER = {"role": "user", "content": "dim to 5"}
CALLS = {"role": "assistant", "content": None, "tool_calls": [CALL]}


def read(tmp_path, *rows):
    path = tmp_path / "chat.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return read_rows(path)


@pytest.mark.parametrize(
    ("row", "query", "calls"),
    [
        ({"messages": [USER, CALLS]}, "dim to 5", [("dim", {"to": 5})]),
        (
            {"messages": [{"role": "system", "content": "Be brief."}, USER, CALLS]},
            "dim to 5",
            [("dim", {"to": 5})],
        ),
        (
            {
                "messages": [
                    USER,
                    CALLS,
                    {"role": "tool", "content": "ok"},
                    {"role": "assistant", "content": "Done."},
                ]
            },
            "dim to 5",
            [("dim", {"to": 5})],
        ),
        ({"messages": [USER, {"role": "assistant", "content": "I cannot."}]}, "dim to 5", []),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [{"type": "text", "text": "dim "}, {"type": "text", "text": "to 5"}],
                    },
                    CALLS,
                ]
            },
            "dim to 5",
            [("dim", {"to": 5})],
        ),
        ({"messages": json.dumps([USER, CALLS])}, "dim to 5", [("dim", {"to": 5})]),
        ({"query": "dim", "tool_calls": [CALL, CALL]}, "dim", [("dim", {"to": 5})] * 2),
        ({"query": "dim", "tool_calls": json.dumps([CALL])}, "dim", [("dim", {"to": 5})]),
        ({"query": "dim", "tool_calls": None}, "dim", []),
    ],
)
def test_rows(tmp_path, row, query, calls):
    (example,), rejects = read(tmp_path, row | {"tools": TOOLS})
    assert (example.query, [(c.name, dict(c.arguments)) for c in example.calls]) == (query, calls)
    assert example.tools[0].parameter_names == ("to",) and not len(rejects)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"messages": [USER, CALLS, USER, CALLS]}, "a conversation with 2 messages of the user"),
        ({"messages": [CALLS]}, "a conversation with 0 messages of the user"),
        ({"messages": [USER]}, "no message of the assistant"),
        (
            {"messages": [{"role": "assistant", "content": "Hello"}, USER]},
            "the assistant speaks before the user",
        ),
        ({"messages": [USER, CALLS, CALLS]}, "calls tools again after their results"),
        ({"messages": [{"role": "user", "content": None}, CALLS]}, "the user's message has no text"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}, CALLS]},
            "parts that are not text",
        ),
        ({"messages": ["hello"]}, "'messages' must be a list of objects"),
        ({"query": "dim", "tool_calls": 3}, "'tool_calls' must be a list of calls"),
    ],
)
def test_refused(tmp_path, row, reason):
    good = {"messages": [USER, CALLS], "tools": TOOLS}
    examples, rejects = read(tmp_path, good, row | {"tools": TOOLS})
    assert len(examples) == 1
    assert [number for number, _ in rejects.rows] == [2] and reason in rejects.rows[0][1]
