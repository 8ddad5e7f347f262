"""Augmentation changes names and values alike everywhere, and never what is held out for tests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from needlex.data import words as pools
from needlex.data.augment import AugmentConfig, augment, restyle_held_out
from needlex.data.embedded.held_out import value_held_out
from needlex.schema import Call, Example, Parameter, Tool
from tests.data.rows import examples

VALUES = AugmentConfig(1.0, 0.0, 0.0, False)
NAMES = AugmentConfig(0.0, 1.0, 0.0, False)
PARAMETERS = AugmentConfig(0.0, 0.0, 1.0, False)
OFF = AugmentConfig(0.0, 0.0, 0.0, False)
seeds = st.integers(0, 2**32)

_TOOL_NAMES = [
    "light_turn_on",
    "lightTurnOn",
    "LightTurnOn",
    "light.turn_on",
    "lightturnon",
    "getHTTPResponse",
]
_TOOL_NAMES += ["time", "do-it", "日本", "x1", "a", "naïve_name", "STOP"]
_PARAMETERS = ["area", "brightness", "name", "zone_id", "zoneId", "ort"]
rows = st.builds(
    lambda names, parameters, called: Example(
        "set the area to kitchen",
        tuple(Tool(n, f"about {n}", tuple(Parameter(p) for p in parameters)) for n in names),
        tuple(Call(names[i % len(names)], dict.fromkeys(parameters, "kitchen")) for i in called),
    ),
    st.lists(st.sampled_from(_TOOL_NAMES), min_size=1, max_size=6, unique=True),
    st.lists(st.sampled_from(_PARAMETERS), max_size=4, unique=True),
    st.lists(st.integers(0, 5), max_size=3),
)


def _rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def _row(
    query: str, arguments: Mapping[str, Any], schemas: Mapping[str, Any] | None = None, calls: int = 1
) -> Example:
    schemas = {k: {} for k in arguments} | dict(schemas or {})
    tool = Tool("f", "", tuple(Parameter(k, s) for k, s in schemas.items()))
    return Example(query, (tool,), (Call("f", arguments),) * calls)


# Pure functions, shares.


@given(rows, seeds)
def test_the_same_generator_gives_the_same_row(row, seed):
    config = AugmentConfig(0.7, 0.7, 0.7)
    assert augment(row, config, _rng(seed)) == augment(row, config, _rng(seed))
    assert restyle_held_out(row, _rng(seed)) == restyle_held_out(row, _rng(seed))
    assert augment(row, OFF, _rng(seed)) == row


def test_shares_are_those_of_the_config():
    row = examples()[0]
    config, rng, n = AugmentConfig(0.4, 0.5, 0.3, True), _rng(0), 2000
    made = [augment(row, config, rng) for _ in range(n)]
    kept = [{t.description + str(len(t.parameters)) for t in m.tools} for m in made]
    assert all(k == kept[0] for k in kept)
    values = sum(m.query != row.query for m in made) / n
    parameters = (
        sum({p.name for t in m.tools for p in t.parameters} != {"area", "brightness"} for m in made) / n
    )
    names = sum({t.name for t in m.tools} != {t.name for t in row.tools} for m in made) / n
    orders = sum([len(t.parameters) for t in m.tools] == [2, 1, 0] for m in made) / n
    assert 0.33 < values <= 0.43  # now and then all values of a row stay
    assert 0.40 < names <= 0.53  # or a style and no words give the name it had
    assert 0.20 < parameters <= 0.33
    assert abs(orders - 1 / 6) < 0.03


@pytest.mark.parametrize("field", ["values", "names", "parameters"])
@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_outside_0_and_1_is_refused(field, share):
    with pytest.raises(ValueError, match=rf"augment\.{field} is .*between 0 and 1"):
        AugmentConfig(**{field: share})


# Names.


@given(rows, seeds)
def test_tools_are_renamed_with_their_calls_and_stay_distinct(row, seed):
    for made in (augment(row, NAMES, _rng(seed)), restyle_held_out(row, _rng(seed))):
        renamed = {old.name: new.name for old, new in zip(row.tools, made.tools, strict=True)}
        assert len(set(renamed.values())) == len(row.tools)
        assert all(renamed.values())
        assert [c.name for c in made.calls] == [renamed[c.name] for c in row.calls]
        assert [c.arguments for c in made.calls] == [c.arguments for c in row.calls]
        assert [(t.description, t.parameters) for t in made.tools] == [
            (t.description, t.parameters) for t in row.tools
        ]
        assert made.query == row.query


@given(rows, seeds)
def test_parameters_are_renamed_with_their_arguments_and_stay_distinct(row, seed):
    made = augment(row, PARAMETERS, _rng(seed))
    renamed: dict[str, str] = {}
    for old, new in zip(row.tools, made.tools, strict=True):
        assert (old.name, old.description) == (new.name, new.description)
        assert len(set(new.parameter_names)) == len(old.parameters)
    for old, new in zip(row.calls, made.calls, strict=True):
        assert list(new.arguments.values()) == list(old.arguments.values())
        for a, b in zip(old.arguments, new.arguments, strict=True):
            assert renamed.setdefault(a, b) == b  # one new name in the whole row
        assert set(new.arguments) <= set(next(t for t in made.tools if t.name == new.name).parameter_names)
    assert made.query == row.query


def test_schemas_and_required_follow_the_parameter():
    parameters = (Parameter("a", {"type": "integer"}, True), Parameter("b", {"enum": ["x"]}))
    row = Example("q", (Tool("f", "", parameters), Tool("g", "", parameters[:1])), ())
    made = augment(row, PARAMETERS, _rng(1))
    assert sorted((str(p.schema), p.required) for p in made.tools[0].parameters) == sorted(
        (str(p.schema), p.required) for p in parameters
    )
    assert made.tools[1].parameters[0] in made.tools[0].parameters


def test_all_training_styles_occur():
    row, rng = Example("q", (Tool("light_turn_on"), Tool("mediaPause")), ()), _rng(0)
    names = {t.name for _ in range(1500) for t in augment(row, NAMES, rng).tools}
    assert {
        "light_turn_on", "lightTurnOn", "LightTurnOn", "light.turn.on", "on.light_turn", "lightturnon",
        "media_pause", "mediaPause", "MediaPause", "media.pause", "pause.media", "mediapause",
    } <= names  # fmt: skip
    assert any(n.startswith("api_light_turn_on") for n in names)
    assert any(n.endswith("TurnOnTool") for n in names)


def _words(name: str) -> list[str]:
    return [w.lower() for w in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def test_nothing_held_out_occurs_in_training():
    held_out = set(pools.HELD_OUT_PREFIXES) | set(pools.HELD_OUT_SUFFIXES)
    assert len(pools.HELD_OUT_PREFIXES) >= 15 and len(pools.HELD_OUT_SUFFIXES) >= 15
    trained = (
        set(pools.PREFIXES) | set(pools.SUFFIXES) | set(pools.PARAMETER_PREFIXES + pools.PARAMETER_SUFFIXES)
    )
    assert not held_out & (trained | set(pools.WORDS))
    row, rng = Example("q", (Tool("light_turn_on"), Tool("mediaPause"), Tool("time")), ()), _rng(0)
    for _ in range(1500):
        for tool in augment(row, NAMES, rng).tools:
            assert not held_out & set(_words(tool.name))
            assert "-" not in tool.name  # kebab-case
            assert not re.search(r"_[A-Z]", tool.name)  # Title_Snake


def test_every_held_out_row_is_of_one_held_out_kind_and_all_kinds_come_equally_often():
    row = Example("q", (Tool("light_turn_on"), Tool("mediaPause"), Tool("NextTrack")), ())
    rng, kinds, n = _rng(0), [], 900
    for _ in range(n):
        names = [t.name for t in restyle_held_out(row, rng).tools]
        words = [_words(name) for name in names]
        if all(w[0] in pools.HELD_OUT_PREFIXES for w in words):
            kinds.append("prefix")
        elif all(w[-1] in pools.HELD_OUT_SUFFIXES for w in words):
            kinds.append("suffix")
        elif names == ["Light_Turn_On", "Media_Pause", "Next_Track"]:
            kinds.append("title")
        elif names == ["light-turn-on", "media-pause", "next-track"]:
            kinds.append("kebab")
    assert len(kinds) == n
    for kind, share in [("prefix", 1 / 3), ("suffix", 1 / 3), ("title", 1 / 6), ("kebab", 1 / 6)]:
        assert abs(kinds.count(kind) / n - share) < 0.06


@given(rows, seeds)
def test_every_tool_of_a_held_out_row_has_a_new_name(row, seed):
    made = restyle_held_out(row, _rng(seed))
    assert all(old.name != new.name for old, new in zip(row.tools, made.tools, strict=True))


# Values.

_WORDS = st.sampled_from(
    ["red", "blue", "Abba", "one two", "two three", "7 pm", "x-ray", "été", "12", "big red dog"]
)
_SEPARATORS = st.sampled_from([" ", " and ", ", ", " red ", "'s ", " 12 "])
_SCHEMAS = st.sampled_from(
    [{}, {"type": "string"}, {"type": ["string", "null"]}, {"type": "string", "enum": ["red"]}]
)


@st.composite
def value_rows(draw):
    mentioned = draw(st.lists(_WORDS, min_size=1, max_size=4))
    query = "put"
    for word in mentioned:
        query += draw(_SEPARATORS) + word
    count = draw(st.integers(1, 3))
    schemas = {f"p{i}": draw(_SCHEMAS) for i in range(count)}
    used = {f"p{i}": draw(_WORDS | st.sampled_from(mentioned)) for i in range(count)}
    return _row(query, used, schemas, calls=draw(st.integers(1, 2)))


def _count(text: str, value: str) -> int:
    return len(re.findall(rf"(?<!\w){re.escape(value)}(?!\w)", text))


@given(value_rows(), seeds)
def test_values_change_alike_in_query_and_answer_and_nothing_else_does(row, seed):
    made = augment(row, VALUES, _rng(seed))
    assert made.tools == row.tools
    new: dict[str, str] = {}
    for old_call, new_call in zip(row.calls, made.calls, strict=True):
        assert list(new_call.arguments) == list(old_call.arguments)
        for name, old in old_call.arguments.items():
            assert new.setdefault(old, new_call.arguments[name]) == new_call.arguments[name]
    schemas = {p.name: p.schema for p in row.tools[0].parameters}
    uses = [old for call in row.calls for old in call.arguments.values()]
    restored = made.query
    for old, value in new.items():
        # what stood in the query stands there still, and what did not does not
        assert bool(_count(made.query, value)) == bool(_count(row.query, old))
        if value == old:
            continue
        assert _count(row.query, old) in (1, uses.count(old))
        assert _count(made.query, value) == _count(row.query, old)
        assert value not in row.query
        for name, argument in row.calls[0].arguments.items():
            assert argument != old or "enum" not in schemas[name]
        restored = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", lambda m, old=old: old, restored)
    assert restored == row.query


def _always_kept(row: Example, tries: int = 60) -> bool:
    return all(augment(row, VALUES, _rng(seed)) == row for seed in range(tries))


def _mostly_changed(row: Example) -> bool:
    return sum(augment(row, VALUES, _rng(seed)) != row for seed in range(60)) > 30


REPLACED = {
    "a word": _row("call Anna", {"who": "Anna"}),
    "a possessive": _row("play Anna's song", {"who": "Anna"}),
    "at the end of a sentence": _row("call Anna.", {"who": "Anna"}),
    "one mention, two uses": _row("call Anna", {"who": "Anna"}, calls=2),
    "two mentions, two uses": _row("call Anna and Anna", {"who": "Anna"}, calls=2),
    "in a list": _row(
        "buy milk", {"items": ["milk"]}, {"items": {"type": "array", "items": {"type": "string"}}}
    ),
    "in an object": _row("to Bonn", {"to": {"city": "Bonn"}}),
    "a whole number": _row("set 40 percent", {"level": 40}, {"level": {"type": "integer"}}),
    "a number in its bounds": _row(
        "set 5", {"level": 5}, {"level": {"type": "integer", "minimum": 4, "maximum": 7}}
    ),
}


@pytest.mark.parametrize("kind", REPLACED)
def test_values_that_are_replaced(kind):
    assert _mostly_changed(REPLACED[kind])


_ENUM = {"type": "string", "enum": ["kitchen"]}
KEPT = {
    "not in the query": _row("call her", {"who": "Anna"}),
    "in another spelling": _row("call anna", {"who": "Anna"}),
    "inside a word": _row("call Annabel", {"who": "Anna"}),
    "an enum": _row("to the kitchen", {"room": "kitchen"}, {"room": _ENUM}),
    "a constant": _row("to the kitchen", {"room": "kitchen"}, {"room": {"const": "kitchen"}}),
    "behind a reference": _row("to the kitchen", {"room": "kitchen"}, {"room": {"$ref": "#/$defs/R"}}),
    "inside a union": _row("to the kitchen", {"at": {"room": "kitchen"}}, {"at": {"anyOf": [{}, {"type": "null"}]}}),
    "in a list of a reference": _row("to the kitchen", {"at": ["kitchen"]}, {"at": {"$ref": "#/$defs/R"}}),
    "a pattern": _row("zip A12", {"zip": "A12"}, {"zip": {"type": "string", "pattern": "A.*"}}),
    "an enum elsewhere": _row("to the kitchen", {"room": "kitchen", "to": "kitchen"}, {"room": _ENUM}),
    "more mentions than uses": _row("call Anna or Anna", {"who": "Anna"}),
    "inside another value": _row("play New York Groove", {"title": "New York Groove", "city": "New York"}),
    "around an enum in another spelling": _row(
        "play Living Room Songs", {"title": "Living Room Songs", "area": "living_room"},
        {"area": {"enum": ["living_room"]}},
    ),
    "around a number": _row("buy 5 apples", {"what": "5 apples", "n": 5}, {"n": {"type": "integer"}}),
    "a number twice": _row("set 40 or 40", {"level": 40}),
    "a number used twice": _row("set 40", {"level": 40, "other": 40}),
    "a piece of a number": _row("set 40.5", {"level": 40}),
    "a piece of a time": _row("at 7:40", {"level": 40}),
    "a negative number": _row("set -40", {"level": -40}),
    "the absolute of a negative number": _row("set -40", {"level": 40}),
    "a fraction": _row("set 4.5", {"level": 4.5}),
    "a number without choice": _row("set 5", {"level": 5}, {"level": {"minimum": 5, "maximum": 5}}),
    "a multiple": _row("set 40", {"level": 40}, {"level": {"multipleOf": 10}}),
    "a boolean": _row("set True", {"level": True}),
    "a word of the language": _row("turn it on", {"state": "on"}),
    "the empty text": _row("call", {"who": ""}),
    "letters that change length in lower case": _row("call İpek", {"who": "İpek"}),
    "no call": Example("call Anna", (Tool("f"),), ()),
}  # fmt: skip


@pytest.mark.parametrize("kind", KEPT)
def test_values_that_are_kept(kind):
    assert _always_kept(KEPT[kind])


@given(st.integers(0, 10**6), st.integers(-5, 10**6), st.integers(-5, 10**6), seeds)
def test_new_numbers_keep_digits_and_bounds(value, low, high, seed):
    schema = {"type": "integer", "minimum": min(low, value), "exclusiveMaximum": max(high, value) + 1}
    made = augment(_row(f"set {value} now", {"n": value}, {"n": schema}), VALUES, _rng(seed))
    new = made.calls[0].arguments["n"]
    assert made.query == f"set {new} now"
    assert type(new) is int
    assert len(str(new)) == len(str(value))
    assert schema["minimum"] <= new < schema["exclusiveMaximum"]


def test_values_are_unseen_words_of_many_shapes():
    rng = _rng(0)
    made = [augment(_row("call Anna Maria", {"who": "Anna Maria"}), VALUES, rng) for _ in range(1000)]
    new = [m.calls[0].arguments["who"] for m in made if m.query != "call Anna Maria"]
    assert len(set(new)) > 0.95 * len(new) > 700
    assert {v.count(" ") + 1 for v in new} >= {1, 2, 3}
    assert 0.01 < sum(any(c.isdigit() for c in v) for v in new) / len(new) < 0.15
    assert 0.6 < sum(v[0].isupper() for v in new) / len(new) < 0.97
    plain = {w.lower() for v in new for w in v.split()}
    assert len(plain & set(pools.WORDS)) > 200
    assert len(plain - set(pools.WORDS)) > 400
    assert len(pools.WORDS) == len(set(pools.WORDS)) > 450


def test_no_new_value_is_one_that_evaluation_holds_out():
    rng = _rng(0)
    for _ in range(500):
        made = augment(_row("call Anna", {"who": "Anna"}), VALUES, rng).calls[0].arguments["who"]
        assert made == "Anna" or not value_held_out(made)


def test_held_out_words_are_not_in_the_embedded_data():
    folder = Path(pools.__file__).parent / "embedded"
    words = {
        w for path in folder.glob("*.txt") for w in re.findall("[a-z]+", path.read_text("utf-8").lower())
    }
    assert len(words) > 1000
    assert not words & set(pools.HELD_OUT_PREFIXES + pools.HELD_OUT_SUFFIXES)


def test_a_new_value_is_never_what_the_row_holds_already(monkeypatch):
    monkeypatch.setattr(pools, "WORDS", ("red",))
    monkeypatch.setattr(pools.Draw, "pseudo_word", lambda self: "red")
    row = _row("play Red for Anna", {"who": "Anna"})
    pair = _row("Anna meets Bob", {"who": "Anna", "whom": "Bob"})
    for seed in range(60):
        assert augment(row, VALUES, _rng(seed)).calls[0].arguments["who"].lower() != "red"
        arguments = augment(pair, VALUES, _rng(seed)).calls[0].arguments
        assert sum("red" in value.lower() for value in arguments.values()) <= 1


def test_values_with_digits_mostly_keep_their_shape():
    rng = _rng(0)
    made = [augment(_row("wake me at 7:35 pm", {"time": "7:35 pm"}), VALUES, rng) for _ in range(300)]
    new = [m.calls[0].arguments["time"] for m in made]
    shaped = [v for v in new if re.fullmatch(r"[1-9]:[3-5]\d pm", v) and v != "7:35 pm"]
    assert len(shaped) > 120


def test_other_rows_of_the_query_are_not_touched_by_a_new_value():
    row = _row("play Thriller by Jackson on 3 speakers", {"t": "Thriller", "a": "Jackson", "n": 3})
    for seed in range(40):
        made = augment(row, VALUES, _rng(seed))
        arguments = made.calls[0].arguments
        assert made.query == f"play {arguments['t']} by {arguments['a']} on {arguments['n']} speakers"
