"""Whatever form tools, calls and rows come in, one canonical form comes out, or an error that says where."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from needlex.schema import Call, Example, Parameter, SchemaError, Tool, parse_tools
from tests.data.rows import ROWS, calls, examples, shuffled_keys, tools

_TYPES = st.sampled_from(["string", "integer", "boolean", "array"])
_PLAIN = st.dictionaries(st.text(min_size=1, max_size=8), st.tuples(_TYPES, st.booleans()), max_size=4)


@given(parameters=_PLAIN, data=st.data())
def test_all_forms_of_a_tool_are_one_tool(parameters, data):
    expected = Tool("f", "d", tuple(Parameter(k, {"type": t}, r) for k, (t, r) in parameters.items()))
    schema = {
        "type": "object",
        "properties": {k: {"type": t} for k, (t, _) in parameters.items()},
        "required": [k for k, (_, r) in parameters.items() if r],
    }
    head = {"name": "f", "description": "d"}
    flat = {k: {"type": t, "required": r} if r else t for k, (t, r) in parameters.items()}
    flat_objects = {k: {"type": t, "required": r} for k, (t, r) in parameters.items()}
    forms = [
        head | {"parameters": schema},
        head | {"input_schema": schema},
        head | {"parameters": json.dumps(schema)},
        {"type": "function", "function": head | {"parameters": schema}},
        expected.to_json(),
        head | {"parameters": flat_objects},
    ]
    if parameters.get("type", ("",))[0] != "object" and "$schema" not in parameters:
        forms.append(head | {"parameters": flat})
    for form in forms:
        assert Tool.from_json(shuffled_keys(form, data.draw)) == expected


@pytest.mark.parametrize(
    "form",
    [
        {"name": "f"},
        {"name": "f", "description": None},
        {"name": "f", "parameters": None},
        {"name": "f", "parameters": {}},
        {"name": "f", "parameters": "{}"},
        {"name": "f", "parameters": {"type": "object"}},
        {"name": "f", "parameters": {"type": "object", "properties": None}},
        {"name": "f", "parameters": {"type": "object", "properties": {}, "required": None}},
        {"name": "f", "parameters": {"properties": {}, "required": []}},
        {"type": "function", "function": {"name": "f"}},
        {"type": "function", "function": {"name": "f", "parameters": None}},
    ],
    ids=json.dumps,
)
def test_no_parameters_in_every_form(form):
    assert Tool.from_json(form) == Tool("f")


_NODE = {
    "type": "object",
    "properties": {"next": {"$ref": "#/$defs/Node"}, "size": {"$ref": "#/definitions/Size"}},
}
_SHARED = {
    "type": "object",
    "properties": {
        "head": {"$ref": "#/$defs/Node", "description": "first"},
        "many": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
        "size": {"anyOf": [{"$ref": "#/definitions/Size"}, {"type": "null"}]},
        "odd": {"$ref": "#/$defs/a~1b"},
        "plain": {"type": "string"},
    },
    "required": ["head"],
    "$defs": {"Node": _NODE, "a/b": {"type": "boolean"}, "Unused": {"type": "null"}},
    "definitions": {"Size": {"type": "integer"}},
}


def test_every_parameter_has_the_definitions_that_it_refers_to_and_no_others():
    tool = Tool.from_json({"name": "f", "parameters": _SHARED})
    found = {p.name: p.schema for p in tool.parameters}
    node, size = {"Node": _NODE}, {"Size": {"type": "integer"}}
    assert found["head"] == {
        "$ref": "#/$defs/Node", "description": "first", "$defs": node, "definitions": size,
    }  # fmt: skip
    assert found["many"] == {
        "type": "array", "items": {"$ref": "#/$defs/Node"}, "$defs": node, "definitions": size,
    }  # fmt: skip
    assert found["size"]["definitions"] == size and "$defs" not in found["size"]
    assert found["odd"]["$defs"] == {"a/b": {"type": "boolean"}}
    assert found["plain"] == {"type": "string"}
    # They come back where a validator looks for them, without the one that nothing means.
    written = tool.to_json()["parameters"]
    expected = _SHARED | {"$defs": {"Node": _NODE, "a/b": {"type": "boolean"}}}
    assert written == expected


def test_definitions_that_parameters_disagree_on_stay_with_them():
    def listed(kind: str) -> dict[str, Any]:
        return {"type": "array", "items": {"$ref": "#/$defs/X"}, "$defs": {"X": {"type": kind}}}

    tool = Tool.from_json({"name": "f", "parameters": {"a": listed("integer"), "b": listed("string")}})
    assert [p.schema for p in tool.parameters] == [listed("integer"), listed("string")]
    assert tool.to_json()["parameters"]["properties"] == {"a": listed("integer"), "b": listed("string")}
    # Beside properties, a definition is of the whole tool: it wins.
    whole = {"type": "object", "properties": {"a": listed("integer")}, "$defs": {"X": {"type": "null"}}}
    (parameter,) = Tool.from_json({"name": "f", "parameters": whole}).parameters
    assert parameter.schema["$defs"] == {"X": {"type": "null"}}


_REFS = st.sampled_from(["#/$defs/A", "#/$defs/B", "#/definitions/A", "#/$defs/C", "#", "#/$defs", "else"])
_WITH_REFS = st.recursive(
    st.builds(lambda t: {"type": t}, _TYPES) | st.builds(lambda r: {"$ref": r}, _REFS),
    lambda inner: st.builds(lambda s: {"type": "array", "items": s}, inner)
    | st.builds(lambda s: {"anyOf": s}, st.lists(inner, min_size=1, max_size=2))
    | st.builds(lambda a, d: {"properties": {"x": a}, "$defs": d}, inner, st.fixed_dictionaries({}, optional={"A": inner})),
    max_leaves=4,
)  # fmt: skip
_DEFS = st.fixed_dictionaries({}, optional={"A": _WITH_REFS, "B": _WITH_REFS})


@given(
    st.dictionaries(st.sampled_from("abc"), _WITH_REFS, max_size=3), _DEFS, _DEFS,
    st.dictionaries(st.sampled_from("abc"), _DEFS, max_size=2), st.data(),
)  # fmt: skip
def test_tools_with_references_survive_their_own_json(properties, defs, older, own, data):
    properties = {k: s | ({"$defs": own[k]} if k in own else {}) for k, s in properties.items()}
    schema = {"type": "object", "properties": properties, "$defs": defs, "definitions": older}
    tool = Tool.from_json({"name": "f", "parameters": schema})
    again = Tool.from_json(shuffled_keys(json.loads(json.dumps(tool.to_json())), data.draw))
    assert again == tool
    assert Tool.from_json(again.to_json()).to_json() == tool.to_json()


@pytest.mark.parametrize("kind", ["object", "dict"])
def test_documents_of_bfcl_are_json_schemas(kind):
    schema = {
        "type": kind,
        "properties": {"size": {"type": "float"}, "at": {"type": "tuple", "items": {"type": "integer"}}},
        "required": ["size"],
    }
    tool = Tool.from_json({"name": "f", "parameters": schema | {"optional": ["at"]}})
    assert [(p.name, p.schema["type"], p.required) for p in tool.parameters] == [
        ("at", "tuple", False), ("size", "float", True)
    ]  # fmt: skip


@pytest.mark.parametrize(
    "flat",
    [
        {"type": {"type": "string"}, "city": {"type": "string"}},
        {"type": {"type": "dict"}, "properties": {"type": "object"}},
        {"properties": "string"},
        {"type": "dict", "properties": "string"},
        {"type": "dict", "city": "string"},
        {"type": "dict", "properties": {"type": "string"}, "city": {"type": "string"}},
        {"type": "string", "properties": {"type": "dict"}},
        {"$defs": "string", "definitions": {"type": "string"}},
    ],
    ids=json.dumps,
)
def test_flat_parameters_may_be_called_like_keywords(flat):
    assert Tool.from_json({"name": "f", "parameters": flat}).parameter_names == tuple(sorted(flat))


def test_parameters_called_like_keywords_of_json_schema():
    flat = {
        "type": "string",
        "properties": {"type": "string"},
        "required": {"type": "boolean"},
        "x": "integer",
    }
    tool = Tool.from_json({"name": "f", "parameters": flat})
    assert {p.name: p.schema["type"] for p in tool.parameters} == {
        "type": "string", "properties": "string", "required": "boolean", "x": "integer"
    }  # fmt: skip


@given(tools)
def test_a_tool_survives_its_own_json(tool):
    if tool.name.strip():
        assert Tool.from_json(json.loads(json.dumps(tool.to_json()))) == tool


def _nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"items": schema}
    return schema


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (3, "must be an object, not int"),
        ({}, "without a name"),
        ({"name": " "}, "without a name"),
        ({"name": 5}, "without a name"),
        ({"function": {"description": "d"}}, "without a name"),
        ({"name": "f", "description": 5}, "'f': 'description' must be a string"),
        ({"name": "f", "parameters": [1]}, "'f': 'parameters' must be an object, not list"),
        ({"name": "f", "parameters": "{"}, "'f': 'parameters' is not valid JSON"),
        ({"name": "f", "parameters": {"a": 5}}, "'f': parameter 'a' must be an object"),
        ({"name": "f", "parameters": {"a": {"type": {"b": 1}}}}, "'f': the type of parameter 'a'"),
        ({"name": "f", "parameters": {"a": {"type": [1]}}}, "'f': the type of parameter 'a'"),
        ({"name": "f", "parameters": {"a": {"minimum": math.nan}}}, "'f': parameter 'a' holds NaN"),
        (
            {"name": "f", "parameters": {"a": {"anyOf": [{"maxLength": math.inf}]}}},
            "'f': parameter 'a' holds NaN or",
        ),
        ({"name": "f", "parameters": {"a": _nested(5000)}}, "'f': parameter 'a' is nested too deeply"),
        (
            {"name": "f", "parameters": {"type": "object", "properties": [1]}},
            "'properties' must be an object",
        ),
        (
            {"name": "f", "parameters": {"type": "object", "properties": {}, "required": ["a"]}},
            r"unknown parameters \['a'\]",
        ),
        (
            {"name": "f", "parameters": {"type": "object", "properties": {}, "$defs": [1]}},
            r"'f': '\$defs' must be an object",
        ),
        (
            {"name": "f", "parameters": {"type": "object", "required": "a"}},
            "'required' must be a list of names",
        ),
        (
            {"name": "f", "parameters": {"type": "object", "required": [[]]}},
            "'required' must be a list of names",
        ),
    ],
)
def test_a_malformed_tool_is_refused_by_name(form, message):
    with pytest.raises(SchemaError, match=message):
        Tool.from_json(form)


@given(calls)
def test_all_forms_of_a_call_are_one_call(made):
    for call in made:
        raw = json.loads(json.dumps(call.to_json()))
        wrapped = {"type": "function", "function": raw | {"arguments": json.dumps(raw["arguments"])}}
        assert Call.from_json(raw) == Call.from_json(wrapped) == call
    assert Call.from_json({"name": "f"}) == Call.from_json({"name": "f", "arguments": None}) == Call("f", {})


def test_rows_survive_their_own_json_and_json_strings():
    for raw, example in zip(ROWS, examples(), strict=True):
        assert Example.from_json(json.loads(json.dumps(example.to_json()))) == example
        strings = raw | {"tools": json.dumps(raw["tools"]), "answers": json.dumps(raw["answers"])}
        assert Example.from_json(strings) == example


def test_call_types():
    call = Call("get_time")
    tool = Tool("get_time")
    kinds = [Example("q", (tool,), (call,) * n).call_type for n in range(4)]
    assert kinds == ["none", "single", "multi", "multi"]


_GOOD = {"query": "q", "tools": [{"name": "f", "parameters": {"a": "string"}}], "answers": []}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"query": None}, "without a query"),
        ({"query": " \n"}, "without a query"),
        ({"query": 3}, "without a query"),
        ({"tools": None}, "no tools"),
        ({"tools": []}, "no tools"),
        ({"tools": "[]"}, "no tools"),
        ({"tools": "["}, "'tools' is not valid JSON"),
        ({"tools": [{"description": "d"}]}, "tool without a name"),
        ({"tools": [{"name": "f"}, {"name": "f", "description": "other"}]}, r"share the name \['f'\]"),
        ({"answers": None}, "without 'answers'"),
        ({"answers": 3}, "without 'answers'"),
        ({"answers": "oops"}, "'answers' is not valid JSON"),
        ({"answers": [3]}, "a call must be an object"),
        ({"answers": [{"arguments": {}}]}, "call without a name"),
        ({"answers": [{"name": "g"}]}, r"unknown tool 'g'; known: \['f'\]"),
        ({"answers": [{"name": "f", "arguments": [1]}]}, "'f': 'arguments' must be an object"),
        ({"answers": [{"name": "f", "arguments": {"b": 1}}]}, r"'f' has undeclared arguments \['b'\]"),
        ({"answers": '[{"name": "f", "arguments": {"a": NaN}}]'}, "NaN is not a finite number"),
        ({"answers": '[{"name": "f", "arguments": {"a": -Infinity}}]'}, "-Infinity is not a finite number"),
        ({"answers": '[{"name": "f", "arguments": {"a": 1e999}}]'}, "1e999 is not a finite number"),
        ({"answers": "[" * 100_000}, "nested too deeply"),
        ({"answers": f"[{'7' * 5000}]"}, "thousands of digits"),
    ],
)
def test_a_malformed_row_is_refused_with_the_field(change, message):
    assert Example.from_json(_GOOD)
    with pytest.raises(SchemaError, match=message):
        Example.from_json(_GOOD | change)


def test_tools_may_be_parsed_already():
    tool = Tool("f")
    assert parse_tools([tool, {"name": "g"}]) == (tool, Tool("g"))
    assert parse_tools({"name": "g"}) == (Tool("g"),)


def test_a_call_reads_like_its_json():
    call = Call("ring", {"at": "7"})
    assert call["name"] == call.name and call["arguments"] == call.to_json()["arguments"]
    with pytest.raises(KeyError, match="'name' and 'arguments'"):
        call["tool"]


def test_the_same_definition_twice_is_one_tool():
    first, other = {"name": "f", "parameters": {"a": "int"}}, {"name": "g"}
    assert parse_tools([first, other, first]) == parse_tools([first, other])
