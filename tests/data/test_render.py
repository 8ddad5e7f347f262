"""Text of tools and answers: nothing depends on the order of keys, and every character knows its class."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from needlex.data.render import BASE, RenderConfig, render_answer, render_tool, render_tools
from needlex.schema import Call, Parameter, Tool
from tests.data.rows import calls, class_of_characters, shuffled_keys, tokenizer, tools

CONFIGS = [
    RenderConfig(style, descriptions) for style in ("signature", "json") for descriptions in (False, True)
]


@given(st.lists(tools.filter(lambda t: t.name.strip()), min_size=1, max_size=3), st.data())
def test_the_order_of_keys_never_reaches_the_model(made, data):
    other = [Tool.from_json(shuffled_keys(t.to_json(), data.draw)) for t in made]
    for config in CONFIGS:
        first, second = (tokenizer().encode(render_tools(t, config)) for t in (made, other))
        assert first == second


_DEFINED = {
    "A": {
        "type": "object",
        "properties": {"y": {"$ref": "#/$defs/B"}, "x": {"enum": [{"q": 1, "p": 2}, "v"]}},
    },
    "B": {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/A"}]}},
    "C": {"type": "string", "enum": ["on", "off"], "description": "a state"},
}


@given(
    st.dictionaries(
        st.sampled_from(["é", "a", "$ref", "type"]),
        st.sampled_from(list("ABC")).map(lambda n: {"$ref": f"#/$defs/{n}", "default": {"b": 1, "a": [{}]}})
        | st.just({"type": "array", "items": {"$ref": "#/$defs/C"}, "minItems": 1}),
        min_size=1,
    ),
    st.sampled_from(["object", "dict"]),
    st.data(),
)
def test_the_order_of_keys_never_reaches_the_model_through_references(properties, kind, data):
    schema = {"type": kind, "properties": properties, "required": sorted(properties)[:1], "$defs": _DEFINED}
    raw = {"type": "function", "function": {"name": "f", "description": "does it", "parameters": schema}}
    one, other = Tool.from_json(raw), Tool.from_json(shuffled_keys(raw, data.draw))
    for config in CONFIGS:
        first, second = (tokenizer().encode(render_tools([t], config)) for t in (one, other))
        assert first == second


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"$ref": "#/$defs/C"}, "a:on|off"),
        ({"$ref": "#/$defs/S"}, "a"),
        ({"$ref": "#/definitions/I"}, "a:int"),
        ({"type": "array", "items": {"$ref": "#/$defs/C"}}, "a:[on|off]"),
        ({"anyOf": [{"$ref": "#/$defs/C"}, {"type": "null"}]}, "a:on|off|null"),
        ({"allOf": [{"$ref": "#/$defs/P"}], "description": "d"}, "a:{s,t:[on|off]}"),
        ({"$ref": "#/$defs/N"}, "a:{next:N,v:int}"),
        ({"$ref": "#/$defs/none"}, "a:none"),
        ({"$ref": "#/$defs/P/properties/s"}, "a:P"),
        ({"$ref": "#"}, "a:#"),
    ],
)
def test_a_reference_is_shown_as_what_it_means(schema, text):
    defs = {
        "C": {"type": "string", "enum": ["on", "off"]},
        "S": {"type": "string"},
        "P": {"properties": {"t": {"type": "array", "items": {"$ref": "#/$defs/C"}}, "s": {"$ref": "#/$defs/S"}}},
        "N": {"properties": {"next": {"$ref": "#/$defs/N"}, "v": {"$ref": "#/definitions/I"}}},
    }  # fmt: skip
    shared = {"$defs": defs, "definitions": {"I": {"type": "integer"}}}
    parameters = {"type": "object", "properties": {"a": schema}, **shared}
    assert render_tool(Tool.from_json({"name": "f", "parameters": parameters})) == f"f({text})"


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({}, "a"),
        ({"type": "string"}, "a"),
        ({"type": "integer"}, "a:int"),
        ({"type": "number"}, "a:num"),
        ({"type": "boolean"}, "a:bool"),
        ({"type": "array"}, "a:list"),
        ({"type": "array", "items": {"type": "string"}}, "a:[str]"),
        ({"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}, "a:[[int]]"),
        ({"type": "object"}, "a:dict"),
        ({"type": "object", "properties": {"y": {"type": "integer"}, "x": {}}}, "a:{x,y:int}"),
        ({"type": "string", "enum": ["auto", "manual"]}, "a:auto|manual"),
        ({"enum": [1, None, True, "x", {"b": 1, "a": 2}]}, 'a:1|null|true|x|{"a":2,"b":1}'),
        ({"const": "on"}, "a:on"),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]}, "a:int|str|null"),
        ({"type": ["integer", "null"]}, "a:int|null"),
        ({"type": ["string", "null"]}, "a:str|null"),
        ({"type": "Ort", "enum": "not a list"}, "a:Ort"),
    ],
)
def test_signature_of_a_parameter(schema, text):
    assert render_tool(Tool("f", "", (Parameter("a", schema),))) == f"f({text})"
    assert render_tool(Tool("f", "", (Parameter("a", schema, True),))) == f"f({text.replace('a', 'a*', 1)})"


def test_tools_stand_one_a_line_and_show_descriptions_on_demand():
    made = [
        Tool("set", "Sets\n  a light", (Parameter("b"), Parameter("a", {"type": "integer"}, True))),
        Tool("get"),
    ]
    assert render_tools(made) == "set(a*:int,b)\nget()"
    assert render_tools(made, RenderConfig(descriptions=True)) == "set(a*:int,b) Sets a light\nget()"
    assert json.loads(render_tools(made, RenderConfig("json", True))) == [
        made[0].to_json(),
        {k: v for k, v in made[1].to_json().items() if k != "description"},
    ]


def test_a_changed_parameter_is_rendered_anew():
    parameter = Parameter("a", {"type": "integer"})
    assert render_tool(Tool("f", "", (parameter,))) == "f(a:int)"
    assert render_tool(Tool("f", "", (replace(parameter, name="b", required=True),))) == "f(b*:int)"
    assert parameter == Parameter("a", {"type": "integer"})


@given(calls)
def test_an_answer_is_compact_json_of_the_calls(made):
    text, _ = render_answer(made)
    assert json.loads(text) == [c.to_json() for c in made]
    assert text == json.dumps(
        [{"name": c.name, "arguments": _sorted(c.arguments)} for c in made],
        ensure_ascii=False,
        separators=(",", ":"),
    )


def _sorted(value):
    if isinstance(value, dict):
        return {k: _sorted(v) for k, v in sorted(value.items())}
    return [_sorted(v) for v in value] if isinstance(value, list) else value


@given(calls, st.data())
def test_one_answer_is_one_string(made, data):
    other = [Call(c.name, shuffled_keys(c.arguments, data.draw)) for c in made]
    assert render_answer(made) == render_answer(other)


@given(calls)
def test_every_character_of_an_answer_has_the_class_that_a_reader_of_the_json_finds(made):
    text, spans = render_answer(made)
    ends = [s.end for s in spans]
    assert all(s.start < s.end and s.token_class != BASE for s in spans)
    assert all(end <= span.start for end, span in zip(ends, spans[1:], strict=False))  # sorted and disjoint
    classes = [BASE] * len(text)
    for span in spans:
        classes[span.start : span.end] = [span.token_class] * (span.end - span.start)
    assert classes == class_of_characters(text)


def test_marks_of_the_cases_that_searching_would_miss():
    made = [
        Call("name", {"name": "name", "x": 'say "hi"\n', "y": {"name": "a", "z": [1, "a"]}}),
        Call("name", {"name": "name", "y": True}),
    ]
    text, spans = render_answer(made)
    assert [(text[s.start : s.end], s.token_class) for s in spans] == [
        ("name", 1), ("name", 3), ("name", 2), ("x", 3), ('say \\"hi\\"\\n', 2), ("y", 3),
        ("name", 3), ("a", 2), ("z", 3), ("1", 2), ("a", 2),
        ("name", 1), ("name", 3), ("name", 2), ("y", 3), ("true", 2),
    ]  # fmt: skip


def test_text_stays_text():
    made = [Call("wetter", {"ort": "Zürich 日本 🙂"})]
    assert "Zürich 日本 🙂" in render_answer(made)[0]
    tool = Tool("wetter", "für Orte", (Parameter("größe", {"enum": ["groß"]}),))
    for config in CONFIGS:
        assert "größe" in render_tool(tool, config)
        assert "\\u" not in render_tools([tool], config)
