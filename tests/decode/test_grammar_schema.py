"""What each keyword admits, against Python or jsonschema as the judge; what cannot be enforced is refused by name."""

from __future__ import annotations

import datetime
import json
import re
from decimal import Decimal
from functools import cache
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from needlex.data.render import render_answer
from needlex.decode.characters import ANY, character, complement, union
from needlex.decode.grammar import compile_grammar
from needlex.decode.machine import Automaton, Program
from needlex.decode.numbers import Bound, integer, number
from needlex.decode.patterns import FORMATS, string
from needlex.decode.schema_forms import standard
from needlex.schema import Call, SchemaError, Tool
from tests.decode.answers import check, tokenizer, tool, write


def admits(schema: dict[str, Any], value: Any) -> bool:
    grammar = compile_grammar((tool({"x": schema}, ("x",)),), tokenizer())
    return grammar.allows(render_answer([Call("act", {"x": value})])[0])


@settings(max_examples=10)
@given(
    st.one_of(st.none(), st.integers(-300, 300)), st.one_of(st.none(), st.integers(-300, 300)), st.booleans(),
    st.booleans(), st.integers(1, 40),
)  # fmt: skip
def test_integers_between_bounds(low, high, with_low, with_high, by):
    assume(low is None or high is None or low <= high)
    p = Program()
    bottom = None if low is None else Bound(Decimal(low), with_low)
    top = None if high is None else Bound(Decimal(high), with_high)
    start = integer(p, bottom, top, by)
    automaton = Automaton(p, start)
    for n in range(-310, 311):
        inside = low is None or n > low or (with_low and n == low)
        inside = inside and (high is None or n < high or (with_high and n == high)) and n % by == 0
        assert automaton.accepting(automaton.run(automaton.start, str(n).encode())) == inside, n
    for bad in ("", "-", "-0", "00", "01", "+1", "1.0", "1e2"):
        assert not p.accepts(start, bad.encode())


CENTS = st.integers(-2000, 2000).map(lambda n: Decimal(n) / 100)


@given(
    CENTS,
    CENTS,
    st.booleans(),
    st.booleans(),
    st.lists(st.tuples(CENTS, st.sampled_from(["", "0", "001", "9"]))),
)
@example(
    Decimal(0), Decimal(1), False, False, [(Decimal(0), ""), (Decimal(1), "0"), (Decimal("0.00"), "001")]
)
def test_decimals_between_bounds(low, high, with_low, with_high, texts):
    p = Program()
    start = number(p, Bound(low, with_low), Bound(high, with_high))
    for value, more in [*texts, (low, ""), (high, ""), (low, "1"), (high, "1")]:
        text = f"{value:.2f}{more}"
        exact = Decimal(text)
        inside = (exact > low or (with_low and exact == low)) and (
            exact < high or (with_high and exact == high)
        )
        if not text.startswith("-0") or exact < 0:
            assert p.accepts(start, text.encode()) == inside, text
    for bad in ("3.5.5", "1.", ".5", "-", "1e3", "00.1", "NaN", "Infinity"):
        assert not p.accepts(start, bad.encode())


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_float_is_admitted_as_python_writes_it(value):
    p = Program()
    assert p.accepts(number(p, None, None), repr(value).encode()) == (abs(value) < 1e300)


def test_an_excluded_bound_holds_for_the_float_that_is_read():
    p = Program()
    start = number(p, None, Bound(Decimal("0.3"), False))
    assert float("0.29999999999999999999") == 0.3
    assert not p.accepts(start, b"0.29999999999999999999")
    assert p.accepts(start, b"0.29999999999999")


REGEXES = [
    "a", "^a$", "^$", "", "a|^b", "(ab)+c?", "[a-c]{2,3}$", r"^\d+(\.\d{1,2})?$", r"\bx"[2:], "^[^a-z]", ".", "^.{2}$",
    r"^\w+@\w+$", r"^\S*$", r"\W", r"^(?:a|bb){2}$", 'q"', r"\\", "^a*?b$", r"[\d\-]", "^(a|b)*abb$", "[é日-本]$", "a^", "$a",
]  # fmt: skip


@settings(max_examples=100)
@given(st.sampled_from(REGEXES), st.text(st.sampled_from('aabbcxyz019.-@"\\ \té日本\n名'), max_size=6))
def test_patterns_match_what_python_searches(pattern, text):
    p = Program()
    start = string(p, [pattern], 0, None)
    expected = re.search(pattern, text) is not None
    if "$" in pattern and text.endswith("\n"):
        expected = re.search(pattern.replace("$", r"\Z"), text) is not None
    written = json.dumps(text, ensure_ascii=False).encode()
    if pattern in (r"^\w+@\w+$", r"\W"):  # the letters of other scripts: only what both dialects match
        assert not p.accepts(start, written) or expected
        assume(text.isascii())
    assert p.accepts(start, written) == expected


@given(
    st.sampled_from(REGEXES),
    st.integers(0, 4),
    st.integers(0, 5),
    st.text(st.sampled_from('ab0"é'), max_size=6),
)
def test_patterns_and_lengths_together(pattern, low, high, text):
    p = Program()
    start = string(p, [pattern], low, high)
    expected = low <= len(text) <= high and re.search(pattern, text) is not None
    assert p.accepts(start, json.dumps(text, ensure_ascii=False).encode()) == (
        expected and (pattern != r"\W" or text != "é")
    )


@given(
    st.lists(st.tuples(st.integers(0, 0x10FFFF), st.integers(0, 3000)), max_size=4),
    st.characters(codec="utf-8"),
)
def test_sets_of_characters(pairs, char):
    ranges = union([(a, a + n) for a, n in pairs if a + n <= 0x10FFFF])
    code, written = ord(char), json.dumps(char, ensure_ascii=False)[1:-1].encode()
    for some in (ranges, complement(ranges), ANY):
        p = Program()
        place = character(p, some)
        assert p.accepts(place, written) == any(a <= code <= b for a, b in some)
        for bad in (b"\xed\xa0\x80", b"\xc0\xaf", b"\xf5\x80\x80\x80", b"\x80", b'"', b"\n"):
            assert not p.accepts(place, bad)


@cache
def dates() -> tuple[Program, int]:
    program = Program()
    return program, string(program, [FORMATS["date"]], 0, None)


@given(
    st.sampled_from([0, 1, 4, 99, 100, 400, 1900, 2000, 2023, 2024]), st.integers(0, 13), st.integers(0, 32)
)
def test_dates_are_those_of_the_calendar(year, month, day):
    text = f"{year:04}-{month:02}-{day:02}"
    try:
        datetime.date.fromisoformat(text)
        real = True
    except ValueError:
        real = False
    program, start = dates()
    assert program.accepts(start, f'"{text}"'.encode()) == real


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_formats_write_what_a_checker_accepts(name: str):
    tools = (tool({"x": {"type": "string", "format": name}}, ("x",)),)
    grammar = compile_grammar(tools, tokenizer())
    for seed in range(10):
        text, _ = write(grammar, 90, ("random", "digits", "longest")[seed % 3], seed)
        check(text, tools)


ADMITTED: list[tuple[dict[str, Any], list[Any], list[Any]]] = [
    ({"type": "string"}, ["", "é\n\"\\", "a" * 300], [1, None, ["a"]]),
    ({"type": "integer"}, [0, -5, 10**19], [1.5, "1", True]),
    ({"type": "number"}, [0, -5, 2.5, 1e-7, 1e16], ["1", None]),
    ({"type": "boolean"}, [True, False], ["true", 1, None]),
    ({"type": "null"}, [None], [0, "null"]),
    ({"type": ["integer", "null"]}, [3, None], ["3", 3.5]),
    ({"type": "string", "nullable": True}, ["a", None], [1]),
    ({}, [1, "a", None, [1, {"b": [], "a": 2}], {}], []),
    ({"enum": ["a", 1, None, {"b": 1, "a": [2]}]}, ["a", 1, None, {"a": [2], "b": 1}], ["b", "1", {}]),
    ({"enum": [1, 2, "a"], "type": "integer"}, [1, 2], ["a", 3]),
    ({"enum": [1, 5, 9], "minimum": 4}, [5, 9], [1]),
    ({"const": "a b"}, ["a b"], ["a"]),
    ({"type": "integer", "minimum": 0, "exclusiveMaximum": 24}, [0, 23], [-1, 24]),
    ({"type": "integer", "minimum": 0.5}, [1], [0]),
    ({"type": "number", "exclusiveMinimum": 0}, [0.001, 7], [0, -1, 0.0]),
    ({"type": "number", "multipleOf": 5}, [10, -5], [3, 2.5]),
    ({"type": "integer", "format": "int32"}, [2**31 - 1, -(2**31)], [2**31]),
    ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "日本語", '"\n'], ["a", "abcd"]),
    ({"pattern": "b"}, ["abc"], ["ac", 1]),
    ({"type": "array"}, [[], [1, "a", [None]]], [{}, "a"]),
    ({"type": "array", "items": {"type": "string"}}, [[], ["]", ","]], [[1], ["a", None]]),
    ({"items": {"type": "integer"}, "minItems": 1, "maxItems": 2}, [[1], [1, 2]], [[], [1, 2, 3], ["a"]]),
    ({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False}, [[], [1], [1, "a"]],
     [["a"], [1, "a", 2]]),
    ({"type": "array", "maxItems": 0}, [[]], [[1]]),
    ({"type": "array", "uniqueItems": False}, [[1, 1]], []),
    ({"type": "array", "uniqueItems": True, "maxItems": 1}, [[1]], [[1, 1]]),
    ({"type": "object"}, [{}, {"a": 1, "b": {"c": [1]}}], [[], 1]),
    ({"type": "object", "additionalProperties": False}, [{}], [{"a": 1}]),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, [{}, {"x": 1, "y": 2}], [{"x": "a"}]),
    ({"type": "object", "properties": {"b": {"type": "integer"}, "a": {}}, "required": ["b"]},
     [{"b": 1}, {"a": None, "b": 1}], [{}, {"a": 1}, {"b": "x"}, {"b": 1, "c": 1}]),
    ({"type": "dict", "properties": {"a": {"type": "float", "required": True}, "b": "str"}}, [{"a": 0.5}], [{}, {"b": "x"}]),
    ({"type": "object", "required": ["k"]}, [{"k": 1}], [{}]),
    ({"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 1}]}, [5, "a"], ["ab", None]),
    ({"type": "integer", "anyOf": [{"maximum": 3}, {"minimum": 10}]}, [3, 10], [5]),
    ({"oneOf": [{"type": "integer"}, {"type": "null"}]}, [5, None], ["5"]),
    ({"oneOf": [{"const": "a"}, {"enum": ["b", "c"]}]}, ["a", "c"], ["d"]),
    ({"oneOf": [
        {"type": "object", "properties": {"k": {"const": 1}, "v": {"type": "string"}}, "required": ["k"]},
        {"type": "object", "properties": {"k": {"const": 2}}, "required": ["k"]},
    ]}, [{"k": 1, "v": "x"}, {"k": 2}], [{"k": 3}, {"k": 2, "v": "x"}, {}]),
    ({"allOf": [{"type": "integer", "minimum": 3}, {"type": "number", "maximum": 5, "minimum": 1}]}, [3, 5], [2, 6, 4.5]),
    ({"allOf": [
        {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
        {"type": "object", "properties": {"b": {"type": "null"}}},
    ]}, [{"a": 1}, {"a": 1, "b": None}], [{"b": None}]),
    ({"allOf": [{"pattern": "a"}, {"pattern": "b$"}], "type": "string"}, ["ab"], ["a", "b", "ba"]),
    ({"$ref": "#/$defs/n", "maximum": 5, "$defs": {"n": {"type": "integer", "minimum": 2}}}, [2, 5], [1, 6]),
    ({"type": "array", "items": {"$ref": "#/definitions/s"}, "definitions": {"s": {"enum": ["x"]}}}, [["x", "x"]], [["y"]]),
    ({"title": "t", "description": "d", "default": 7, "examples": [1], "deprecated": True, "$comment": "c",
      "readOnly": True, "type": "string"}, ["a"], [7]),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "right", "wrong"), ADMITTED, ids=lambda x: json.dumps(x)[:60])
def test_admitted_keywords(schema: dict[str, Any], right: list[Any], wrong: list[Any]):
    judge = jsonschema.Draft202012Validator(standard(schema))
    for value in right:
        assert admits(schema, value), value
        assert judge.is_valid(value), value
    for value in wrong:
        assert not admits(schema, value), value


@pytest.mark.parametrize(
    "name", ["str", "dict", "float", "tuple", "String", "HashMap", "long", "ArrayList", "any", ""]
)
def test_type_names_of_other_languages(name: str):
    samples = {
        "str": "a",
        "String": "a",
        "dict": {"k": 1},
        "HashMap": {},
        "float": 0.5,
        "long": 7,
        "any": [1],
        "": None,
    }
    assert admits({"type": name}, samples.get(name, [1, "a"]))


def test_definitions_of_the_tool_hold_for_its_parameters_and_for_no_other_tool():
    def listed(name: str, kind: str) -> Tool:
        items = {"type": "array", "items": {"$ref": "#/$defs/X"}}
        schema = {"type": "object", "properties": {"x": items}, "$defs": {"X": {"type": kind}}}
        return Tool.from_json({"name": name, "parameters": schema})

    grammar = compile_grammar((listed("f", "integer"), listed("g", "string")), tokenizer())
    for name, value, right in [("f", 1, True), ("f", "a", False), ("g", "a", True), ("g", 1, False)]:
        assert grammar.allows(render_answer([Call(name, {"x": [value]})])[0]) is right


def test_two_meanings_of_one_definition_are_refused():
    one, other = ({"$ref": "#/$defs/X", "$defs": {"X": {"type": t}}} for t in ("integer", "string"))
    with pytest.raises(SchemaError, match=r"tool 'act', parameters/b: '\$defs' has another meaning of 'X'"):
        compile_grammar((tool({"a": one, "b": other}),), tokenizer())


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"not": {"type": "string"}}, "not"),
    ({"if": {}, "then": {}}, "if"),
    ({"type": "object", "patternProperties": {"^a": {}}}, "patternProperties"),
    ({"type": "object", "propertyNames": {"pattern": "a"}}, "propertyNames"),
    ({"type": "object", "minProperties": 1}, "minProperties"),
    ({"type": "object", "dependentRequired": {"a": ["b"]}}, "dependentRequired"),
    ({"type": "array", "contains": {"const": 1}}, "contains"),
    ({"type": "array", "uniqueItems": True}, "uniqueItems"),
    ({"type": "array", "items": [{"type": "string"}]}, "items"),
    ({"type": "array", "minItems": -1}, "minItems"),
    ({"type": "array", "maxItems": 10**6}, "maxItems"),
    ({"type": "string", "maxLength": 10**6}, "maxLength"),
    ({"type": "string", "pattern": "(?=a)b"}, "pattern"),
    ({"type": "string", "pattern": r"(a)\1"}, "pattern"),
    ({"type": "string", "pattern": r"\bword\b"}, "pattern"),
    ({"type": "string", "pattern": "(?i)a"}, "pattern"),
    ({"type": "string", "pattern": "(a"}, "pattern"),
    ({"type": "string", "pattern": "(((a{900}){900}){900})"}, "pattern"),
    ({"type": "string", "format": "regex"}, "format"),
    ({"type": "number", "multipleOf": 0.1}, "multipleOf"),
    ({"type": "integer", "minimum": "3"}, "minimum"),
    ({"type": "strnig"}, "type"),
    ({"type": "integer", "enum": ["1", "2"]}, "enum"),
    ({"enum": "abc"}, "enum"),
    ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "oneOf"),
    ({"anyOf": []}, "anyOf"),
    ({"$ref": "other.json#/x"}, "$ref"),
    ({"$ref": "#/$defs/missing"}, "$ref"),
    ({"$ref": "#/$defs/t", "$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}}}}, "$ref"),
    ({"allOf": [{"multipleOf": 2}, {"multipleOf": 3}], "type": "integer"}, "multipleOf"),
]


@pytest.mark.parametrize(("schema", "keyword"), REFUSED, ids=lambda x: json.dumps(x)[:50])
def test_what_cannot_be_enforced_is_refused_by_name(schema: dict[str, Any], keyword: str):
    nested = {"type": "object", "properties": {"deep": schema}}
    if "$defs" in schema:
        nested["$defs"] = schema["$defs"]
    with pytest.raises(SchemaError, match=rf"tool 'act', parameters/x/deep.*{re.escape(repr(keyword))}"):
        compile_grammar((tool({"x": nested}),), tokenizer())


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "minimum": 5, "maximum": 4},
        {"allOf": [{"type": "string"}, {"type": "integer"}]},
        {"type": "array", "minItems": 3, "maxItems": 2},
        {"type": "string", "pattern": "^a$", "minLength": 2},
        {"type": "object", "required": ["a"], "additionalProperties": False},
    ],
    ids=json.dumps,
)
def test_schemas_without_a_value_are_refused(schema: dict[str, Any]):
    with pytest.raises(SchemaError, match=r"no value|no arguments|can satisfy"):
        compile_grammar((tool({"x": schema}),), tokenizer())


def test_names_that_are_no_unicode_are_refused():
    with pytest.raises(SchemaError, match="Unicode"):
        compile_grammar((Tool("a\ud800"),), tokenizer())


@given(st.lists(st.sampled_from([b"ab", b"a", b"b", b"abc", b"c"]), max_size=4), st.binary(max_size=3))
def test_the_cost_of_a_state_is_the_length_of_its_shortest_end(words, prefix):
    """Against breadth-first search over all bytes of a small alphabet."""
    p = Program()
    sub = p.split([p.literal(w, p.DONE) for w in words])
    start = p.loop(lambda again: [p.literal(b"!!", p.DONE), p.call(sub, p.literal(b",", again))])
    automaton = Automaton(p, start)
    frontier = [automaton.start]
    seen: dict[int, int] = {}
    depth = 0
    while frontier and depth < 12:
        for s in frontier:
            seen.setdefault(s, depth)
        frontier = [t for s in frontier for b in b"abc,!" if (t := automaton.step(s, b)) and t not in seen]
        depth += 1
    for state in seen:
        text = automaton.shortest(state)
        assert automaton.accepting(automaton.run(state, text)) and len(text) == automaton.cost(state)
        reach, steps = {state}, 0
        while not any(automaton.accepting(s) for s in reach):
            reach = {t for s in reach for b in b"abc,!" if (t := automaton.step(s, b))}
            steps += 1
        assert steps == automaton.cost(state)
    assert np.all(automaton.costs[list(seen)] < 20)
