"""Small rows, hypothesis strategies and a tokenizer for the tests of the data rooms."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from hypothesis import strategies as st

from needlex.data.render import render_answer, render_tools
from needlex.data.tokenizer import Tokenizer, TokenizerConfig, train_tokenizer
from needlex.schema import Call, Example, Parameter, Tool

ROWS: list[dict[str, Any]] = [
    {
        "query": "turn on the light in the kitchen and set it to 40",
        "tools": [
            {"name": "light_turn_on", "parameters": {"area": "string", "brightness": "integer"}},
            {"name": "light_turn_off", "parameters": {"area": "string"}},
            {"name": "get_time"},
        ],
        "answers": [{"name": "light_turn_on", "arguments": {"area": "kitchen", "brightness": 40}}],
    },
    {
        "query": "play Clair de Lune by Debussy",
        "tools": [
            {
                "name": "playMusic",
                "description": "Play music",
                "parameters": {
                    "type": "object",
                    "properties": {
                        "title": {"type": "string"},
                        "artist": {"type": "string"},
                        "source": {"type": "string", "enum": ["radio", "library"]},
                    },
                    "required": ["title"],
                },
            },
            {"type": "function", "function": {"name": "stopMusic", "parameters": None}},
        ],
        "answers": [{"name": "playMusic", "arguments": {"title": "Clair de Lune", "artist": "Debussy"}}],
    },
    {"query": "what time is it", "tools": [{"name": "get_time"}], "answers": [{"name": "get_time"}]},
    {"query": "hello there", "tools": [{"name": "get_time"}], "answers": []},
]


def examples() -> list[Example]:
    return [Example.from_json(row) for row in ROWS]


@cache
def tokenizer() -> Tokenizer:
    texts = [t for e in examples() for t in (e.query, render_tools(e.tools), render_answer(e.calls)[0])]
    return train_tokenizer(texts * 3, TokenizerConfig(vocab_size=420))


# Characters that have gone wrong somewhere: escapes, separators, combining and wide ones, U+2581.
_AWKWARD = st.sampled_from(list('"\\/\b\f\n\r\t\x00\x7f \u00a0\u2028\u2581{}[]:,é\u0301日🙂'))
texts = st.text(st.one_of(st.characters(codec="utf-8"), _AWKWARD, st.sampled_from("ab01 ")), max_size=12)
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8) | st.sampled_from(
    ["name", "arguments", "a", "get_time", 'say "hi"', "ключ", "x.y", "<tools>"]
)
scalars = st.one_of(
    texts, st.integers(), st.booleans(), st.none(), st.floats(allow_nan=False, allow_infinity=False), names
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=5,
)
calls = st.lists(st.builds(Call, names, st.dictionaries(names, values, max_size=4)), max_size=3)

_types = st.sampled_from(["string", "integer", "number", "boolean", "array", "object", "null"])
schemas = st.one_of(
    st.just({}),
    st.builds(lambda t: {"type": t}, _types),
    st.builds(lambda t, d: {"type": t, "description": d}, _types, texts),
    st.builds(lambda e: {"type": "string", "enum": e}, st.lists(texts, min_size=1, max_size=3)),
    st.builds(lambda t: {"type": "array", "items": {"type": t}}, _types),
    st.builds(
        lambda p: {"type": "object", "properties": {k: {"type": t} for k, t in p.items()}},
        st.dictionaries(names, _types, min_size=1, max_size=3),
    ),
)
tools = st.builds(
    lambda name, description, parameters: Tool(
        name, description, tuple(Parameter(k, s, r) for k, (s, r) in parameters.items())
    ),
    names,
    texts,
    st.dictionaries(names, st.tuples(schemas, st.booleans()), max_size=4),
)


def shuffled_keys(value: Any, draw: Any) -> Any:
    """The same JSON value with the keys of every object in another order."""
    if isinstance(value, dict):
        keys = draw(st.permutations(list(value)))
        return {k: shuffled_keys(value[k], draw) for k in keys}
    if isinstance(value, list):
        return [shuffled_keys(v, draw) for v in value]
    return value


def class_of_characters(text: str) -> list[int]:
    """Oracle: the class of each character of an answer, found by reading the finished JSON.

    A scanner of its own, which shares nothing with the writer that makes the text. 0 base, 1 name, 2 value,
    3 key. The bracket that ends an empty answer is a name: it says that there is none.
    """
    classes = [0] * len(text)
    if text == "[]":
        return [0, 1]
    decoder = json.JSONDecoder()

    def mark(start: int, end: int, token_class: int) -> None:
        classes[start:end] = [token_class] * (end - start)

    def scan(at: int, in_arguments: bool, depth: int) -> int:
        if text[at] == "{":
            at += 1
            while text[at] != "}":
                key, end = decoder.raw_decode(text, at)
                if in_arguments:
                    mark(at + 1, end - 1, 3)
                assert text[end] == ":"
                if depth == 1 and key == "name":
                    _, stop = decoder.raw_decode(text, end + 1)
                    mark(end + 2, stop - 1, 1)
                    at = stop
                else:
                    at = scan(end + 1, in_arguments or key == "arguments", depth + 1)
                at += text[at] == ","
            return at + 1
        if text[at] == "[":
            at += 1
            while text[at] != "]":
                at = scan(at, in_arguments, depth + 1)
                at += text[at] == ","
            return at + 1
        _, end = decoder.raw_decode(text, at)
        if in_arguments:
            quote = text[at] == '"'
            mark(at + quote, end - quote, 2)
        return end

    assert scan(0, False, 0) == len(text)
    return classes
